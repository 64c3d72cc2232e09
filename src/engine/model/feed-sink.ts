/**
 * The interface between a feed and its consumer, which is a watch cache, a relay to workers, or a publisher to NATS.
 * Every call is synchronous, and calls are in order of revision.
 */
import type { Batch, KeyValue } from './event.js'
import type { Revision } from './revision.js'

/**
 * Why a whole state is delivered.
 * - `initial`: the first one.
 * - `gap`: history was lost between the last revision and this one, so watchers below it cannot get every event and end
 *   with 410.
 * - `coalesce`: the same gap, but the sink turns the difference into events (puts at their own mod revisions, deletes
 *   at the state's revision, a recreated object as delete and put), so that watchers stay connected. The feed has
 *   compared one key of the histories. If the sink finds another key that cannot belong to the same history (written at
 *   or below the sink's own revision, but different from what the sink holds), it treats the state as
 *   `history-changed`.
 * - `history-changed`: this is another etcd, or an older backup was restored. Nothing delivered before is valid, so all
 *   watchers end with 410.
 */
export type ReplaceReason = 'initial' | 'gap' | 'coalesce' | 'history-changed'

/** Takes the pages of one state. Nothing becomes visible before `commit`. */
export interface Replacement {
  /** Values may be slices of a message, so copy a value to keep it. */
  add(keyValues: readonly KeyValue[]): void
  commit(): void
  abort(): void
}

/** Takes the history from before the first state: the state at its start, and then the events, oldest first. */
export interface EarlierHistory extends Pick<Replacement, 'add'> {
  apply(batches: readonly Batch[]): void
  /** @returns whether the sink has taken the history. */
  commit(): boolean
}

/**
 * The usual `validMs` of a confirmation. This is less than two intervals of etcd's pulse, and of a publisher's status,
 * yet long enough that data does not count as old after one slightly late reply.
 */
export const CONFIRMED_FOR_MS = 1_800

export interface FeedSink {
  /** Whether a client asked for the resource before its first state was complete. */
  readonly isAwaited?: boolean
  /**
   * Returns the number of keys delivered and not deleted since, for sources that do not distinguish a creation from an
   * update. Absent in a sink that does not hold the state.
   */
  countKeys?(): number
  /** Replaces everything under the prefix with the state at `revision`. */
  replace(revision: Revision, reason: ReplaceReason): Replacement
  /** Delivers batches in ascending order, all above everything delivered before. */
  apply(batches: readonly Batch[]): void
  /** Everything up to `revision` has been delivered. */
  progress(revision: Revision): void
  /**
   * The first state and the history after it are complete, so reads may be answered from now on. Called again after
   * each recovery.
   */
  synced(): void
  /**
   * The source is disconnected. `reason` is for display. The cached state is still served. This lasts until the next
   * call of `synced` or `apply`.
   */
  disconnected(reason: string): void
  /**
   * Everything that existed `ageMs` ago has been delivered, and the source will confirm this again within `validMs`. If
   * it does not, the cache reports the time since then as its age. This is for sources whose silence may go unnoticed
   * for a while. After the first call only this method sets the age; `apply`, `progress` and `synced` do not. With
   * `validMs` of `Infinity`, they do again.
   */
  confirmed?(ageMs: number, validMs: number): void
  /**
   * Reports whether history from before the first state is being read back. Meanwhile, a client that resumes from before that
   * state waits.
   */
  seeking?(isSeeking: boolean): void
  /**
   * Delivers the history between two revisions. `until` is the revision of the first state. Of the state at `after`,
   * only the keys of the events are delivered. Nothing becomes visible before `commit`, and nothing at all if the sink
   * has lost the history after `until`, or holds another state there.
   */
  earlier?(after: Revision, until: Revision): EarlierHistory
  /**
   * The source refuses this server the resource, for instance for lack of permission. Before the first state, readiness
   * shows the reason and does not wait for the resource. After it, this includes a call of `disconnected`. If the source
   * has refused every attempt for a while (`isLasting`), the watches also end, because they would get no events. This
   * lasts until the next call of `synced`, `apply` or `progress`, even if the source becomes unreachable in between.
   */
  refused(reason: string, isLasting: boolean): void
}
