/**
 * Where a read goes that the cache alone cannot answer. What stands behind a cache (an upstream, a NATS stream, a
 * worker's primary) hands this object over whole, and the cache asks it.
 */
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

export interface FreshnessSource {
  /**
   * Whether waiting for progress after `requestProgress` proves freshness (etcd >= 3.4.31, >= 3.5.13); else only a read
   * does.
   */
  readonly trustsProgress: boolean
  /** etcd's revision, not older than any write that had returned before the call. @throws UpstreamError */
  currentRevision(signal?: AbortSignal): Promise<Revision>
  /** Asks for the progress of the feed. The request may go unanswered: ask again. */
  requestProgress(): void
  /**
   * The whole prefix: at exactly that revision, or (null) not older than the call.
   *
   * @throws UpstreamError; TooManyRequestsError when too many different old revisions are being read.
   */
  readState(revision: Revision | null, signal?: AbortSignal): Promise<StateAtRevision>
  /** One key, linearizable; null when it is not there. @throws UpstreamError */
  readKey(key: Key, signal?: AbortSignal): Promise<KeyValue | null>
}

export interface StateAtRevision {
  readonly revision: Revision
  /** Sorted by key. */
  readonly keyValues: readonly KeyValue[]
}
