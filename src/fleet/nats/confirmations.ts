/**
 * How old the content of a replica can be, from what the publisher says of itself every second.
 *
 * A status says: the stream up to message S is all that etcd had, so many milliseconds before this was written. It counts
 * once the replica has message S. No two machines' clocks are compared. A status arrives later than it was written by some
 * difference of the two clocks; what exceeds the least difference seen is taken for time spent on the way, so that a status
 * that a stopped server delivers late does not make old data young. NATS' own signs of life say nothing about etcd.
 */
import type { PublisherStatus } from './publisher-status.js'

interface Waiting {
  readonly sequence: number
  readonly epoch: number
  readonly confirmedMs: number
}

/** Statuses whose messages have not come yet, one a second; beyond this the newest replaces the one before. */
const MOST_WAITING = 64
/** Two clocks drift apart by less than this share of the time that passes. */
const DRIFT = 0.0005

export class Confirmations {
  #waiting: Waiting[] = []
  #least: { readonly epoch: number; readonly differenceMs: number; readonly atMs: number } | null = null
  #confirmedMs: number | null = null

  /** All that etcd had at that time is held, by the monotonic clock; null when nobody has said so yet. */
  get confirmedMs(): number | null {
    return this.#confirmedMs
  }

  heard({ epoch, sequence, at, ageMs, trouble }: PublisherStatus, nowMs: number): void {
    const lateMs = at === undefined ? 0 : this.#late(epoch, nowMs - at, nowMs)
    // The last release said only whether etcd was there.
    const age = ageMs === undefined ? (trouble === null ? 0 : null) : ageMs
    if (age === null) return
    if (this.#waiting.length === MOST_WAITING) this.#waiting.pop()
    this.#waiting.push({ sequence, epoch, confirmedMs: nowMs - lateMs - age })
  }

  /** The replica has everything up to that message. @returns whether more is confirmed than before. */
  reached(sequence: number, epoch: number): boolean {
    const before = this.#confirmedMs
    while (this.#waiting[0] !== undefined && this.#waiting[0].sequence <= sequence && this.#waiting[0].epoch <= epoch) {
      const { confirmedMs } = this.#waiting.shift() as Waiting
      if (this.#confirmedMs === null || confirmedMs > this.#confirmedMs) this.#confirmedMs = confirmedMs
    }
    return this.#confirmedMs !== before
  }

  /** The messages of another stream are counted anew. */
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
