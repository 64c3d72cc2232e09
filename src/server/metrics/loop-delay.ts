/**
 * The delay of the event loop over fixed windows. prom-client's covers the time since the last scrape, so each client
 * that scrapes often, such as a second Prometheus or `distributary top`, hides from the others what happened before.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isBun } from '../../support/is-bun.js'

/** Just under a minute, which is the longest usual interval of scrapes, so that Prometheus sees every window. */
const WINDOW_MS = 55_000
const RESOLUTION_MS = 20

export class LoopDelay {
  readonly #histogram = isBun ? null : monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  #beganMs: number
  #lastSeconds = 0

  constructor(private readonly now: () => number = () => performance.now()) {
    this.#beganMs = now()
    this.#histogram?.enable()
  }

  /**
   * Returns the 99th percentile of the last whole window; 0 before the end of the first, because a start is busy. A
   * window ends with the first call after its time.
   */
  p99Seconds(): number {
    const nowMs = this.now()
    if (this.#histogram !== null && nowMs - this.#beganMs >= WINDOW_MS) {
      this.#lastSeconds = this.#histogram.percentile(99) / 1e9
      this.#beganMs = nowMs
      this.#histogram.reset()
    }
    return this.#lastSeconds
  }
}
