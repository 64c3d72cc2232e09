/**
 * Where a feed comes from: three small interfaces that know etcd's rules and nothing of Kubernetes. `etcd/` speaks to a
 * real one, `embedded/` obeys the same documented rules in process, and one contract suite runs against both.
 */
import type { Batch, Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'

export interface ReadOptions {
  /** Every key that starts with it. */
  readonly prefix: Key
  /** Inclusive first key of the page, for going on after an earlier one. Default: the start of the prefix. */
  readonly startKey?: Key
  /** Exactly this revision. Default: linearizable, at a revision not older than the call. */
  readonly revision?: Revision
  /** Most keys to return; a page may hold fewer, to stay within message limits. Default: no bound but that. */
  readonly limit?: number
  /** Leave the values empty. */
  readonly keysOnly?: boolean
  readonly signal?: AbortSignal
}

export interface Page {
  /** The revision the page shows: the one asked for, or etcd's at the time of the read. Later pages must name it. */
  readonly revision: Revision
  /** etcd's own newest revision when it answered. */
  readonly currentRevision: Revision
  /** Sorted by key. */
  readonly keyValues: readonly KeyValue[]
  /** Keys remain after the last of this page. */
  readonly more: boolean
  /** Keys under [startKey, end of prefix) at that revision, this page's included. */
  readonly count: number
}

export interface UpstreamStatus {
  /** Decimal text; a different one is a different etcd, whatever its revisions say. */
  readonly clusterId: string
  readonly revision: Revision
  readonly serverVersions: readonly string[]
  /**
   * Whether an answer to `requestProgress` means what it says. Only from etcd 3.4.31 and 3.5.13 on (#15220, #17507), and
   * only when every endpoint is that new.
   */
  readonly trustsProgress: boolean
  /** true: a state of the past costs it so much that only the present should be asked for, whatever the backfill. */
  readonly isHistoryDear?: boolean
}

export interface UpstreamReader {
  /** @throws UpstreamError */
  read(options: ReadOptions): Promise<Page>
  /** One key, linearizable or at a revision; null when it is not there. @throws UpstreamError */
  readKey(key: Key, options?: { revision?: Revision; signal?: AbortSignal }): Promise<KeyValue | null>
  /** Linearizable: not older than any write that had returned before the call. @throws UpstreamError */
  currentRevision(signal?: AbortSignal): Promise<Revision>
  /** @throws UpstreamError */
  status(signal?: AbortSignal): Promise<UpstreamStatus>
  /** As of now, where it is found out again between one `status` and the next: goes before what that said. */
  readonly trustsProgress?: boolean
}

export interface UpstreamWatchOptions {
  readonly prefix: Key
  /** Inclusive, as in etcd: a list's revision + 1. May lie in the future. */
  readonly startRevision: Revision
}

/** How a watch ended without being asked to. A compaction loses history, anything else only the connection. */
export type WatchEnd =
  | { readonly kind: 'compacted'; readonly compactRevision: Revision }
  | { readonly kind: 'failed'; readonly error: UpstreamError }

/** Called synchronously, one at a time, in etcd's order; nothing is called after `close()` or `onEnd`. */
export interface WatchHandlers {
  /** etcd accepted the watch. */
  onOpen(): void
  /** Whole revisions, ascending, each above the last; the last one's revision is progress as well. */
  onBatches(batches: readonly Batch[]): void
  /** Everything at or before `revision` under the prefix has been handed to `onBatches`. Trusted: see `trustsProgress`. */
  onProgress(revision: Revision): void
  onEnd(end: WatchEnd): void
}

export interface UpstreamWatch {
  /** Asks for an `onProgress` soon. Does nothing where `trustsProgress` is false; may go unanswered: ask again. */
  requestProgress(): void
  close(): void
}

export interface UpstreamWatcher {
  /** Never throws and never reconnects by itself: the feed decides what a lost watch means. */
  watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch
}

export interface Compare {
  readonly key: Key
  /** The key's mod revision must equal this; 0: it must not exist. */
  readonly modRevision: Revision
}

export type WriteOperation =
  | { readonly type: 'put'; readonly key: Key; readonly value: Buffer; readonly leaseId?: string }
  | { readonly type: 'delete'; readonly key: Key }

export type WriteResult =
  | { readonly kind: 'written'; readonly revision: Revision }
  /** What the compared keys held when one of them did not compare equal, in the order of `compares`. */
  | { readonly kind: 'conflict'; readonly revision: Revision; readonly current: readonly (KeyValue | null)[] }

export interface UpstreamWriter {
  /** One transaction, one revision, all or nothing. @throws UpstreamError */
  write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult>
  /** @returns the lease id as decimal text. @throws UpstreamError */
  grantLease(ttlSeconds: number): Promise<string>
}

export interface Upstream extends UpstreamReader, UpstreamWatcher, UpstreamWriter {
  close(): Promise<void>
}

export type UpstreamErrorCode =
  /** Nobody answers, or not in time: try again, with backoff. */
  | 'unavailable'
  /** The revision is below the compaction: see `compactRevision`. */
  | 'compacted'
  /** The revision is above etcd's own: a replica behind, or another history. */
  | 'future-revision'
  | 'permission-denied'
  | 'unauthenticated'
  /** A message over the limits of client or server. */
  | 'too-large'
  /** etcd's NOSPACE alarm. */
  | 'no-space'
  /** An answer that breaks the contract (a revision above 2^53, a malformed message). */
  | 'protocol'

export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'

  constructor(
    readonly code: UpstreamErrorCode,
    message: string,
    options: ErrorOptions & { compactRevision?: Revision } = {},
  ) {
    super(message, options)
    this.compactRevision = options.compactRevision ?? null
  }

  /** The first revision that can still be read, where the server said it; a range read's answer does not. */
  readonly compactRevision: Revision | null
}
