/**
 * The server behind `--upstream`, shared by all resources that are read from it: its product, its cluster, and whether
 * it responds.
 *
 * While a watch is open, the server is asked every second how old its resources are. The response also shows that the
 * server is alive; a watch alone would notice a dead server only when the next bookmark is overdue.
 */
import { LRUCache } from 'lru-cache'
import type { EventWire } from '../../client/reflector/event-stream.js'
import { jsonWire, sseWire } from '../../client/reflector/event-stream.js'
import { failureOf } from '../../client/reflector/list-pages.js'
import type { Transport, TransportResponse } from '../../client/reflector/transport.js'
import { type Clock, sleep } from '../../support/clock.js'
import { silentLogger, type Logger } from '../../support/log.js'
import { errorMessage } from '../../support/error-message.js'
import { withDeadline } from '../../support/deadline.js'
import { bufferOf } from '../../support/buffer-of.js'
import { readBytes } from '../../support/read-bytes.js'
import { SingleFlight } from '../../support/single-flight.js'
import { type SourceAge, UpstreamError } from '../../engine/upstream/upstream.js'
import { asUpstreamError, isOwnRefusal, withFirmRefusals, withReadableRefusals } from './http-failure.js'
import { AGES_INTERVAL_MS, RemoteAges } from './remote-ages.js'

export interface RemoteApiServerOptions {
  readonly transport: Transport & { close?(): void }
  /** The URL, for messages. */
  readonly url: string
  readonly clock: Clock
  /** Default: no log. */
  readonly logger?: Logger
  /** The server counts as lost after not responding for twice this long, in milliseconds. Default: 5 s. */
  readonly heartbeatMs?: number
  /** A slower response counts as no response. Default: 5 s. */
  readonly heartbeatTimeoutMs?: number
  /** Default: what `/version` reports. false treats the server as a kube-apiserver. */
  readonly speaksSse?: false
}

export interface Product {
  readonly gitVersion: string
  /** Whether it is another distributary, which marks the ends of revisions and reports its progress on request. */
  readonly isDistributary: boolean
  readonly wire: EventWire
}

export interface TaggedDocument {
  readonly document: unknown
  readonly etag: string | null
  /** The fields that another distributary leaves out of its objects (`strip`), as text; else ''. */
  readonly strips: string
}

export interface RequestOptions {
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly accept?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The permission that this server needs there, such as `list pods`. A refusal is remembered under this name. */
  readonly permission?: string
  readonly signal?: AbortSignal | undefined
  /** A longer response is not read. Default: 1 GiB. */
  readonly maxBytes?: number
}

const HEARTBEAT_MS = 5_000
const OPEN_API_MS = 10_000
/** How long the product is remembered, because all resources ask for it at once when the server is back. */
const PRODUCT_MS = 10_000
const SHARED_REQUEST_MS = 10_000
/** At the start all resources ask within seconds, and a cluster cannot be replaced that fast. */
const CLUSTER_MS = 250
const LOST_HEARTBEATS = 2
/** Enough for the ages of a few thousand resources. */
const MAX_AGES_BYTES = 2 ** 20
const MAX_DOCUMENT_BYTES = 64 * 2 ** 20
/** The most refused permissions that are remembered: three for each of several hundred resources. */
const MAX_REFUSED = 1_000
/**
 * How long a refusal is reported. A read that is still needed is repeated sooner, at the latest by the next consistency
 * check.
 */
const REFUSED_MS = 10 * 60_000
/** How long a refused read is not tried again if there is another way to read the same. */
const REFUSED_RETRY_MS = 30_000
const UNKNOWN_CLUSTER = 'unknown'

export class RemoteApiServer {
  readonly #options: RemoteApiServerOptions
  readonly transport: Transport
  readonly #product: SingleFlight<Product>
  readonly #cluster: SingleFlight<string>
  #known: Product | null = null
  #knownAtMs = 0
  #clusterId: string | null = null
  #clusterAtMs = Number.NEGATIVE_INFINITY
  readonly #ages = new RemoteAges()
  /** The permissions that this server lacks there, and why and when that was last found. */
  readonly #refused = new LRUCache<string, { readonly reason: string; readonly atMs: number }>({
    max: MAX_REFUSED,
    ttl: REFUSED_MS,
  })
  readonly #watchers = new Set<(error: UpstreamError) => void>()
  #heart: AbortController | null = null
  /** Whether it sent the last OpenAPI document that was requested. */
  #hasOpenApi = true

  constructor(options: RemoteApiServerOptions) {
    this.#options = options
    this.transport = withReadableRefusals(withFirmRefusals(options.transport, options.clock))
    this.#product = new SingleFlight(() => this.#inTime((signal) => this.#requestProduct(signal)))
    this.#cluster = new SingleFlight(() => this.#inTime((signal) => this.#requestCluster(signal)))
  }

  get clock(): Clock {
    return this.#options.clock
  }

  /** null until known. */
  get knownProduct(): Product | null {
    return this.#known
  }

  /** Repeats the request occasionally, because another server may have taken over. @throws UpstreamError */
  async product(signal?: AbortSignal): Promise<Product> {
    const nowMs = this.clock.monotonic()
    if (this.#known !== null && nowMs - this.#knownAtMs < PRODUCT_MS) return this.#known
    this.#known = await this.#product.join(signal)
    this.#knownAtMs = nowMs
    return this.#known
  }

  /**
   * Returns the identity of the cluster: the uid of the namespace `kube-system`, which is created only once. 'unknown'
   * if the uid cannot be read; the feed also compares the history.
   * @throws UpstreamError
   */
  async clusterId(signal?: AbortSignal): Promise<string> {
    const isRecent = this.clock.monotonic() - this.#clusterAtMs < CLUSTER_MS
    return isRecent && this.#clusterId !== null ? this.#clusterId : await this.#cluster.join(signal)
  }

  /** The id that was last read; null before the first. */
  get knownClusterId(): string | null {
    return this.#clusterId
  }

  /** Returns the response to a GET. @throws UpstreamError for any status but 200. */
  async get(options: RequestOptions): Promise<{ readonly body: Uint8Array; readonly response: TransportResponse }> {
    const { path, query = {}, accept = 'application/json', headers = {}, permission } = options
    const { signal = new AbortController().signal, maxBytes = 2 ** 30 } = options
    try {
      signal.throwIfAborted()
      const response = await this.transport.send({ path, query, accept, headers, signal })
      if (response.status !== 200) throw await failureOf(response)
      if (permission !== undefined) this.noteAllowed(permission)
      return { body: await readBytes(response.body, maxBytes), response }
    } catch (error) {
      const failure = asUpstreamError(signal.aborted ? signal.reason : error, path)
      if (permission !== undefined && isOwnRefusal(failure)) this.noteRefused(permission, failure)
      throw failure
    }
  }

  /** Whether that server has refused this so recently that another attempt would be refused as well. */
  wasJustRefused(permission: string): boolean {
    const refused = this.#refused.get(permission)
    return refused !== undefined && this.clock.monotonic() - refused.atMs < REFUSED_RETRY_MS
  }

  /** The permissions that this server lacks there; null if no such refusal is known. */
  get refusedReads(): string | null {
    const reasons = [...this.#refused.values()].map(({ reason }) => reason)
    const others = reasons.length > 1 ? ` (and ${reasons.length - 1} more)` : ''
    return reasons.length === 0 ? null : `${reasons[0]}${others}`
  }

  /** @param permission as in `RequestOptions`. */
  noteRefused(permission: string, { message: reason }: UpstreamError): void {
    if (!this.#refused.has(permission)) {
      const { logger = silentLogger } = this.#options
      logger.error({ permission, reason }, 'the upstream refuses a read of this server: check its role there')
    }
    this.#refused.set(permission, { reason, atMs: this.clock.monotonic() })
  }

  noteAllowed(permission: string): void {
    if (!this.#refused.delete(permission)) return
    const { logger = silentLogger } = this.#options
    logger.info({ permission }, 'the upstream allows the read again')
  }

  /** Returns the parsed JSON of a small document. @throws UpstreamError */
  async document(options: RequestOptions): Promise<unknown> {
    return (await this.taggedDocument(options)).document
  }

  /** Returns the parsed JSON of a small document with its ETag, or null if it has none. @throws UpstreamError */
  async taggedDocument(options: RequestOptions): Promise<TaggedDocument> {
    const { body, response } = await this.get(options)
    if (body.length > MAX_DOCUMENT_BYTES)
      throw new UpstreamError(
        'too-large',
        `${options.path}: the response has ${body.length} bytes, more than the limit of ${MAX_DOCUMENT_BYTES}`,
      )
    try {
      const document = JSON.parse(new TextDecoder().decode(body)) as unknown
      return { document, etag: response.header('etag'), strips: response.header('x-distributary-stripped') ?? '' }
    } catch (cause) {
      throw new UpstreamError('protocol', `${options.path}: the response is not JSON`, { cause })
    }
  }

  /**
   * Returns an OpenAPI document as that server sends it, with its texts and everything that clients may send there.
   * Returns null if it sends none; the log says so once.
   */
  async openApi(request: Pick<RequestOptions, 'path' | 'query' | 'accept'>) {
    const { logger = silentLogger } = this.#options
    try {
      const signal = AbortSignal.timeout(OPEN_API_MS)
      const { body, response } = await this.get({ ...request, signal, maxBytes: MAX_DOCUMENT_BYTES })
      this.#hasOpenApi = true
      const [contentType, etag] = [response.header('content-type') ?? 'application/json', response.header('etag')]
      return { body: bufferOf(body), contentType, etag }
    } catch (error) {
      const reason = errorMessage(error)
      if (this.#hasOpenApi) logger.warn({ reason }, 'the upstream sends no OpenAPI documents; sending our own')
      this.#hasOpenApi = false
      return null
    }
  }

  /**
   * Returns a resource's age at that server; null before the first response.
   * @param resource the resource's id: `deployments.apps`.
   */
  ageOf(resource: string): SourceAge | null {
    return this.#ages.of(resource, this.clock.monotonic())
  }

  /** Calls `onLost` when the server no longer responds. @returns a function that stops this. */
  follow(onLost: (error: UpstreamError) => void): () => void {
    this.#watchers.add(onLost)
    if (this.#heart === null) {
      this.#heart = new AbortController()
      void this.#beat(this.#heart.signal)
    }
    return () => {
      this.#watchers.delete(onLost)
      if (this.#watchers.size === 0) this.#stopHeart()
    }
  }

  close(): void {
    this.#stopHeart()
    this.#options.transport.close?.()
  }

  #stopHeart(): void {
    this.#heart?.abort()
    this.#heart = null
  }

  async #beat(signal: AbortSignal): Promise<void> {
    const { clock, url, heartbeatMs = HEARTBEAT_MS } = this.#options
    let lastResponseMs = clock.monotonic()
    while (!signal.aborted) {
      if (await this.#requestAges()) lastResponseMs = clock.monotonic()
      if (signal.aborted) return
      if (clock.monotonic() - lastResponseMs >= heartbeatMs * LOST_HEARTBEATS) {
        const error = new UpstreamError('unavailable', `${url} does not answer`)
        for (const onLost of this.#watchers) onLost(error)
        lastResponseMs = clock.monotonic()
      }
      await sleep(clock, Math.min(heartbeatMs, AGES_INTERVAL_MS), signal)
    }
  }

  /** Any response, even a refusal, shows that the server is alive. A response with a 5xx status confirms no age. */
  async #requestAges(): Promise<boolean> {
    const { clock, heartbeatTimeoutMs = HEARTBEAT_MS } = this.#options
    const requestedAtMs = clock.monotonic()
    const request =
      this.#known?.isDistributary === true ? { path: '/readyz', query: { ages: '' } } : { path: '/livez', query: {} }
    try {
      await withDeadline(
        clock,
        heartbeatTimeoutMs,
        undefined,
        () => new UpstreamError('unavailable', 'no response to the health check'),
        async (signal) => {
          const accept = 'text/plain, application/json'
          const response = await this.#options.transport.send({ ...request, accept, signal })
          const body = await readBytes(response.body, MAX_AGES_BYTES)
          if (response.status < 500) this.#ages.received(new TextDecoder().decode(body), requestedAtMs)
        },
      )
      return true
    } catch {
      return false
    }
  }

  /** Limits a request that many may wait for. */
  #inTime<T>(request: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const onTimeout = (): Error => new UpstreamError('unavailable', `no response within ${SHARED_REQUEST_MS} ms`)
    return withDeadline(this.clock, SHARED_REQUEST_MS, undefined, onTimeout, request)
  }

  async #requestProduct(signal: AbortSignal): Promise<Product> {
    const document = (await this.document({ path: '/version', signal })) as { readonly gitVersion?: unknown } | null
    const gitVersion = typeof document?.gitVersion === 'string' ? document.gitVersion : 'unknown'
    const isDistributary = gitVersion.includes('+distributary') && this.#options.speaksSse !== false
    return { gitVersion, isDistributary, wire: isDistributary ? sseWire : jsonWire }
  }

  async #requestCluster(signal: AbortSignal): Promise<string> {
    // If the id could not be read at first, it is not read again, because with a permission granted later it would
    // look like another cluster.
    if (this.#clusterId === UNKNOWN_CLUSTER) return UNKNOWN_CLUSTER
    try {
      // From the server's cache, because the uid never changes: a distributary then answers without etcd.
      const query = { resourceVersion: '0' }
      const namespace = await this.document({ path: '/api/v1/namespaces/kube-system', query, signal })
      const { metadata } = namespace as { readonly metadata?: { readonly uid?: unknown } }
      this.#clusterId = typeof metadata?.uid === 'string' && metadata.uid !== '' ? metadata.uid : UNKNOWN_CLUSTER
    } catch (error) {
      const { cause } = asUpstreamError(error, 'kube-system')
      const code = cause instanceof Error && 'code' in cause ? cause.code : null
      if (code !== 401 && code !== 403 && code !== 404) throw error
      this.#clusterId ??= UNKNOWN_CLUSTER
    }
    this.#clusterAtMs = this.clock.monotonic()
    return this.#clusterId
  }
}
