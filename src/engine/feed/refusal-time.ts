/**
 * Measures for how long the source has refused a feed for lack of permission, or of valid credentials. One refusal may
 * pass by itself: a role is being replaced, or an authorizer failed for a moment.
 */
import type { Clock } from '../../support/clock.js'
import type { UpstreamErrorCode } from '../upstream/upstream.js'

export class RefusalTime {
  readonly #clock: Pick<Clock, 'monotonic'>
  #sinceMs: number | null = null

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /**
   * Notes a failed attempt.
   * @returns the milliseconds since the first refusal if every attempt since then has been refused; null for any other
   * failure, which also ends the series.
   */
  failed(code: UpstreamErrorCode): number | null {
    if (code !== 'permission-denied' && code !== 'unauthenticated') {
      this.#sinceMs = null
      return null
    }
    const nowMs = this.#clock.monotonic()
    this.#sinceMs ??= nowMs
    return nowMs - this.#sinceMs
  }

  /** The source has answered a whole list, or feeds the sink. */
  ended(): void {
    this.#sinceMs = null
  }
}
