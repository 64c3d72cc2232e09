/**
 * Decides whether to believe a denial by an API server. A server that is starting denies every request until it has
 * loaded roles, bindings and bootstrap tokens. Those denials look like real ones, and only `/readyz` shows the
 * difference. Once the server was found ready, it is trusted until there is a new connection, which may reach a process
 * that has just started. Behind a load balancer, `/readyz` may reach a different process from the one that denied the
 * request.
 */
import type { Clock } from './clock.js'
import type { ConnectionCount } from './connection-count.js'

export interface ApiServerReadinessOptions {
  /** By default the connections are unknown, so `/readyz` is requested after each denial. */
  readonly connections?: ConnectionCount
  /**
   * Returns the status of `/readyz`. A rejection means that there was no response, which is treated like a bad status.
   */
  readonly readyz: () => Promise<number>
  readonly clock: Pick<Clock, 'monotonic'>
}

/**
 * A reachable server starts within seconds. If a server is still not ready after this time, its denials are believed.
 */
const MAX_DOUBT_MS = 60_000
const NO_RESPONSE = 0

export class ApiServerReadiness {
  /** The number of connections when the server was last found ready; null if that is unknown. */
  #confirmed: number | null
  /** When the server was first found not ready, and when it last said so; null if it was ready at the last check. */
  #doubt: { readonly sinceMs: number; readonly checkedMs: number } | null = null
  #confirming: Promise<void> | null = null

  constructor(private readonly options: ApiServerReadinessOptions) {
    this.#confirmed = options.connections === undefined ? null : 0
  }

  /** Whether there has been no new connection since the server was found ready. */
  get isSure(): boolean {
    return this.#confirmed !== null && this.options.connections?.count === this.#confirmed
  }

  /** Call this after a response that is not a denial. If the server's readiness is in doubt, this checks it again. */
  accepted(): void {
    if (this.#doubt === null) return
    const now = this.options.clock.monotonic()
    const { sinceMs, checkedMs } = this.#doubt
    // A server that never becomes ready is checked only once a minute after that time.
    if (now - sinceMs < MAX_DOUBT_MS || now - checkedMs >= MAX_DOUBT_MS) void this.#confirm().catch(() => {})
  }

  /**
   * Call this after a denial.
   * @param wasSure the value of `isSure` when the request was sent.
   * @returns null if the denial can be trusted at once; otherwise a promise that rejects if the server is not ready.
   */
  denied(wasSure = false): Promise<void> | null {
    return wasSure && this.isSure ? null : this.#confirm()
  }

  #confirm(): Promise<void> {
    return (this.#confirming ??= this.#check().finally(() => (this.#confirming = null)))
  }

  async #check(): Promise<void> {
    const status = await this.options.readyz().catch(() => NO_RESPONSE)
    if (isStarting(status)) {
      const now = this.options.clock.monotonic()
      this.#doubt = { sinceMs: this.#doubt?.sinceMs ?? now, checkedMs: now }
      const outcome = status === NO_RESPONSE ? 'does not answer' : `answered ${status}`
      if (now - this.#doubt.sinceMs < MAX_DOUBT_MS)
        throw new Error(`the API server denied the request, but may not be ready yet: /readyz ${outcome}`)
    } else this.#doubt = null
    this.#confirmed = this.options.connections?.count ?? null
  }
}

/**
 * Whether the status of `/readyz` shows that the server is starting. Before roles are loaded, even `/readyz` is
 * forbidden. A server without that path is not a Kubernetes API server.
 */
function isStarting(status: number): boolean {
  return status === NO_RESPONSE || status === 401 || status === 403 || status === 429 || status >= 500
}
