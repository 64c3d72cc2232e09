/**
 * etcd as an upstream: reads, watches and writes over its gRPC API, with failover between endpoints. Every kind of
 * failure is reported as an `UpstreamError`.
 *
 * A call that cannot have changed anything is repeated at another endpoint when one does not respond. A write is not
 * repeated, because its outcome is unknown. The exception is a refused token, which means that etcd has not executed
 * the write. All reads are linearizable.
 */
import { keyFromText, prefixEnd, type Key, type KeyValue } from '../../model/event.js'
import type { UpstreamMetrics } from '../../model/stage-metrics.js'
import { toRevision, type Revision } from '../../model/revision.js'
import { systemClock, type Clock } from '../../../support/clock.js'
import { silentLogger, type Logger } from '../../../support/log.js'
import { SingleFlight } from '../../../support/single-flight.js'
import { sourceTurns } from '../../../support/turns.js'
import {
  UpstreamError,
  type Compare,
  type Page,
  type RawHandlers,
  type RawStream,
  type RawUpstream,
  type ReadOptions,
  type StreamOptions,
  type StreamPart,
  type Upstream,
  type UpstreamStatus,
  type UpstreamWatch,
  type WatchHandlers,
  type UpstreamWatchOptions,
  type WriteOperation,
  type WriteResult,
} from '../upstream.js'
import type { EtcdUser } from './auth-token.js'
import {
  decodeLeaseGrantResponse,
  decodeTxnResponse,
  decodeIsEmptyLease,
  encodeLeaseGrantRequest,
  encodeLeaseRevokeRequest,
  encodeLeaseTimeToLiveRequest,
  encodeRangeRequest,
  encodeTxnRequest,
  paths,
  type RangeRequest,
  type StatusResponse,
} from './control-messages.js'
import { rangeDecoding, rangeOfStream, type RangeResponse } from './data-messages.js'
import { EndpointPool } from './endpoint-pool.js'
import { EtcdCalls } from './etcd-calls.js'
import { EtcdWatch } from './etcd-watch.js'
import type { EtcdTls } from './grpc-connection.js'
import { isTokenRejected } from './etcd-error.js'
import { GrpcEndpoint, type GrpcStream } from './grpc-endpoint.js'
import { RpcError, RpcStatus } from './rpc-status.js'
import { newLeaseId } from '../lease-id.js'
import { MemberHealth } from './member-health.js'
import { MemberPulse } from './member-pulse.js'
import { MAX_KEYS, PageSizes } from './page-sizes.js'
import { ProgressAnswers } from './progress-answers.js'
import { ReadablePrefixes } from './readable-prefixes.js'
import {
  AUTH_BYPASS,
  checksRoles,
  hasAuthBypass,
  hasFastKeysOnly,
  hasRangeStream,
  isProgressTrusted,
} from './member-versions.js'

export interface EtcdCredentials {
  /** Applies to https endpoints. */
  readonly tls?: EtcdTls
  readonly user?: EtcdUser
}

export interface EtcdUpstreamOptions extends EtcdCredentials {
  /** At least one URL, `http://host:port` or `https://host:port`. The port defaults to 2379. */
  readonly endpoints: readonly string[]
  /**
   * Calls the listener whenever the credentials change, and returns a function that stops this. Running calls keep
   * their connection; new connections use the new credentials.
   */
  readonly followCredentials?: (listener: (credentials: EtcdCredentials) => void) => () => void
  /**
   * The time limit of one call to one endpoint, in milliseconds. Default: 10 s, because etcd itself gives up after 7 s.
   */
  readonly requestTimeoutMs?: number
  /** The time limit for connecting to any endpoint, in milliseconds. Default: 5 s. */
  readonly connectTimeoutMs?: number
  /**
   * The interval between pings on a connection with running calls, in milliseconds. Default: 6 s, because etcd treats
   * more than one ping in 5 s (its `--grpc-keepalive-min-time`) as an attack and ends the connection.
   */
  readonly keepAliveTimeMs?: number
  /** The time limit for the response to a ping, in milliseconds. Default: 3 s. */
  readonly keepAliveTimeoutMs?: number
  /**
   * The largest accepted message. A larger one fails as `too-large` and is never read into memory. Default: 160 MiB.
   */
  readonly maxReceivedBytes?: number
  /** Turns the reason for a failed connection into advice. Default: as it is. */
  readonly explain?: (reason: string, url: string) => string
  readonly metrics?: UpstreamMetrics
  readonly clock?: Clock
  readonly logger?: Logger
}

/** The time limit for a member to report its version, in milliseconds. */
const STATUS_TIMEOUT_MS = 2_000

/**
 * The time limit for reading the revision from a member before the next one is tried, in milliseconds. It is shorter
 * than for a page because the request is small.
 */
const REVISION_ATTEMPT_MS = 1_000

const REQUEST_TIMEOUT_MS = 10_000
const CONNECT_TIMEOUT_MS = 5_000
const KEEP_ALIVE_TIME_MS = 6_000
const KEEP_ALIVE_TIMEOUT_MS = 3_000
/**
 * etcd does not limit its responses. The limit must be above gRPC's default of 4 MB, because a page or a revision may
 * be larger than that. But a watch that is behind receives 1,000 revisions in one response, and with 1 MB each those
 * would fill our memory. A message begins with its size, so a larger one can be refused. A first page with the largest
 * values that etcd accepts is within the limit.
 */
const MAX_RECEIVED_BYTES = 160 * 1_048_576

/**
 * Returns an upstream that connects on first use, and again whenever necessary.
 * @throws TypeError when an endpoint is not a URL.
 */
export function connectEtcd(options: EtcdUpstreamOptions): Upstream {
  return new EtcdUpstream(options)
}

class EtcdUpstream implements Upstream {
  readonly areKeysCheap = true
  readonly raw: RawUpstream = {
    call: async (path, request, options) => {
      try {
        return await this.#calls.call(path, request, options)
      } catch (error) {
        throw error instanceof UpstreamError && error.cause instanceof RpcError ? error.cause : error
      }
    },
    showsLeasesOfKeys: () => !this.#everyMember(hasFastKeysOnly),
    stream: (path, handlers) => this.#rawStream(path, handlers),
  }
  readonly #pool: EndpointPool
  readonly #calls: EtcdCalls
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #requestTimeoutMs: number
  readonly #connectTimeoutMs: number
  readonly #pageSizes = new PageSizes()
  readonly #versions = new Map<GrpcEndpoint, string>()
  readonly #watches = new Set<EtcdWatch>()
  readonly #rawStreams = new Map<GrpcStream, { readonly endpoint: GrpcEndpoint; readonly handlers: RawHandlers }>()
  readonly #health: MemberHealth<GrpcEndpoint>
  readonly #pulse: MemberPulse<GrpcEndpoint>
  readonly #status = new SingleFlight(() => this.#requestStatus())
  readonly #stopFollowing: () => void
  readonly #readable: ReadablePrefixes
  readonly #progress: ProgressAnswers
  readonly #hasUser: boolean
  #trustsProgress = false
  #bypassedRoles: string | null = null
  /** Whether it is known, or being found out, if roles can be bypassed. */
  #areRolesChecked = false

  constructor(options: EtcdUpstreamOptions) {
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#hasUser = options.user !== undefined
    this.#readable = new ReadablePrefixes(this.#logger)
    this.#progress = new ProgressAnswers({
      clock: this.#clock,
      logger: this.#logger,
      askAll: () => {
        for (const watch of this.#watches) watch.askForProgress()
      },
    })
    this.#requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS
    this.#connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
    const endpoints = options.endpoints.map(
      (url) =>
        new GrpcEndpoint({
          url,
          explain: options.explain,
          ...(options.tls === undefined ? {} : { tls: options.tls }),
          keepAliveTimeMs: options.keepAliveTimeMs ?? KEEP_ALIVE_TIME_MS,
          keepAliveTimeoutMs: options.keepAliveTimeoutMs ?? KEEP_ALIVE_TIMEOUT_MS,
          maxReceivedBytes: options.maxReceivedBytes ?? MAX_RECEIVED_BYTES,
        }),
    )
    this.#pool = new EndpointPool(endpoints, this.#connectTimeoutMs, this.#clock, (endpoint) =>
      this.#health.isSilent(endpoint),
    )
    this.#calls = new EtcdCalls(this.#pool, {
      user: options.user ?? null,
      requestTimeoutMs: this.#requestTimeoutMs,
      metrics: options.metrics,
    })
    this.#health = new MemberHealth({
      members: endpoints,
      revisionOf: async (endpoint, deadlineMs) => {
        const response = await this.#statusOf(endpoint, deadlineMs)
        return response instanceof UpstreamError ? null : toRevision(response.revision)
      },
      receivedFrom: (endpoint) => endpoint.receivedMessages,
      onSilent: (endpoint) => {
        this.#leave(endpoint, 'does not respond, while another member does')
        endpoint.abandon()
      },
      onBehind: (endpoint, own, others) =>
        this.#leave(endpoint, `is behind the other members: revision ${own} instead of ${others}`),
      clock: this.#clock,
    })
    this.#pulse = new MemberPulse({
      inUse: () => this.#endpointsInUse(),
      confirms: (endpoint, deadlineMs) => this.#confirms(endpoint, deadlineMs),
      clock: this.#clock,
    })
    const use = ({ tls, user }: EtcdCredentials): void => {
      if (tls !== undefined) for (const endpoint of endpoints) void this.#renew(endpoint, tls)
      if (user !== undefined) this.#calls.token.use(user)
    }
    this.#stopFollowing = options.followCredentials?.(use) ?? ((): void => {})
  }

  async read(options: ReadOptions): Promise<Page> {
    const { prefix, startKey = prefix, revision, keysOnly = false, signal } = options
    for (;;) {
      const pageKeys = keysOnly ? MAX_KEYS : this.#pageSizes.keysFor(prefix)
      const limit = Math.min(options.limit ?? pageKeys, pageKeys)
      try {
        const [response, bytes] = await this.#range(
          {
            key: startKey,
            rangeEnd: prefixEnd(prefix),
            limit,
            keysOnly,
            ...(revision === undefined ? {} : { revision }),
          },
          signal,
        )
        if (!keysOnly) this.#pageSizes.observe(prefix, response.keyValues.length, bytes)
        this.#readable.allowed(prefix)
        return {
          revision: revision ?? response.headerRevision,
          currentRevision: response.headerRevision,
          keyValues: response.keyValues,
          more: response.more,
          count: response.count,
        }
      } catch (error) {
        this.#noteRefusal(prefix, error)
        const isTooLarge = error instanceof UpstreamError && error.code === 'too-large'
        if (!isTooLarge || !this.#pageSizes.halve(prefix, limit)) throw error
      }
    }
  }

  stream(options: StreamOptions): AsyncGenerator<StreamPart, void, undefined> | null {
    return this.#everyMember(hasRangeStream) ? this.#stream(options) : null
  }

  async readKey(key: Key, options: { revision?: Revision; signal?: AbortSignal } = {}): Promise<KeyValue | null> {
    const { revision, signal } = options
    const [response] = await this.#range({ key, ...(revision === undefined ? {} : { revision }) }, signal)
    return response.keyValues[0] ?? null
  }

  async currentRevision(signal?: AbortSignal): Promise<Revision> {
    for (;;) {
      const prefix = this.#readable.likely
      try {
        const [response] = await this.#range(probeOf(prefix), signal, REVISION_ATTEMPT_MS)
        if (prefix !== null) this.#readable.allowed(prefix)
        return response.headerRevision
      } catch (error) {
        // The user may still be allowed to read another prefix.
        if (prefix === null || this.#readable.isRefused(prefix) || !this.#noteRefusal(prefix, error)) throw error
      }
    }
  }

  /** Concurrent callers share a response. It is never older than the call. */
  status(signal?: AbortSignal): Promise<UpstreamStatus> {
    return this.#status.join(signal)
  }

  async #requestStatus(): Promise<UpstreamStatus> {
    const { endpoints } = this.#pool
    const audible = endpoints.filter((endpoint) => !this.#health.isSilent(endpoint))
    let results = await this.#statusOfAll(audible)
    const isStatus = (result: StatusResponse | UpstreamError): result is StatusResponse =>
      !(result instanceof UpstreamError)
    if (!results.some(isStatus) && audible.length < endpoints.length) {
      results = await this.#statusOfAll(endpoints)
    }
    const statuses = results.filter(isStatus)
    const failure = results.find((result) => result instanceof UpstreamError)
    const [first] = statuses
    if (!first) throw failure ?? new UpstreamError('unavailable', 'no etcd endpoint answered')
    const other = statuses.find(({ clusterId }) => clusterId !== first.clusterId)
    if (other) {
      throw new UpstreamError(
        'protocol',
        `the etcd endpoints belong to different clusters: ${first.clusterId} and ${other.clusterId}`,
      )
    }
    return {
      clusterId: first.clusterId,
      serverVersions: statuses.map(({ version }) => version),
      trustsProgress: this.trustsProgress,
    }
  }

  get trustsProgress(): boolean {
    return this.#trustsProgress && !this.#progress.areDropped
  }

  get refusedReads(): string | null {
    return this.#readable.problem
  }

  get bypassedRoles(): string | null {
    return this.#bypassedRoles
  }

  watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    let unwatched: (() => void) | null = null
    const watch = new EtcdWatch(
      {
        pool: this.#pool,
        token: this.#calls.token,
        clock: this.#clock,
        openTimeoutMs: this.#requestTimeoutMs,
        trustsProgress: () => this.trustsProgress,
        progress: this.#progress,
        pulse: this.#pulse,
        onOpen: () => (unwatched ??= this.#readable.watched(options.prefix)),
        onOver: (over) => {
          this.#watches.delete(over as EtcdWatch)
          unwatched?.()
        },
      },
      options,
      handlers,
    )
    this.#watches.add(watch)
    this.#health.start()
    this.#pulse.start()
    return watch
  }

  async #rawStream(path: string, handlers: RawHandlers): Promise<RawStream> {
    const metadata = await this.#calls.token.metadata()
    const endpoint = await this.#pool.pick()
    const stream = endpoint.stream(
      path,
      { ...metadata, hasleader: 'true' },
      {
        onMessage: (message) => handlers.onMessage(message),
        onEnd: (error) => {
          this.#rawStreams.delete(stream)
          if (error?.code === RpcStatus.UNAVAILABLE) this.#pool.suspect(endpoint)
          if (error !== null && isTokenRejected(error.details)) this.#calls.token.refuse(metadata)
          handlers.onEnd(error)
        },
      },
    )
    this.#rawStreams.set(stream, { endpoint, handlers })
    return {
      send: (message) => stream.send(message),
      pause: () => stream.pause(),
      resume: () => stream.resume(),
      cancel: () => {
        this.#rawStreams.delete(stream)
        stream.cancel()
      },
      refused: (reason) => {
        const { token } = this.#calls
        const isToken = token.canRefresh && isTokenRejected(reason)
        if (isToken) token.refuse(metadata)
        return isToken
      },
    }
  }

  async write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    const request = encodeTxnRequest(compares, operations)
    const response = decodeTxnResponse(await this.#calls.call(paths.txn, request, { isRepeatable: false }))
    const { revision, succeeded, found } = response
    return succeeded ? { kind: 'written', revision } : { kind: 'conflict', revision, current: found }
  }

  async grantLease(ttlSeconds: number): Promise<string> {
    const request = encodeLeaseGrantRequest(ttlSeconds, newLeaseId())
    return decodeLeaseGrantResponse(await this.#calls.call(paths.leaseGrant, request, { isRepeatable: false }))
  }

  async dropLease(leaseId: string): Promise<void> {
    const response = await this.#calls.call(paths.leaseTimeToLive, encodeLeaseTimeToLiveRequest(leaseId), {
      isRepeatable: true,
    })
    if (!decodeIsEmptyLease(response)) return
    await this.#calls.call(paths.leaseRevoke, encodeLeaseRevokeRequest(leaseId), { isRepeatable: false })
  }

  close(): Promise<void> {
    this.#stopFollowing()
    this.#health.stop()
    this.#pulse.stop()
    this.#progress.stop()
    for (const watch of this.#watches) watch.close()
    for (const stream of this.#rawStreams.keys()) stream.cancel()
    this.#rawStreams.clear()
    this.#pool.close()
    return Promise.resolve()
  }

  async #renew(endpoint: GrpcEndpoint, tls: EtcdTls): Promise<void> {
    const reason = await endpoint.renew(tls, this.#connectTimeoutMs)
    if (reason === null) return
    this.#logger.error(
      { endpoint: endpoint.url, reason },
      'etcd refused the changed certificates; connections to it keep using the previous ones',
    )
  }

  /** Abandons a member, so that its watches, streams and further calls continue at another one. */
  #leave(endpoint: GrpcEndpoint, why: string): void {
    this.#pool.suspect(endpoint)
    const watches = [...this.#watches].filter((watch) => watch.endpoint === endpoint)
    const streams = [...this.#rawStreams].filter(([, raw]) => raw.endpoint === endpoint)
    if (watches.length + streams.length === 0) return
    const fields = { endpoint: endpoint.url, why, watches: watches.length, streams: streams.length }
    this.#logger.warn(fields, 'moving watches to another etcd member')
    for (const watch of watches) watch.leave(`etcd ${endpoint.url} ${why}`)
    for (const [stream, { handlers }] of streams) {
      // The end of another stream may have ended this one.
      if (!this.#rawStreams.delete(stream)) continue
      stream.cancel()
      // Whoever opened it opens another one. The text goes to clients, who do not know the endpoint.
      handlers.onEnd(new RpcError(RpcStatus.UNAVAILABLE, `the etcd member ${why}`))
    }
  }

  *#endpointsInUse(): Generator<GrpcEndpoint, void, void> {
    for (const { endpoint } of this.#watches) if (endpoint !== null) yield endpoint
  }

  /**
   * Whether the member responds to a linearizable read. A refusal counts as well, because etcd checks permissions only
   * after making sure that the member is up to date.
   */
  async #confirms(endpoint: GrpcEndpoint, deadlineMs: number): Promise<boolean> {
    const prefix = this.#readable.next()
    try {
      await this.#calls.callAt(endpoint, paths.range, encodeRangeRequest(probeOf(prefix)), deadlineMs)
      if (prefix !== null) this.#readable.allowed(prefix)
      return true
    } catch (error) {
      return this.#noteRefusal(prefix, error)
    }
  }

  /** Returns whether the error says that the user is not allowed to read. */
  #noteRefusal(prefix: Key | null, error: unknown): boolean {
    if (!(error instanceof UpstreamError) || error.code !== 'permission-denied') return false
    if (prefix !== null) this.#readable.refused(prefix, error.message)
    return true
  }

  async #range(
    request: RangeRequest,
    signal?: AbortSignal,
    attemptMs?: number,
  ): Promise<[response: RangeResponse, bytes: number]> {
    const message = await this.#calls.call(paths.range, encodeRangeRequest(request), {
      isRepeatable: true,
      ...(attemptMs === undefined ? {} : { attemptMs }),
      ...(signal === undefined ? {} : { signal }),
    })
    return [await decodedInTurns(message, signal, request.rangeEnd !== undefined), message.length]
  }

  async *#stream(options: StreamOptions): AsyncGenerator<StreamPart, void, undefined> {
    const { prefix, startKey, revision, keysOnly = false, signal } = options
    const request = encodeRangeRequest({ key: startKey, rangeEnd: prefixEnd(prefix), revision, keysOnly })
    let last: StreamPart | null = null
    for await (const message of this.#calls.stream(paths.rangeStream, request, signal)) {
      const { headerRevision, keyValues } = await decodedInTurns(rangeOfStream(message), signal)
      // Only the last part has a header. It is held back until the stream has ended, because etcd's status follows it.
      const more = headerRevision === 0
      if (more) yield { keyValues, more }
      else last = { keyValues, more }
    }
    if (last !== null) yield last
  }

  #statusOfAll(endpoints: readonly GrpcEndpoint[]): Promise<readonly (StatusResponse | UpstreamError)[]> {
    return Promise.all(endpoints.map((endpoint) => this.#statusOf(endpoint)))
  }

  /** Returns the status of one particular endpoint, whether or not it is in use. */
  async #statusOf(endpoint: GrpcEndpoint, timeoutMs = STATUS_TIMEOUT_MS): Promise<StatusResponse | UpstreamError> {
    const status = await this.#calls.statusOf(endpoint, timeoutMs)
    if (!(status instanceof UpstreamError)) this.#learnVersion(endpoint, status.version)
    return status
  }

  /**
   * Called for every status response. A member that was unreachable at the start is asked again and again, and its
   * version may be the last one missing.
   */
  #learnVersion(endpoint: GrpcEndpoint, version: string): void {
    if (this.#versions.get(endpoint) !== version) this.#areRolesChecked = false
    this.#versions.set(endpoint, version)
    if (!this.#areRolesChecked) {
      this.#areRolesChecked = true
      // Nothing waits for it, and what fails now is tried again after the next status.
      this.#checkRoles().catch(() => void (this.#areRolesChecked = false))
    }
    this.#trustsProgress = this.#everyMember(isProgressTrusted)
  }

  async #checkRoles(): Promise<void> {
    const versions = [...new Set(this.#versions.values())]
    const isBypassed = versions.some(hasAuthBypass) && (this.#hasUser || (await checksRoles(this)))
    if (isBypassed && this.#bypassedRoles === null) this.#logger.warn({ versions }, AUTH_BYPASS)
    this.#bypassedRoles = isBypassed ? AUTH_BYPASS : null
  }

  #everyMember(has: (version: string) => boolean): boolean {
    return this.#pool.endpoints.every((each) => has(this.#versions.get(each) ?? ''))
  }
}

async function decodedInTurns(message: Buffer, signal?: AbortSignal, isPage = true): Promise<RangeResponse> {
  const decoding = rangeDecoding(message, isPage)
  while (decoding.part()) {
    if (sourceTurns.isOver) await sourceTurns.take()
    signal?.throwIfAborted()
  }
  return decoding.result
}

/** Returns the cheapest linearizable read. @param prefix a prefix that the user may read; null if none is known. */
function probeOf(prefix: Key | null): RangeRequest {
  return { key: prefix ?? keyFromText('\0'), countOnly: true }
}
