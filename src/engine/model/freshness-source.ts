/**
 * Performs the reads that the cache alone cannot answer. The source of a cache (an upstream, a NATS stream, a worker's
 * primary) provides this object, and the cache calls it.
 */
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

export interface FreshnessSource {
  /**
   * Whether a progress report after `requestProgress` proves freshness (etcd >= 3.4.31, >= 3.5.13). If not, only a read
   * does.
   */
  readonly trustsProgress: boolean
  /** Returns etcd's revision, not older than any write that had completed before the call. @throws UpstreamError */
  currentRevision(signal?: AbortSignal): Promise<Revision>
  /** Asks for the progress of the feed. The request may go unanswered, so ask again. */
  requestProgress(): void
  /**
   * Reads the whole prefix: at exactly that revision or, with null, not older than the call.
   *
   * @throws UpstreamError; TooManyRequestsError when too many different old revisions are being read.
   */
  readState(revision: Revision | null, signal?: AbortSignal): Promise<StateAtRevision>
  /** Reads one key linearizably; null when it does not exist. @throws UpstreamError */
  readKey(key: Key, signal?: AbortSignal): Promise<KeyValue | null>
}

export interface StateAtRevision {
  readonly revision: Revision
  /** Sorted by key. */
  readonly keyValues: readonly KeyValue[]
}
