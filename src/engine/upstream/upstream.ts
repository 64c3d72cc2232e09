/**
 * The source of a feed: three small interfaces that follow etcd's rules and know nothing about Kubernetes. `etcd/`
 * talks to a real etcd, and `embedded/` follows the same documented rules in this process. The same contract tests run
 * against both.
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
  /**
   * The most keys to return. A page may have fewer, to stay within message limits. By default, only the message limits
   * apply.
   */
  readonly limit?: number
  /** Whether to leave the values empty. */
  readonly keysOnly?: boolean
  /**
   * Whether the caller opens a watch right after reading this state. A source may then serve both with one response;
   * see `isContinued`.
   */
  readonly willWatch?: boolean
  readonly signal?: AbortSignal | undefined
}

export interface Page {
  /**
   * The revision of the page: the requested one, or etcd's at the time of the read. Later pages must request this
   * revision.
   */
  readonly revision: Revision
  /** etcd's newest revision at the time of the response. */
  readonly currentRevision: Revision
  /** Sorted by key. Values may be slices of the response, so copy a value to keep it. */
  readonly keyValues: readonly KeyValue[]
  /** Whether keys remain after the last key of this page. */
  readonly more: boolean
  /** The number of keys from the start of this page to the end of the prefix, at the page's revision. */
  readonly count: number
  /**
   * Whether a watch from the next revision continues the response that contained this page, so no change can be
   * missed between the two. The watch fails if that response has broken off in the meantime.
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
   * Sorted by key, after all keys of the previous part. Values may be slices of the response, so copy a value to keep
   * it.
   */
  readonly keyValues: readonly KeyValue[]
  /** Whether another part follows. If the stream ends although another part should follow, it has been cut off. */
  readonly more: boolean
}

export interface UpstreamStatus {
  /** Decimal text. A different id means a different etcd, even if the revisions match. */
  readonly clusterId: string
  readonly serverVersions: readonly string[]
  /**
   * Whether a response to `requestProgress` can be trusted. This requires etcd 3.4.31 or 3.5.13 (#15220, #17507) or
   * later on every endpoint.
   */
  readonly trustsProgress: boolean
  /**
   * Whether reading a past state is very expensive. If so, only the current state should be listed, whatever the
   * backfill, and histories should be compared with few reads.
   */
  readonly isHistoryDear?: boolean
  /**
   * Whether watches from recent revisions are cheap anyway, because the source keeps its latest events in memory. A
   * watch from before them ends with `compacted`.
   */
  readonly keepsEvents?: boolean
}

/** Reads the state. A publisher and a primary process provide this interface to other processes. */
export interface StateReader {
  /** @throws UpstreamError */
  read(options: ReadOptions): Promise<Page>
  /**
   * Reads the keys of a prefix from `startKey` on, at one revision, in a single request. Null or absent if the source
   * supports only pages. A stream that breaks is not repeated at another endpoint, so continue after its last key.
   *
   * @throws UpstreamError from the iterator; `protocol` also if the source turns out not to support streams.
   */
  stream?(options: StreamOptions): AsyncGenerator<StreamPart, void, undefined> | null
  /** Whether reading keys without values is much cheaper than reading everything. */
  readonly areKeysCheap?: boolean
  /** Reads one key, linearizably or at a revision; null when it does not exist. @throws UpstreamError */
  readKey(key: Key, options?: { revision?: Revision; signal?: AbortSignal }): Promise<KeyValue | null>
  /**
   * Linearizable: the revision is not older than any write that had completed before the call.
   * @throws UpstreamError
   */
  currentRevision(signal?: AbortSignal): Promise<Revision>
}

/** Problems of a source that still feeds its resources. */
export interface SourceProblems {
  /**
   * Why reads that were allowed before are refused now; null if no such refusal is known. Absent if the source does not
   * keep track of refusals.
   */
  readonly refusedReads?: string | null | undefined
  /** Why the source's roles do not protect it; null if that is not known. Absent if the source has no roles. */
  readonly bypassedRoles?: string | null | undefined
  /** Why the source's resources may have changed unnoticed; null if they are known. Absent if they are not discovered. */
  readonly outdatedDiscovery?: string | null | undefined
}

/** Returns the first problem of each kind. */
export function problemsOf(sources: readonly SourceProblems[]): SourceProblems {
  const firstOf = (kind: keyof SourceProblems): string | null | undefined => {
    const found = sources.map((source) => source[kind]).filter((problem) => problem !== undefined)
    return found.find((problem) => problem !== null) ?? found[0]
  }
  return {
    refusedReads: firstOf('refusedReads'),
    bypassedRoles: firstOf('bypassedRoles'),
    outdatedDiscovery: firstOf('outdatedDiscovery'),
  }
}

export interface UpstreamReader extends StateReader, SourceProblems {
  /** @throws UpstreamError */
  status(signal?: AbortSignal): Promise<UpstreamStatus>
  /** Set if this is redetermined between two calls of `status`. It takes precedence over the last status. */
  readonly trustsProgress?: boolean
}

export interface UpstreamWatchOptions {
  readonly prefix: Key
  /** Inclusive, as in etcd, so after a list it is the list's revision + 1. It may be a future revision. */
  readonly startRevision: Revision
  /**
   * Whether to request a large response in parts. Splitting takes etcd time quadratic in the number of events, so this
   * is for watches of which a response was `too-large`.
   */
  readonly inParts?: boolean
}

/**
 * Why a watch ended without being closed. After `compacted`, history is lost; after `failed` and `left`, only the
 * connection is. `left`: the member that served the watch is unusable but another one responds, so the next watch need
 * not wait. A source reports this at most once a second. `contradicted`: an event arrived for a revision that had
 * already been delivered as complete.
 */
export type WatchEnd =
  | { readonly kind: 'compacted'; readonly compactRevision: Revision }
  | { readonly kind: 'contradicted'; readonly revision: Revision }
  | { readonly kind: 'failed' | 'left'; readonly error: UpstreamError }

/**
 * The handlers are called synchronously, one at a time, in etcd's order. None of them is called after `close()` or
 * `onEnd`.
 */
export interface WatchHandlers {
  /** etcd has accepted the watch. */
  onOpen(): void
  /**
   * Delivers whole revisions. The revision of the last batch also counts as progress. etcd has been seen to repeat
   * events after a restore from a snapshot (#15271), and to send events from before a future start revision (#20221),
   * so the receiver drops events that it already has.
   */
  onBatches(batches: readonly Batch[]): void
  /** Everything at or before `revision` under the prefix has been passed to `onBatches`. See `trustsProgress`. */
  onProgress(revision: Revision): void
  onEnd(end: WatchEnd): void
}

/** The maximum age of the content that a watch has delivered. */
export interface SourceAge {
  /** Everything that the source had this long ago has been delivered or is on its way. */
  readonly ageMs: number
  /** The age after which the content counts as old. If all is well, the source confirms its age again before that. */
  readonly validMs: number
}

export interface UpstreamWatch {
  /** null while unknown. Absent if the end of the source is always noticed at once. */
  readonly age?: SourceAge | null
  /** Asks the source for its age now. Resolves when the age is known, or when the source does not answer. */
  confirm?(): Promise<void>
  /**
   * Asks for an `onProgress` soon. Does nothing if `trustsProgress` is false. The request may go unanswered, so ask
   * again.
   * @param isCaughtUp false while the watch may still lag, so that a missing answer means nothing. Default: true.
   */
  requestProgress(isCaughtUp?: boolean): void
  close(): void
}

export interface UpstreamWatcher {
  /**
   * Opens a watch. Never throws and never reconnects by itself, because the feed decides what to do about a lost watch.
   */
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
  /**
   * One of the compared keys did not match. `current` is the state of all compared keys, in the order of `compares`.
   */
  | { readonly kind: 'conflict'; readonly revision: Revision; readonly current: readonly (KeyValue | null)[] }

export interface UpstreamWriter {
  /** Performs all operations in one transaction at one revision, or none of them. @throws UpstreamError */
  write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult>
  /** @returns the lease id as decimal text. @throws UpstreamError */
  grantLease(ttlSeconds: number): Promise<string>
  /** Ends a lease that has no keys. Does nothing if the lease has keys or does not exist. @throws UpstreamError */
  dropLease(leaseId: string): Promise<void>
}

/** A stream of messages in both directions, as they are on the wire. */
export interface RawStream {
  send(message: Uint8Array): void
  /** Stops reading until `resume`, so that etcd has to wait. */
  pause(): void
  resume(): void
  cancel(): void
  /**
   * Reports that etcd has refused a request in a message. Returns whether the reason is this server's token; another
   * stream then has another token.
   */
  refused(reason: string): boolean
}

export interface RawHandlers {
  onMessage(message: Buffer): void
  /** Called once, with null if etcd ended the stream without an error. Not called after `cancel`. */
  onEnd(error: Error | null): void
}

/** Calls in etcd's own protocol, for requests that are passed on as they are. They go with this server's user. */
export interface RawUpstream {
  /** Whether the answer to a range of keys without values shows their leases, as etcd's did before 3.7. */
  showsLeasesOfKeys(this: void): boolean
  /**
   * @param options.isRepeatable whether the call changes nothing, so that it may be repeated at another endpoint.
   * @throws RpcError with the code and the text of etcd; UpstreamError when no endpoint answers.
   */
  call(
    path: string,
    request: Uint8Array,
    options: { readonly isRepeatable: boolean; readonly signal?: AbortSignal },
  ): Promise<Buffer>
  /** @throws UpstreamError when no endpoint can be reached. */
  stream(path: string, handlers: RawHandlers): Promise<RawStream>
}

export interface Upstream extends UpstreamReader, UpstreamWatcher, UpstreamWriter {
  /** Absent if the source does not speak etcd's protocol. */
  readonly raw?: RawUpstream
  close(): Promise<void>
}

export type UpstreamErrorCode =
  /** There was no response in time. Retry with back-off. */
  | 'unavailable'
  /** The revision has been compacted; see `compactRevision`. */
  | 'compacted'
  /** The revision is above etcd's own. Either this member is behind, or the history is another one. */
  | 'future-revision'
  | 'permission-denied'
  /** etcd rejects our user, password or token, whatever the request. */
  | 'unauthenticated'
  /** A message exceeds a limit of the client or the server. */
  | 'too-large'
  /** etcd's NOSPACE alarm. */
  | 'no-space'
  /** The lease of a write has expired. */
  | 'lease-not-found'
  /** A store that speaks etcd's protocol lacks this kind of transaction, as kine does. */
  | 'unsupported'
  /** The response breaks the contract, for instance with a revision above 2^53 or a malformed message. */
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

  /**
   * The first revision that can still be read, if the server has reported it. The error of a range read does not
   * contain it.
   */
  readonly compactRevision: Revision | null
}
