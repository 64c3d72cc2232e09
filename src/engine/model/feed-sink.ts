/**
 * The interface between a feed and its consumer: a watch cache, a relay to workers, a publisher to NATS. Every call is
 * synchronous and in order of revision.
 */
import type { Batch, KeyValue } from './event.js'
import type { Revision } from './revision.js'

/**
 * Why a whole state is delivered.
 * - `initial`: the first one.
 * - `gap`: history was lost between the last revision and this one, so watchers below it cannot get every event: 410.
 * - `coalesce`: the same gap, but the sink turns the difference into events (puts at their own mod revisions, deletes
 *   at the state's revision, a recreated object as delete and put), so that watchers stay connected. The feed
 *   has compared one key. If the sink finds another that cannot belong to the same history (written at or below the
 *   sink's own revision, but different from what the sink holds), it treats the whole as `history-changed`.
 * - `history-changed`: another etcd, or an older one restored. Nothing known before is valid: 410 for all.
 */
export type ReplaceReason = 'initial' | 'gap' | 'coalesce' | 'history-changed'

/** Pages of one state; nothing becomes visible before `commit`. */
export interface Replacement {
  /** Values may be slices of a message: copy what is kept. */
  add(keyValues: readonly KeyValue[]): void
  commit(): void
  abort(): void
}

export interface FeedSink {
  /** Whether a client has asked for the resource before its first state was there. */
  readonly isAwaited?: boolean
  /**
   * Returns the number of keys delivered and not deleted since; for sources that do not tell a creation from an update.
   * Absent in a sink that does not hold the state.
   */
  countKeys?(): number
  /** Replaces everything under the prefix by the state at `revision`. */
  replace(revision: Revision, reason: ReplaceReason): Replacement
  /** Batches are in ascending order, and above everything before. */
  apply(batches: readonly Batch[]): void
  /** Everything up to `revision` has been delivered. */
  progress(revision: Revision): void
  /**
   * The first state and the history after it are complete: from now on reads may be answered. Called again after each
   * recovery.
   */
  synced(): void
  /**
   * The source is disconnected, for a reason to display; the cached state is still served. `synced` or `apply` ends
   * this.
   */
  disconnected(reason: string): void
  /**
   * Everything that existed `ageMs` ago has been delivered, and the source will confirm that again within `validMs`. If
   * it does not, the cache counts as that old. For sources whose silence may go unnoticed for a while. After the first
   * call only this method sets the age; `apply`, `progress` and `synced` do not. `Infinity` reverts to that.
   */
  confirmed?(ageMs: number, validMs: number): void
  /** The resource cannot be listed at all (permission). Clients get the reason, and readiness does not wait for it. */
  refused(reason: string): void
}
