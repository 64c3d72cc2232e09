/** Whether the source of a cache is there, and how old what it last confirmed is. */
import type { Clock } from '../support/clock.js'

/**
 * A peer that falls silent is noticed this late at most: until then the connection was alive, and what it had not told did
 * not exist. etcd allows keepalive pings no more often than every 5 s.
 */
const NOTICED_WITHIN_MS = 9_000

export class SourceAge {
  readonly #clock: Clock
  #reason: string | null = null
  #confirmedAtMs: number
  #toldAtMs: number
  /** For how long a confirmation stands; for good where the source tells of its end. */
  #confirmedForMs = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
    this.#confirmedAtMs = this.#toldAtMs = clock.monotonic()
  }

  /** Why the source is away; null while it is there. */
  get disconnectedReason(): string | null {
    return this.#reason
  }

  /** Milliseconds since the source last confirmed the position; 0 while it is connected and says so. */
  get ageMs(): number {
    const ageMs = this.#clock.monotonic() - this.#confirmedAtMs
    if (this.#confirmedForMs !== Number.POSITIVE_INFINITY) return ageMs > this.#confirmedForMs ? ageMs : 0
    return this.#reason === null ? 0 : ageMs
  }

  /** @returns whether it was there before. */
  disconnected(reason: string): boolean {
    const wasThere = this.#reason === null
    if (wasThere && this.#confirmedForMs === Number.POSITIVE_INFINITY) {
      // Not from now on: the source may have been away for as long as it takes to notice.
      this.#confirmedAtMs = Math.max(this.#toldAtMs, this.#clock.monotonic() - NOTICED_WITHIN_MS)
    }
    this.#reason = reason
    return wasThere
  }

  /** The source has told something. @returns whether it was away before. */
  connected(): boolean {
    this.#toldAtMs = this.#clock.monotonic()
    const wasAway = this.#reason !== null
    this.#reason = null
    return wasAway
  }

  /** The source confirms that the content was complete `ageMs` ago, which is valid for `validMs`. */
  confirmed(ageMs: number, validMs: number): void {
    this.#confirmedAtMs = this.#clock.monotonic() - ageMs
    this.#confirmedForMs = validMs
  }
}
