/**
 * The interface between a feed and what it feeds: a watch cache, a relay to workers, a publisher to NATS. Every call is
 * synchronous and in order of revision.
 */
import type { Batch, KeyValue } from './event.js'
import type { Revision } from './revision.js'

/**
 * Why a whole state is handed over.
 * - `initial`: the first one.
 * - `gap`: history was lost between the last revision and this one; watchers below it cannot be given every event: 410.
 * - `coalesce`: the same gap, but the sink is to turn the difference into events (puts at their own mod revisions,
 *   deletes at the state's revision, a changed create revision as delete and put), so that watchers stay connected. The
 *   feed has compared one key; a sink that meets another which cannot be of the same history (written at or below the
 *   sink's own revision, and not what the sink holds) treats the whole as `history-changed`.
 * - `history-changed`: not the same etcd, or an older one restored: nothing known before means anything now. 410 for
 * all.
 */
export type ReplaceReason = 'initial' | 'gap' | 'coalesce' | 'history-changed'

/** Pages of one state; nothing is visible before `commit`. */
export interface Replacement {
  /** Values may be slices of a message: what is kept of them is copied. */
  add(keyValues: readonly KeyValue[]): void
  commit(): void
  abort(): void
}

export interface FeedSink {
  /** Everything under the prefix at `revision`. */
  replace(revision: Revision, reason: ReplaceReason): Replacement
  /** Ascending, each above everything before. */
  apply(batches: readonly Batch[]): void
  /** Everything at or before `revision` has been handed over. */
  progress(revision: Revision): void
  /** The first state and the history after it are in: from now on reads may be answered. Again after each recovery. */
  synced(): void
  /** The source is away, for a reason to show; what is cached stays served. `synced` or `apply` ends it. */
  disconnected(reason: string): void
  /**
   * What was handed over is all there was `ageMs` ago, and the source will say so again within `validMs`; until it
   * does, the cache is as old as that. For a source that can fall silent without being noticed at once. After this,
   * only it tells the age: `apply`, `progress` and `synced` do not. `Infinity` takes that back.
   */
  confirmed?(ageMs: number, validMs: number): void
  /** The resource cannot be listed at all (permission). Clients get the reason, and readiness does not wait for it. */
  refused(reason: string): void
}
