/**
 * Computes when one watcher gets bookmarks and marks, and when its stream ends. Times are monotonic milliseconds.
 * `bookmarks.ts` writes what is due and calls again at the time that `nextMs` returns.
 *
 *     … ──────────┬───────────────┬──────────────┬───────────────┬──────────────┐
 *          request progress    bookmark   request progress    final bookmark   deadline
 */

/** Like the API server, send the last bookmark this long before the end of a watch. */
const FINAL_BOOKMARK_MS = 2_000

/**
 * The source is asked for its progress this long before a bookmark, which is enough for a reply over several hops. A
 * quiet resource has no events that would advance its bookmarks, and if a bookmark never advanced, etcd would sooner or
 * later compact its revision.
 */
const PROGRESS_LEAD_MS = 1_000

export type Due = 'end' | 'bookmark' | 'progress' | 'mark' | 'nothing'

export class Timetable {
  #nextBookmarkMs = Number.POSITIVE_INFINITY
  #hasFinalBookmark = false
  #hasRequestedProgress = false
  #owesBookmark = false

  constructor(
    readonly deadlineMs: number,
    /** Whether the client asked for bookmarks. */
    private readonly bookmarks: boolean,
    /** The longest silence on a wire with marks; null on others. */
    private readonly markEveryMs: number | null,
  ) {}

  /**
   * Whether a bookmark is due that has not been written, because the watcher is behind the head. It is written when the
   * watcher reaches the head.
   */
  get owesBookmark(): boolean {
    return this.#owesBookmark
  }

  /**
   * A watch that is too short for its last bookmark gets it as soon as it has caught up, because the client opened the
   * watch to learn a revision to resume from.
   */
  opened(nowMs: number): void {
    if (!this.bookmarks || this.deadlineMs - nowMs > FINAL_BOOKMARK_MS) return
    this.#hasFinalBookmark = true
    this.#owesBookmark = true
  }

  bookmarkWritten(): void {
    this.#owesBookmark = false
  }

  /** Returns what is due now. A bookmark stays due until it is written. */
  due(nowMs: number): Due {
    if (nowMs >= this.deadlineMs) return 'end'
    const bookmarkMs = this.#bookmarkMs()
    if (nowMs >= bookmarkMs) {
      this.#hasFinalBookmark ||= nowMs >= this.deadlineMs - FINAL_BOOKMARK_MS
      this.#owesBookmark = true
      this.#nextBookmarkMs = Number.POSITIVE_INFINITY
      this.#hasRequestedProgress = false
      return 'bookmark'
    }
    if (!this.#hasRequestedProgress && nowMs >= bookmarkMs - PROGRESS_LEAD_MS) {
      this.#hasRequestedProgress = true
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
    const lookMs = this.#hasRequestedProgress ? this.#bookmarkMs() : this.#bookmarkMs() - PROGRESS_LEAD_MS
    return Math.min(dueMs, Math.max(nowMs, lookMs))
  }

  #bookmarkMs(): number {
    if (!this.bookmarks) return Number.POSITIVE_INFINITY
    const finalMs = this.#hasFinalBookmark ? Number.POSITIVE_INFINITY : this.deadlineMs - FINAL_BOOKMARK_MS
    return Math.min(this.#nextBookmarkMs, finalMs)
  }
}
