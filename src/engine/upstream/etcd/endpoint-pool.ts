/**
 * Chooses the endpoint for all calls. One endpoint is used as long as it responds. When it stops responding, the first
 * endpoint to connect takes over, so callers need not wait for the connect timeout of a dead endpoint.
 *
 * A connection alone is not enough, because a member that is stopped or cut off from its peers accepts connections but
 * gives no useful responses. A caller that encounters such a member reports it, and for a few seconds the member is
 * used only as a last resort. If all members are suspect, responsive ones come before silent ones, and among those the
 * member with the oldest report comes first.
 */
import type { Clock } from '../../../support/clock.js'
import { UpstreamError } from '../upstream.js'
import type { GrpcEndpoint } from './grpc-endpoint.js'

/**
 * This is longer than an election. After an election, a member that lost its leader either has a new one or is cut off.
 */
const SUSPECT_MS = 5_000

/** How long a connected suspect waits for a better endpoint. */
const PREFER_OTHERS_MS = 1_000

export class EndpointPool {
  readonly #suspectUntil = new Map<GrpcEndpoint, number>()
  #current: GrpcEndpoint
  #isClosed = false

  constructor(
    readonly endpoints: readonly GrpcEndpoint[],
    readonly connectTimeoutMs: number,
    readonly clock: Clock,
    /** Whether an endpoint is currently leaving requests unanswered; see `member-health.ts`. */
    readonly isSilent: (endpoint: GrpcEndpoint) => boolean,
  ) {
    const [first] = endpoints
    if (!first) throw new RangeError('etcd: at least one endpoint is needed')
    this.#current = first
  }

  /** Returns a connected endpoint, without waiting if a good one is connected. @throws UpstreamError 'unavailable' */
  async pick(signal?: AbortSignal): Promise<GrpcEndpoint> {
    if (this.#isClosed) throw new UpstreamError('unavailable', 'the etcd client is closed')
    if (this.#isGood(this.#current)) return this.#current
    const good = this.endpoints.find((endpoint) => this.#isGood(endpoint))
    const chosen = good ?? (await this.#connect(signal))
    this.#current = chosen
    return chosen
  }

  /** Reports an endpoint that is connected but did not respond, or responded that it cannot serve requests. */
  suspect(endpoint: GrpcEndpoint): void {
    if (this.endpoints.length > 1) this.#suspectUntil.set(endpoint, this.clock.monotonic() + SUSPECT_MS)
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

  /** Whether the first of two suspects is the better choice. */
  #isBetter(one: GrpcEndpoint, other: GrpcEndpoint): boolean {
    const [isSilent, isOtherSilent] = [this.isSilent(one), this.isSilent(other)]
    if (isSilent !== isOtherSilent) return isOtherSilent
    return (this.#suspectUntil.get(one) ?? 0) < (this.#suspectUntil.get(other) ?? 0)
  }

  /** Returns the endpoint that connects first. The others have a head start over suspects. */
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
        else if (fallback === null || this.#isBetter(endpoint, fallback)) fallback = endpoint
      }
      const finish = async (): Promise<void> => {
        await Promise.all(this.endpoints.map(attempt))
        headStart.cancel()
        if (fallback) resolve(fallback)
        else reject(new UpstreamError('unavailable', `no etcd endpoint can be reached: ${this.#described()}`))
      }
      void finish()
    })
  }

  #described(): string {
    return this.endpoints.map((endpoint) => endpoint.described()).join(', ')
  }
}
