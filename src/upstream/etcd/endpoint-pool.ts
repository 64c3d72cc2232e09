/**
 * Which endpoint to talk to. All calls go to one of them as long as it answers; when it does not, to whichever of the
 * others is connected first, so that a dead endpoint costs nobody its connect timeout.
 *
 * Being connected is not enough: a member cut off from its peers, or stopped, accepts connections and answers nothing
 * useful. Who met such a one reports it, and for a few seconds it is the last choice.
 */
import type { Clock } from '../../support/clock.js'
import { UpstreamError } from '../upstream.js'
import type { GrpcEndpoint } from './grpc-endpoint.js'

/** Longer than an election, so that a member that lost its leader has one again or is gone. */
const SUSPECT_MS = 5_000

/** How long a suspect that is connected waits for a better one. */
const PREFER_OTHERS_MS = 1_000

export class EndpointPool {
  readonly #suspectUntil = new Map<GrpcEndpoint, number>()
  #current: GrpcEndpoint
  #isClosed = false

  constructor(
    readonly endpoints: readonly GrpcEndpoint[],
    readonly connectTimeoutMs: number,
    readonly clock: Clock,
  ) {
    const [first] = endpoints
    if (!first) throw new RangeError('etcd: at least one endpoint is needed')
    this.#current = first
  }

  /** A connected endpoint, at once where there is one. @throws UpstreamError 'unavailable' */
  async pick(signal?: AbortSignal): Promise<GrpcEndpoint> {
    if (this.#isClosed) throw new UpstreamError('unavailable', 'the etcd client is closed')
    if (this.#isGood(this.#current)) return this.#current
    const good = this.endpoints.find((endpoint) => this.#isGood(endpoint))
    const chosen = good ?? (await this.#connect(signal))
    this.#current = chosen
    return chosen
  }

  /** It is connected, yet did not answer, or said that it cannot. */
  suspect(endpoint: GrpcEndpoint): void {
    if (this.endpoints.length > 1) this.#suspectUntil.set(endpoint, this.clock.monotonic() + SUSPECT_MS)
  }

  /** Those that may be expected to answer; all of them when none is above suspicion. */
  get trusted(): readonly GrpcEndpoint[] {
    const trusted = this.endpoints.filter((endpoint) => !this.#isSuspect(endpoint))
    return trusted.length === 0 ? this.endpoints : trusted
  }

  close(): void {
    this.#isClosed = true
    for (const endpoint of this.endpoints) endpoint.close()
  }

  #isGood(endpoint: GrpcEndpoint): boolean {
    return endpoint.isReady() && !this.#isSuspect(endpoint)
  }

  #isSuspect(endpoint: GrpcEndpoint): boolean {
    return (this.#suspectUntil.get(endpoint) ?? 0) > this.clock.monotonic()
  }

  /** The first that connects; a suspect only when no other did within its head start. */
  #connect(signal: AbortSignal | undefined): Promise<GrpcEndpoint> {
    return new Promise((resolve, reject) => {
      let fallback: GrpcEndpoint | null = null
      let isHeadStartOver = false
      const headStart = this.clock.setTimer(PREFER_OTHERS_MS, () => {
        isHeadStartOver = true
        if (fallback) resolve(fallback)
      })
      const attempt = async (endpoint: GrpcEndpoint): Promise<void> => {
        if (!(await endpoint.connect(this.connectTimeoutMs, signal))) return
        if (isHeadStartOver || !this.#isSuspect(endpoint)) resolve(endpoint)
        else fallback = endpoint
      }
      const finish = async (): Promise<void> => {
        await Promise.all(this.endpoints.map(attempt))
        headStart.cancel()
        if (fallback) resolve(fallback)
        else reject(new UpstreamError('unavailable', `no etcd endpoint can be reached: ${this.#names()}`))
      }
      void finish()
    })
  }

  #names(): string {
    return this.endpoints.map((endpoint) => endpoint.url).join(', ')
  }
}
