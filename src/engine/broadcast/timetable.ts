/**
 * Says when one watcher gets bookmarks and marks, and when its stream ends. Times are monotonic milliseconds. What is
 * due is written by `bookmarks.ts`, which also looks again at the right time.
 *
 *     … ──────────┬───────────────┬──────────────┬───────────────┬──────────────┐
 *          progress is asked   bookmark   progress is asked   final bookmark   deadline
 */

/** The API server sends the last bookmark this long before it ends a watch. */
export const FINAL_BOOKMARK_MS = 2_000

/**
 * The source is asked for its progress this long before a bookmark: a quiet resource has moved on without an event, and
 * a bookmark that stands still is compacted sooner or later. Long enough for an answer over several hops.
 */
export const PROGRESS_LEAD_MS = 1_000

export type Due = 'end' | 'bookmark' | 'progress' | 'mark' | 'nothing'

export class Timetable {
  #nextBookmarkMs = Number.POSITIVE_INFINITY
  #hasFinalBookmark = false
  #hasAsked = false
  #owesBookmark = false

  constructor(
    readonly deadlineMs: number,
    /** The client asked for bookmarks. */
    private readonly bookmarks: boolean,
    /** The longest silence where the wire has marks; null where it has none. */
    private readonly markEveryMs: number | null,
  ) {}

  /** A bookmark fell due while the watcher was not at the head: it is written as soon as it gets there. */
  get owesBookmark(): boolean {
    return this.#owesBookmark
  }

  /**
   * The last bookmark of a watch that ends before it would be due is written as soon as the watch has caught up: its
   * client opened it to learn from where it can resume.
   */
  opened(nowMs: number): void {
    if (!this.bookmarks || this.deadlineMs - nowMs > FINAL_BOOKMARK_MS) return
    this.#hasFinalBookmark = true
    this.#owesBookmark = true
  }

  bookmarkWritten(): void {
    this.#owesBookmark = false
  }

  /** Returns what is due now. A bookmark that is due stays owed until it is written. */
  due(nowMs: number): Due {
    if (nowMs >= this.deadlineMs) return 'end'
    const bookmarkMs = this.#bookmarkMs()
    if (nowMs >= bookmarkMs) {
      this.#hasFinalBookmark ||= nowMs >= this.deadlineMs - FINAL_BOOKMARK_MS
      this.#owesBookmark = true
      this.#nextBookmarkMs = Number.POSITIVE_INFINITY
      this.#hasAsked = false
      return 'bookmark'
    }
    if (!this.#hasAsked && nowMs >= bookmarkMs - PROGRESS_LEAD_MS) {
      this.#hasAsked = true
      return 'progress'
    }
    return this.markEveryMs === null ? 'nothing' : 'mark'
  }

  /** Returns when to look again. @param bookmarkAfterMs the time until the next bookmark, if none is planned yet. */
  nextMs(nowMs: number, bookmarkAfterMs: () => number): number {
    const { deadlineMs, markEveryMs } = this
    const dueMs = markEveryMs === null ? deadlineMs : Math.min(deadlineMs, nowMs + markEveryMs)
    if (!this.bookmarks) return dueMs
    if (this.#nextBookmarkMs === Number.POSITIVE_INFINITY) this.#nextBookmarkMs = nowMs + bookmarkAfterMs()
    const lookMs = this.#hasAsked ? this.#bookmarkMs() : this.#bookmarkMs() - PROGRESS_LEAD_MS
    return Math.min(dueMs, Math.max(nowMs, lookMs))
  }

  #bookmarkMs(): number {
    if (!this.bookmarks) return Number.POSITIVE_INFINITY
    const finalMs = this.#hasFinalBookmark ? Number.POSITIVE_INFINITY : this.deadlineMs - FINAL_BOOKMARK_MS
    return Math.min(this.#nextBookmarkMs, finalMs)
  }
}
