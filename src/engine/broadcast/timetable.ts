/**
 * Computes when one watcher gets bookmarks and marks, and when its stream ends. Times are monotonic milliseconds.
 * `bookmarks.ts` writes what is due and calls again at the right time.
 *
 *     … ──────────┬───────────────┬──────────────┬───────────────┬──────────────┐
 *          progress is asked   bookmark   progress is asked   final bookmark   deadline
 */

/** The API server sends the last bookmark this long before it ends a watch. */
const FINAL_BOOKMARK_MS = 2_000

/**
 * The source is asked for its progress this long before a bookmark, enough for a reply over several hops. A quiet
 * resource advances without events, and a bookmark that never advances is compacted sooner or later.
 */
const PROGRESS_LEAD_MS = 1_000

export type Due = 'end' | 'bookmark' | 'progress' | 'mark' | 'nothing'

export class Timetable {
  #nextBookmarkMs = Number.POSITIVE_INFINITY
  #hasFinalBookmark = false
  #hasAsked = false
  #owesBookmark = false

  constructor(
    readonly deadlineMs: number,
    /** Whether the client asked for bookmarks. */
    private readonly bookmarks: boolean,
    /** The longest silence on a wire with marks; null on others. */
    private readonly markEveryMs: number | null,
  ) {}

  /** Whether a bookmark fell due while the watcher was behind the head. It is written when the watcher gets there. */
  get owesBookmark(): boolean {
    return this.#owesBookmark
  }

  /**
   * A watch too short for its last bookmark gets it as soon as it has caught up: its client opened it to learn a
   * revision to resume from.
   */
  opened(nowMs: number): void {
    if (!this.bookmarks || this.deadlineMs - nowMs > FINAL_BOOKMARK_MS) return
    this.#hasFinalBookmark = true
    this.#owesBookmark = true
  }

  bookmarkWritten(): void {
    this.#owesBookmark = false
  }

  /** Returns what is due now. A due bookmark remains due until written. */
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

  /** Returns when to check again. @param bookmarkAfterMs the time until the next bookmark, if none is scheduled yet. */
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
