/**
 * Tracks whether the source of a cache is connected or refuses it, and how long ago it last confirmed that the cache was
 * complete.
 */
import type { Clock } from '../../support/clock.js'

/**
 * A silent peer is detected within this time, so the connection was alive and the cache complete until this long before
 * the detection. The time cannot be much shorter, because etcd allows a keepalive ping only every 5 s.
 */
const NOTICED_WITHIN_MS = 9_000

export class SourceAge {
  readonly #clock: Clock
  #reason: string | null = null
  #isRefusing = false
  #confirmedAtMs: number
  #lastReceivedAtMs: number
  /** How long a confirmation is valid. Infinite if the end of the connection is always noticed. */
  #confirmedForMs = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
    this.#confirmedAtMs = this.#lastReceivedAtMs = clock.monotonic()
  }

  /** Why the source is disconnected; null while it is connected. */
  get disconnectedReason(): string | null {
    return this.#reason
  }

  /** Whether the source refuses the cache, so nothing new arrives until this server is given the permission again. */
  get isRefusing(): boolean {
    return this.#isRefusing
  }

  /**
   * Milliseconds since the source last confirmed the position; 0 while it is connected and its last confirmation is
   * valid.
   */
  get ageMs(): number {
    const ageMs = this.#clock.monotonic() - this.#confirmedAtMs
    return this.#reason === null && ageMs <= this.#confirmedForMs ? 0 : ageMs
  }

  /**
   * The age in milliseconds and how long a confirmation is valid, for the next server of a chain, which compares the
   * two itself.
   */
  get reported(): { readonly ageMs: number; readonly validMs: number } {
    const isSilent = this.#reason === null && this.#confirmedForMs === Number.POSITIVE_INFINITY
    const ageMs = isSilent ? 0 : this.#clock.monotonic() - this.#confirmedAtMs
    return { ageMs, validMs: this.#confirmedForMs }
  }

  /** @returns whether the source was connected before. */
  disconnected(reason: string): boolean {
    const wasConnected = this.#reason === null
    if (wasConnected && this.#confirmedForMs === Number.POSITIVE_INFINITY) {
      // The connection may have been dead for as long as its detection takes.
      this.#confirmedAtMs = Math.max(this.#lastReceivedAtMs, this.#clock.monotonic() - NOTICED_WITHIN_MS)
    }
    this.#reason = reason
    return wasConnected
  }

  /** Called after `disconnected`, if the source refuses the cache. @returns whether that is new. */
  refused(): boolean {
    const wasRefusing = this.#isRefusing
    this.#isRefusing = true
    return !wasRefusing
  }

  /** Called when the source has sent something. @returns whether it was disconnected before. */
  connected(): boolean {
    this.#isRefusing = false
    this.#lastReceivedAtMs = this.#clock.monotonic()
    const wasDisconnected = this.#reason !== null
    this.#reason = null
    return wasDisconnected
  }

  /** The source confirms that the cache was complete `ageMs` ago. The confirmation is valid for `validMs`. */
  confirmed(ageMs: number, validMs: number): void {
    this.#confirmedAtMs = this.#clock.monotonic() - ageMs
    this.#confirmedForMs = validMs
  }
}
