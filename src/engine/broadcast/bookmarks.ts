/**
 * Sends bookmarks and marks (see `wire-format.ts`) to the watchers of a resource when they are due, and ends watchers
 * at their deadlines. When a bookmark is due, a watcher at the head gets it with the cache's revision, and a watcher
 * that lags gets it when it catches up. A watcher that is ahead of the cache gets its own revision. Shortly before a
 * bookmark is due, the source is asked for its progress, so that bookmarks of a quiet resource advance too. One request
 * serves all watchers because they share one stream from the source.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import type { Clock } from '../../support/clock.js'
import { type Random, randomInteger } from '../../support/random.js'
import type { Cursor } from './cursor.js'
import { endAtDeadline } from './endings.js'
import { Schedule } from './schedule.js'

export interface BookmarksOptions {
  readonly cache: WatchCache
  readonly clock: Clock
  readonly random: Random
  /** Milliseconds between two bookmarks to one watcher, ±10% jitter. */
  readonly bookmarkIntervalMs: number
}

/** Minimum gap between progress requests: thousands of bookmarks of one resource fall due within a few seconds. */
const PROGRESS_GAP_MS = 500

export class Bookmarks {
  readonly #options: BookmarksOptions
  readonly #schedule: Schedule<Cursor>
  #requestedAtMs = Number.NEGATIVE_INFINITY
  readonly #bookmarkAfterMs = (): number => {
    const { bookmarkIntervalMs, random } = this.#options
    return bookmarkIntervalMs - randomInteger(random, 0, Math.floor(bookmarkIntervalMs / 10))
  }

  constructor(options: BookmarksOptions) {
    this.#options = options
    this.#schedule = new Schedule(options.clock, (cursor, nowMs) => this.#due(cursor, nowMs))
  }

  /** The number of watchers with a pending bookmark or deadline. */
  get size(): number {
    return this.#schedule.size
  }

  add(cursor: Cursor): void {
    this.#plan(cursor, this.#options.clock.monotonic())
  }

  remove(cursor: Cursor): void {
    this.#schedule.remove(cursor)
  }

  stop(): void {
    this.#schedule.stop()
  }

  #plan(cursor: Cursor, nowMs: number): void {
    this.#schedule.add(cursor, cursor.timetable.nextMs(nowMs, this.#bookmarkAfterMs))
  }

  #requestProgress(nowMs: number): void {
    if (nowMs - this.#requestedAtMs < PROGRESS_GAP_MS) return
    this.#requestedAtMs = nowMs
    this.#options.cache.reads.requestProgress()
  }

  #due(cursor: Cursor, nowMs: number): void {
    const due = cursor.timetable.due(nowMs)
    if (due === 'end') return endAtDeadline(cursor)
    if (due === 'progress') this.#requestProgress(nowMs)
    else if (due !== 'nothing') cursor.showLife(due)
    this.#plan(cursor, nowMs)
  }
}
