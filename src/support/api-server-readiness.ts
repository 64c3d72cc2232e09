/**
 * Decides whether a denial by an API server counts. One that is starting denies every request until it has loaded
 * roles, bindings and bootstrap tokens. Those denials look like real ones, and only `/readyz` shows the difference.
 * Once found ready, the server is trusted until a new connection, which may reach a process that has just started.
 * Behind a load balancer, `/readyz` may reach another process than the one that denied.
 */
import type { Clock } from './clock.js'
import type { ConnectionCount } from './connection-count.js'

export interface ApiServerReadinessOptions {
  /** Default: unknown, so that `/readyz` is asked at each denial. */
  readonly connections?: ConnectionCount
  /** Returns the status of `/readyz`. A rejection means that there was no response, which counts like a bad one. */
  readonly readyz: () => Promise<number>
  readonly clock: Pick<Clock, 'monotonic'>
}

/**
 * A server that can be reached starts in seconds. After this time, the denials of one that never becomes ready count.
 */
const MAX_DOUBT_MS = 60_000
const NO_ANSWER = 0

export class ApiServerReadiness {
  readonly #options: ApiServerReadinessOptions
  /** The number of connections when the server was last found ready; null if that is unknown. */
  #confirmed: number | null
  /** When the server was first found not ready, and when it last said so; null if it was ready when last asked. */
  #doubt: { readonly sinceMs: number; readonly askedMs: number } | null = null
  #confirming: Promise<void> | null = null

  constructor(options: ApiServerReadinessOptions) {
    this.#options = options
    this.#confirmed = options.connections === undefined ? null : 0
  }

  /** Whether there has been no new connection since the server was found ready. */
  get isSure(): boolean {
    return this.#confirmed !== null && this.#options.connections?.count === this.#confirmed
  }

  /** Call this after a response that is not a denial: if the server's readiness is in doubt, this checks it again. */
  accepted(): void {
    if (this.#doubt === null) return
    const now = this.#options.clock.monotonic()
    const { sinceMs, askedMs } = this.#doubt
    // One that never says that it is ready is asked once a minute from then on.
    if (now - sinceMs < MAX_DOUBT_MS || now - askedMs >= MAX_DOUBT_MS) void this.#confirm().catch(() => {})
  }

  /**
   * Call this after a denial.
   * @param wasSure `isSure` when the request was sent.
   * @returns null if the denial counts at once; otherwise a promise that rejects while the server is not ready.
   */
  denied(wasSure = false): Promise<void> | null {
    return wasSure && this.isSure ? null : this.#confirm()
  }

  #confirm(): Promise<void> {
    return (this.#confirming ??= this.#ask().finally(() => (this.#confirming = null)))
  }

  async #ask(): Promise<void> {
    const status = await this.#options.readyz().catch(() => NO_ANSWER)
    if (isStarting(status)) {
      const now = this.#options.clock.monotonic()
      this.#doubt = { sinceMs: this.#doubt?.sinceMs ?? now, askedMs: now }
      const said = status === NO_ANSWER ? 'does not answer' : `answered ${status}`
      if (now - this.#doubt.sinceMs < MAX_DOUBT_MS)
        throw new Error(`the API server denies, and may not be ready: /readyz ${said}`)
    } else this.#doubt = null
    this.#confirmed = this.#options.connections?.count ?? null
  }
}

/** Before roles are loaded, even `/readyz` is forbidden. A server without that path is not a Kubernetes API server. */
function isStarting(status: number): boolean {
  return status === NO_ANSWER || status === 401 || status === 403 || status === 429 || status >= 500
}
