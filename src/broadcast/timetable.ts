/**
 * When one watcher is to be told how far it has come, and when its stream ends. Times are monotonic milliseconds; who
 * writes what is due, and when it is looked at again, is `bookmarks.ts`.
 */

/** The API server sends the last bookmark this long before it ends a watch. */
export const FINAL_BOOKMARK_MS = 2_000

export type Due = 'end' | 'bookmark' | 'mark' | 'nothing'

export class Timetable {
  #nextBookmarkMs = Number.POSITIVE_INFINITY
  #hasFinalBookmark = false
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
   * The last bookmark of a watch that ends so soon is due as soon as it has caught up: it was opened to be told how far it
   * can resume.
   */
  opened(nowMs: number): void {
    if (!this.bookmarks || this.deadlineMs - nowMs > FINAL_BOOKMARK_MS) return
    this.#hasFinalBookmark = true
    this.#owesBookmark = true
  }

  bookmarkWritten(): void {
    this.#owesBookmark = false
  }

  /** What is due now; a bookmark that is due is owed from then on. */
  due(nowMs: number): Due {
    if (nowMs >= this.deadlineMs) return 'end'
    if (this.bookmarks) {
      const isFinal = nowMs >= this.deadlineMs - FINAL_BOOKMARK_MS
      if (nowMs >= this.#nextBookmarkMs || (isFinal && !this.#hasFinalBookmark)) {
        this.#hasFinalBookmark ||= isFinal
        this.#owesBookmark = true
        this.#nextBookmarkMs = Number.POSITIVE_INFINITY
        return 'bookmark'
      }
    }
    return this.markEveryMs === null ? 'nothing' : 'mark'
  }

  /** When it is to be looked at again. @param bookmarkAfterMs until the next bookmark, where none is planned yet. */
  nextMs(nowMs: number, bookmarkAfterMs: () => number): number {
    const { deadlineMs, markEveryMs } = this
    let dueMs = markEveryMs === null ? deadlineMs : Math.min(deadlineMs, nowMs + markEveryMs)
    if (!this.bookmarks) return dueMs
    if (this.#nextBookmarkMs === Number.POSITIVE_INFINITY) this.#nextBookmarkMs = nowMs + bookmarkAfterMs()
    dueMs = Math.min(dueMs, this.#nextBookmarkMs)
    return this.#hasFinalBookmark ? dueMs : Math.min(dueMs, Math.max(nowMs, deadlineMs - FINAL_BOOKMARK_MS))
  }
}
