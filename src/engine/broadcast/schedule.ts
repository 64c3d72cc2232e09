/**
 * Calls thousands of cursors when their bookmarks and deadlines fall due, with one timer and buckets of a quarter of a
 * second. A timer per watcher was rejected because it costs memory and event-loop time.
 */
import type { Clock, Timer } from '../../support/clock.js'
import { getOrMake } from '../../support/memo.js'

const TICK_MS = 250
/**
 * Thousands of watchers opened together also end together. Calling this many takes some milliseconds, so the rest wait
 * for the next turn of the event loop.
 */
const DUE_PER_TURN = 500

export interface Scheduled {
  /** The item's bucket, written only by the schedule; -1 for none. */
  dueTick: number
}

export class Schedule<T extends Scheduled> {
  readonly #clock: Clock
  readonly #due: (item: T, nowMs: number) => void
  /** Keyed by tick, all later than `#tick`. */
  readonly #buckets = new Map<number, Set<T>>()
  /** The last tick that has been processed. */
  #tick: number
  /** The only timer, set while any item waits. */
  #timer: Timer | null = null
  /** Items that are due but for which `due` has not been called yet. */
  #overdue: T[] = []
  #overdueAt = 0

  constructor(clock: Clock, due: (item: T, nowMs: number) => void) {
    this.#clock = clock
    this.#due = due
    this.#tick = this.#tickOf(clock.monotonic())
  }

  get size(): number {
    let size = this.#overdue.length - this.#overdueAt
    for (const bucket of this.#buckets.values()) size += bucket.size
    return size
  }

  /** Calls `due` once at or after `dueMs` (monotonic). An item can be scheduled only once at a time. */
  add(item: T, dueMs: number): void {
    // If there are no buckets, the ticks up to now can be skipped. Otherwise a skipped tick might have a bucket.
    if (this.#buckets.size === 0) this.#tick = this.#tickOf(this.#clock.monotonic())
    const tick = Math.max(this.#tick + 1, Math.ceil(dueMs / TICK_MS))
    getOrMake(this.#buckets, tick, () => new Set<T>()).add(item)
    item.dueTick = tick
    this.#timer ??= this.#clock.setTimer(TICK_MS, () => this.#run())
  }

  /**
   * Ended watchers must be removed at once: their deadline may be an hour away, and until then the schedule would keep
   * their connection's memory alive.
   */
  remove(item: T): void {
    const bucket = this.#buckets.get(item.dueTick)
    bucket?.delete(item)
    if (bucket?.size === 0) this.#buckets.delete(item.dueTick)
    item.dueTick = -1
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#buckets.clear()
    this.#overdue = []
    this.#overdueAt = 0
  }

  #run(): void {
    // Set the next timer first, so that it also serves items added during this run.
    this.#timer = this.#clock.setTimer(TICK_MS, () => this.#run())
    const nowMs = this.#clock.monotonic()
    const until = this.#tickOf(nowMs)
    while (this.#tick < until) {
      this.#tick++
      const bucket = this.#buckets.get(this.#tick)
      if (bucket === undefined) continue
      this.#buckets.delete(this.#tick)
      for (const item of bucket) this.#overdue.push(item)
    }
    for (let called = 0; this.#overdueAt < this.#overdue.length; called++) {
      if (called === DUE_PER_TURN) {
        this.#timer?.cancel()
        this.#timer = this.#clock.setTimer(0, () => this.#run())
        return
      }
      const item = this.#overdue[this.#overdueAt++]!
      // The item was removed in the meantime.
      if (item.dueTick === -1) continue
      item.dueTick = -1
      this.#due(item, nowMs)
    }
    this.#overdue = []
    this.#overdueAt = 0
    if (this.#buckets.size > 0) return
    this.#timer?.cancel()
    this.#timer = null
  }

  #tickOf(ms: number): number {
    return Math.floor(ms / TICK_MS)
  }
}
