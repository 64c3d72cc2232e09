/**
 * The source of a feed: three small interfaces that know etcd's rules and nothing of Kubernetes. `etcd/` talks to a
 * real etcd, `embedded/` obeys the same documented rules in this process, and one contract suite runs against both.
 */
import type { Batch, Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'

export interface ReadOptions {
  /** Reads every key with this prefix. */
  readonly prefix: Key
  /** The first key of the page, inclusive, to continue after an earlier page. Default: the start of the prefix. */
  readonly startKey?: Key
  /** Reads exactly this revision. Default: linearizable, at a revision not older than the call. */
  readonly revision?: Revision
  /** The most keys to return; a page may have fewer, to stay within message limits. Default: no other limit. */
  readonly limit?: number
  /** Whether to leave the values empty. */
  readonly keysOnly?: boolean
  /**
   * Whether a watch after this state follows at once. A source may then serve both with one response: see
   * `isContinued`.
   */
  readonly willWatch?: boolean
  readonly signal?: AbortSignal | undefined
}

export interface Page {
  /** The revision of the page: the requested one, or etcd's at the time of the read. Later pages must name it. */
  readonly revision: Revision
  /** etcd's own newest revision when it answered. */
  readonly currentRevision: Revision
  /** Sorted by key. Values may be slices of the response: copy one to keep it. */
  readonly keyValues: readonly KeyValue[]
  /** Whether keys remain after the last of this page. */
  readonly more: boolean
  /** The number of keys under [startKey, end of prefix) at that revision, including this page's. */
  readonly count: number
  /**
   * Whether a watch from the next revision continues the response that this page came from, so that nothing can lie
   * between the two. The watch fails if that response has broken off in the meantime.
   */
  readonly isContinued?: boolean
}

export interface StreamOptions {
  readonly prefix: Key
  /** Inclusive. */
  readonly startKey: Key
  readonly revision: Revision
  readonly keysOnly?: boolean
  readonly signal: AbortSignal
}

/** A piece of a streamed list. */
export interface StreamPart {
  /**
   * Sorted by key, and following those of the part before. Values may be slices of the response: copy one to keep it.
   */
  readonly keyValues: readonly KeyValue[]
  /** Whether another part follows. If the stream ends although another part should follow, it was cut off. */
  readonly more: boolean
}

export interface UpstreamStatus {
  /** Decimal text. A different id means a different etcd, whatever its revisions are. */
  readonly clusterId: string
  readonly serverVersions: readonly string[]
  /**
   * Whether a response to `requestProgress` can be trusted: only from etcd 3.4.31 and 3.5.13 on (#15220, #17507), and
   * only if every endpoint is that new.
   */
  readonly trustsProgress: boolean
  /**
   * Whether reading a past state is so expensive that only the current one should be listed, whatever the backfill, and
   * that histories should be compared in few places.
   */
  readonly isHistoryDear?: boolean
}

/** Reads the state. A publisher and a primary process provide this to others. */
export interface StateReader {
  /** @throws UpstreamError */
  read(options: ReadOptions): Promise<Page>
  /**
   * Reads the keys of a prefix from `startKey` on, at one revision, in a single request. Null or absent if there are
   * only pages. It is not repeated elsewhere when it breaks: continue after the last key.
   *
   * @throws UpstreamError from its iterator; `protocol` also if the source turns out not to have it.
   */
  stream?(options: StreamOptions): AsyncGenerator<StreamPart, void, undefined> | null
  /** Reads one key, linearizably or at a revision; null when it does not exist. @throws UpstreamError */
  readKey(key: Key, options?: { revision?: Revision; signal?: AbortSignal }): Promise<KeyValue | null>
  /** Linearizable: not older than any write that had completed before the call. @throws UpstreamError */
  currentRevision(signal?: AbortSignal): Promise<Revision>
}

export interface UpstreamReader extends StateReader {
  /** @throws UpstreamError */
  status(signal?: AbortSignal): Promise<UpstreamStatus>
  /** Set if it is redetermined between two calls of `status`; takes precedence over the last status. */
  readonly trustsProgress?: boolean
  /** Why reads that were allowed before are refused now; null if none is known, absent where nobody would know. */
  readonly refusedReads?: string | null
}

export interface UpstreamWatchOptions {
  readonly prefix: Key
  /** Inclusive, as in etcd: a list's revision + 1. It may lie in the future. */
  readonly startRevision: Revision
}

/**
 * Why a watch ended without being closed. A compaction loses history, anything else only the connection. `left`: the
 * member that served the watch is unusable but another one answers, so the next watch need not wait. A source reports
 * this at most once a second. `contradicted`: an event at a revision that had been delivered as whole.
 */
export type WatchEnd =
  | { readonly kind: 'compacted'; readonly compactRevision: Revision }
  | { readonly kind: 'contradicted'; readonly revision: Revision }
  | { readonly kind: 'failed' | 'left'; readonly error: UpstreamError }

/** The handlers are called synchronously, one at a time, in etcd's order; none is called after `close()` or `onEnd`. */
export interface WatchHandlers {
  /** etcd accepted the watch. */
  onOpen(): void
  /**
   * Whole revisions. The last one's revision also counts as progress. etcd has repeated events after a restore from a
   * snapshot (#15271), and has sent older ones than a future start revision (#20221): the receiver drops events that it
   * already has.
   */
  onBatches(batches: readonly Batch[]): void
  /** Everything at or before `revision` under the prefix has been passed to `onBatches`. See `trustsProgress`. */
  onProgress(revision: Revision): void
  onEnd(end: WatchEnd): void
}

/** The maximum age of what a watch has delivered. */
export interface SourceAge {
  /** Everything that the source had `ageMs` ago has been delivered, or is on its way. */
  readonly ageMs: number
  /** How long this holds if all is well: the source confirms it again within that time. */
  readonly validMs: number
}

export interface UpstreamWatch {
  /** null while unknown; absent if the end of the source is always noticed at once. */
  readonly age?: SourceAge | null
  /** Asks the source for its age now. Resolves when that is known, or the source does not answer. */
  confirm?(): Promise<void>
  /**
   * Asks for an `onProgress` soon. Does nothing where `trustsProgress` is false, and may go unanswered, so ask again.
   */
  requestProgress(): void
  close(): void
}

export interface UpstreamWatcher {
  /** Never throws and never reconnects by itself: the feed decides what to do about a lost watch. */
  watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch
}

export interface Compare {
  readonly key: Key
  /** The key's mod revision must equal this; 0 means that the key must not exist. */
  readonly modRevision: Revision
}

export type WriteOperation =
  | { readonly type: 'put'; readonly key: Key; readonly value: Buffer; readonly leaseId?: string }
  | { readonly type: 'delete'; readonly key: Key }

export type WriteResult =
  | { readonly kind: 'written'; readonly revision: Revision }
  /** The current state of the compared keys, in the order of `compares`, when one of them did not match. */
  | { readonly kind: 'conflict'; readonly revision: Revision; readonly current: readonly (KeyValue | null)[] }

export interface UpstreamWriter {
  /** Performs one transaction at one revision, all or nothing. @throws UpstreamError */
  write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult>
  /** @returns the lease id as decimal text. @throws UpstreamError */
  grantLease(ttlSeconds: number): Promise<string>
  /** Ends a lease without keys; one that has keys or does not exist is left alone. @throws UpstreamError */
  dropLease(leaseId: string): Promise<void>
}

export interface Upstream extends UpstreamReader, UpstreamWatcher, UpstreamWriter {
  close(): Promise<void>
}

export type UpstreamErrorCode =
  /** No response in time: retry with back-off. */
  | 'unavailable'
  /** The revision has been compacted; see `compactRevision`. */
  | 'compacted'
  /** The revision is above etcd's own: the replica is behind, or the history is another one. */
  | 'future-revision'
  | 'permission-denied'
  /** etcd does not accept our user, password or token, for any request. */
  | 'unauthenticated'
  /** The message exceeds the limits of client or server. */
  | 'too-large'
  /** etcd's NOSPACE alarm. */
  | 'no-space'
  /** The response breaks the contract (a revision above 2^53, a malformed message). */
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

  /** The first revision that can still be read, if the server said so; the response to a range read does not. */
  readonly compactRevision: Revision | null
}
