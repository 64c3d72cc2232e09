/**
 * Computes how old the content of a replica can be, from the statuses that the publisher sends every second.
 *
 * A status says that the stream up to message S has everything that etcd had a number of milliseconds before the status was
 * written. It counts once the replica has message S. The clocks of two machines are never compared directly: a status
 * arrives at some difference between the two clocks, and what exceeds the least difference seen so far counts as time on
 * the way, so that a status that a stopped server delivers late does not make old data young.
 */
import type { PublisherStatus } from './publisher-status.js'

interface Waiting {
  readonly sequence: number
  readonly epoch: number
  readonly confirmedMs: number
}

/** The most statuses whose messages have not come yet, one a second; beyond it the newest replaces the one before. */
const MOST_WAITING = 64
/** Two clocks drift apart by less than this share of the time that passes. */
const DRIFT = 0.0005

export class Confirmations {
  #waiting: Waiting[] = []
  #least: { readonly epoch: number; readonly differenceMs: number; readonly atMs: number } | null = null
  #confirmedMs: number | null = null

  /** The replica holds everything that etcd had at this time, by the monotonic clock; null before the first confirmation. */
  get confirmedMs(): number | null {
    return this.#confirmedMs
  }

  heard({ epoch, sequence, at, ageMs }: PublisherStatus, nowMs: number): void {
    const lateMs = this.#late(epoch, nowMs - at, nowMs)
    if (ageMs === null) return
    if (this.#waiting.length === MOST_WAITING) this.#waiting.pop()
    this.#waiting.push({ sequence, epoch, confirmedMs: nowMs - lateMs - ageMs })
  }

  /** Called when the replica has everything up to that message. @returns whether more is confirmed than before. */
  reached(sequence: number, epoch: number): boolean {
    const before = this.#confirmedMs
    while (this.#waiting[0] !== undefined && this.#waiting[0].sequence <= sequence && this.#waiting[0].epoch <= epoch) {
      const { confirmedMs } = this.#waiting.shift() as Waiting
      if (this.#confirmedMs === null || confirmedMs > this.#confirmedMs) this.#confirmedMs = confirmedMs
    }
    return this.#confirmedMs !== before
  }

  /** Forgets the statuses about a stream that was made anew, whose messages are counted from one again. */
  forget(): void {
    this.#waiting = []
    this.#least = null
  }

  #late(epoch: number, differenceMs: number, nowMs: number): number {
    const least = this.#least
    const expectedMs =
      least === null || least.epoch !== epoch
        ? differenceMs
        : Math.min(differenceMs, least.differenceMs + (nowMs - least.atMs) * DRIFT)
    this.#least = { epoch, differenceMs: expectedMs, atMs: nowMs }
    return differenceMs - expectedMs
  }
}
