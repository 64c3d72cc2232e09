/**
 * The other server, as all resources share it: what product it is, which cluster, and whether it answers at all.
 *
 * While a watch is open the server is asked every few seconds whether it is alive: a watch alone tells only after its next
 * bookmark that nobody is at the other end any more.
 */
import type { EventWire } from '../../reflector/event-stream.js'
import { jsonWire, sseWire } from '../../reflector/event-stream.js'
import { failureOf } from '../../reflector/list-pages.js'
import { readBody, type Transport, type TransportResponse } from '../../reflector/transport.js'
import { type Clock, sleep } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { SingleFlight } from '../../support/single-flight.js'
import { UpstreamError } from '../upstream.js'
import { asUpstreamError } from './http-failure.js'

export interface RemoteApiServerOptions {
  readonly transport: Transport
  /** For messages. */
  readonly url: string
  readonly clock: Clock
  /** Between two questions whether the server is alive. Default: 5 s. */
  readonly heartbeatMs?: number
  /** An answer that takes longer is none. Default: 5 s. */
  readonly heartbeatTimeoutMs?: number
  /** Default: as `/version` says. false: as if it were a kube-apiserver. */
  readonly speaksSse?: false
}

export interface Product {
  readonly gitVersion: string
  /** Another distributary: it marks the ends of revisions, and says how far it is when asked. */
  readonly isDistributary: boolean
  readonly wire: EventWire
}

export interface AskOptions {
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly accept?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

const HEARTBEAT_MS = 5_000
/** All resources ask at once when the server is back. */
const PRODUCT_MS = 10_000
/** In a row. */
const LOST_HEARTBEATS = 2
const MAX_DOCUMENT_BYTES = 64 * 2 ** 20
const UNKNOWN_CLUSTER = 'unknown'

export class RemoteApiServer {
  readonly #options: RemoteApiServerOptions
  readonly #product: SingleFlight<Product>
  readonly #cluster: SingleFlight<string>
  #known: Product | null = null
  #knownAtMs = 0
  #clusterId: string | null = null
  readonly #watchers = new Set<(error: UpstreamError) => void>()
  #heart: AbortController | null = null

  constructor(options: RemoteApiServerOptions) {
    this.#options = options
    this.#product = new SingleFlight(() => this.#askProduct())
    this.#cluster = new SingleFlight(() => this.#askCluster())
  }

  get transport(): Transport {
    return this.#options.transport
  }

  get clock(): Clock {
    return this.#options.clock
  }

  /** null before it was asked. */
  get knownProduct(): Product | null {
    return this.#known
  }

  /** Asked anew now and then: it may have been another one before. @throws UpstreamError */
  async product(signal?: AbortSignal): Promise<Product> {
    const nowMs = this.clock.monotonic()
    if (this.#known !== null && nowMs - this.#knownAtMs < PRODUCT_MS) return this.#known
    this.#known = await this.#product.join(signal)
    this.#knownAtMs = nowMs
    return this.#known
  }

  /**
   * Which cluster it is: the uid of the namespace `kube-system`, which is made once and never again. 'unknown' where that
   * cannot be read; the feed compares what it knows of the history besides. @throws UpstreamError
   */
  async clusterId(signal?: AbortSignal): Promise<string> {
    return await this.#cluster.join(signal)
  }

  /** The answer to a GET, whatever its size. @throws UpstreamError for any status but 200. */
  async get(options: AskOptions): Promise<{ readonly body: Uint8Array; readonly response: TransportResponse }> {
    const { path, query = {}, accept = 'application/json', headers = {}, signal } = options
    // The body is read to its end or given up with this.
    const abort = new AbortController()
    const onAbort = (): void => abort.abort(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      signal?.throwIfAborted()
      const response = await this.transport.send({ path, query, accept, headers, signal: abort.signal })
      if (response.status !== 200) throw await failureOf(response)
      return { body: await readBody(response, 2 ** 30), response }
    } catch (error) {
      throw asUpstreamError(signal?.aborted === true ? signal.reason : error, path)
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** A small document as a tree. @throws UpstreamError */
  async document(options: AskOptions): Promise<unknown> {
    const { body } = await this.get(options)
    if (body.length > MAX_DOCUMENT_BYTES) throw new UpstreamError('too-large', `${options.path}: ${body.length} bytes`)
    try {
      return JSON.parse(new TextDecoder().decode(body)) as unknown
    } catch (cause) {
      throw new UpstreamError('protocol', `${options.path}: the answer is not JSON`, { cause })
    }
  }

  /** From now on, told when the server answers nobody any more. @returns what ends that. */
  follow(onLost: (error: UpstreamError) => void): () => void {
    this.#watchers.add(onLost)
    if (this.#heart === null) {
      this.#heart = new AbortController()
      void this.#beat(this.#heart.signal)
    }
    return () => {
      this.#watchers.delete(onLost)
      if (this.#watchers.size === 0) this.close()
    }
  }

  close(): void {
    this.#heart?.abort()
    this.#heart = null
  }

  async #beat(signal: AbortSignal): Promise<void> {
    const { clock, url, heartbeatMs = HEARTBEAT_MS } = this.#options
    let lost = 0
    for (;;) {
      await sleep(clock, heartbeatMs, signal)
      if (signal.aborted) return
      lost = (await this.#isAlive()) ? 0 : lost + 1
      if (signal.aborted) return
      if (lost < LOST_HEARTBEATS) continue
      const error = new UpstreamError('unavailable', `${url} does not answer`)
      for (const onLost of this.#watchers) onLost(error)
      lost = 0
    }
  }

  /** Any answer is a sign of life. */
  async #isAlive(): Promise<boolean> {
    const { clock, heartbeatTimeoutMs = HEARTBEAT_MS } = this.#options
    try {
      await withDeadline(
        clock,
        heartbeatTimeoutMs,
        undefined,
        () => new UpstreamError('unavailable', 'no sign of life'),
        async (signal) => {
          const accept = 'text/plain, application/json'
          const response = await this.transport.send({ path: '/livez', query: {}, accept, signal })
          await readBody(response, 2 ** 20)
        },
      )
      return true
    } catch {
      return false
    }
  }

  async #askProduct(): Promise<Product> {
    const document = (await this.document({ path: '/version' })) as { readonly gitVersion?: unknown } | null
    const gitVersion = typeof document?.gitVersion === 'string' ? document.gitVersion : 'unknown'
    const isDistributary = gitVersion.includes('+distributary') && this.#options.speaksSse !== false
    return { gitVersion, isDistributary, wire: isDistributary ? sseWire : jsonWire }
  }

  async #askCluster(): Promise<string> {
    // Where it could not be read at first it is not asked for again: a right given later is no other cluster.
    if (this.#clusterId === UNKNOWN_CLUSTER) return UNKNOWN_CLUSTER
    try {
      const namespace = await this.document({ path: '/api/v1/namespaces/kube-system' })
      const { metadata } = namespace as { readonly metadata?: { readonly uid?: unknown } }
      this.#clusterId = typeof metadata?.uid === 'string' && metadata.uid !== '' ? metadata.uid : UNKNOWN_CLUSTER
    } catch (error) {
      const { cause } = asUpstreamError(error, 'kube-system')
      const code = cause instanceof Error && 'code' in cause ? cause.code : null
      if (code !== 401 && code !== 403 && code !== 404) throw error
      this.#clusterId ??= UNKNOWN_CLUSTER
    }
    return this.#clusterId
  }
}
