/**
 * Sends bookmarks and marks (see `wire-format.ts`) to the watchers of a resource when they are due, and ends watchers
 * at their deadlines. When a bookmark is due, a watcher at the head gets it with the cache's revision, and a watcher
 * that lags gets it when it catches up. Shortly before a bookmark is due, the source is asked for its progress, so that
 * bookmarks of a quiet resource advance too. One request serves all watchers because they share one stream from the
 * source.
 */
import type { Revision } from '../model/revision.js'
import type { Clock } from '../../support/clock.js'
import { type Random, randomInteger } from '../../support/random.js'
import type { Cursor } from './cursor.js'
import { Schedule } from './schedule.js'

export interface BookmarksOptions {
  readonly clock: Clock
  readonly random: Random
  /** Milliseconds between two bookmarks to one watcher, ±10% jitter. */
  readonly intervalMs: number
  /** The revision up to which everything has been dispatched. */
  readonly headRevision: () => Revision
  /** Asks the source for its progress, unless its progress reports cannot be trusted. The request may go unanswered. */
  readonly requestProgress: () => void
  readonly onDeadline: (cursor: Cursor) => void
}

/** Minimum gap between progress requests: thousands of bookmarks of one resource fall due within a few seconds. */
const PROGRESS_GAP_MS = 500

export class Bookmarks {
  readonly #options: BookmarksOptions
  readonly #schedule: Schedule<Cursor>
  #requestedAtMs = Number.NEGATIVE_INFINITY
  readonly #bookmarkAfterMs = (): number => {
    const { intervalMs, random } = this.#options
    return intervalMs - randomInteger(random, 0, Math.floor(intervalMs / 10))
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
    this.#options.requestProgress()
  }

  #due(cursor: Cursor, nowMs: number): void {
    const due = cursor.timetable.due(nowMs)
    if (due === 'end') return this.#options.onDeadline(cursor)
    if (due === 'progress') this.#requestProgress(nowMs)
    else if (due !== 'nothing' && cursor.isAtHead && !cursor.isBlocked) {
      if (due === 'bookmark') cursor.writeBookmark(this.#options.headRevision())
      else cursor.writeMark(this.#options.headRevision())
    }
    this.#plan(cursor, nowMs)
  }
}
