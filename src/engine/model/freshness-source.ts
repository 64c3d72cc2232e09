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
  /**
   * Reads the keys of the whole prefix without their values, not older than the call. Absent if that costs as much as
   * `readState`.
   * @throws UpstreamError
   */
  readonly summariseKeys?: ((signal?: AbortSignal) => Promise<KeysSummary>) | undefined
  /** Reads one key linearizably; null when it does not exist. @throws UpstreamError */
  readKey(key: Key, signal?: AbortSignal): Promise<KeyValue | null>
}

/**
 * The keys of a prefix at one revision. A summary shows whether an earlier state of the same history equals the later
 * one. If the earlier state has seen `maxModRevision`, it contains every key of the later state unchanged, so if it also
 * has the same number of keys, it contains no others.
 */
export interface KeysSummary {
  readonly revision: Revision
  readonly count: number
  /** The highest mod revision of the existing keys; 0 if there are none. */
  readonly maxModRevision: number
}

export interface StateAtRevision {
  readonly revision: Revision
  /** Sorted by key. */
  readonly keyValues: readonly KeyValue[]
}
