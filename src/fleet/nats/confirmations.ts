/**
 * How old what a replica holds can be, from what the publisher says of itself every second.
 *
 * A publisher's word is: the stream up to message S is all that etcd had, so many milliseconds before I wrote this. It
 * counts once the replica has message S. No two machines' clocks are compared: of how much later words arrive than they were
 * written, by two clocks of any difference, only what exceeds the least seen is taken for time spent on the way. So words
 * that a stopped server delivers late do not make old data young. NATS' own signs of life are no word about etcd.
 */
import type { PublisherStatus } from './publisher-status.js'

interface Word {
  readonly sequence: number
  readonly epoch: number
  readonly confirmedMs: number
}

/** Words for messages that have not come yet: one a second. Beyond it the newest takes the place of the one before. */
const MOST_WAITING = 64
/** Two clocks run apart by less than this: the least difference may grow so fast. */
const DRIFT = 0.0005

export class Confirmations {
  #waiting: Word[] = []
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
      const { confirmedMs } = this.#waiting.shift() as Word
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
