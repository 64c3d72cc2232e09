/**
 * Holds the watchers of a revision that the cache has not reached. Either the cache is behind and will reach that
 * revision, or etcd itself has not reached it, because etcd was restored or began with an empty data directory. In the
 * second case, waiting would leave clients with old data for good, so their watchers end with 410.
 *
 * The cache cannot tell the two cases apart, but a linearizable read of etcd's revision can. The read must start after
 * the watcher has arrived, because the client may have learned the revision just before. There is one read at a time.
 * It judges all watchers that arrived before it started, and later watchers wait for the next read. A watcher stays
 * open until a read succeeds.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import { RevisionUnknownError } from '../model/errors.js'
import type { Revision } from '../model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Cursor } from './cursor.js'
import { endSoon, expire } from './endings.js'
import { REVISION_READ_GAP_MS } from '../model/limits.js'

/** The delay after a read that failed. */
const RETRY_MS = 1_000
/**
 * A watcher that waits for the cache is judged again periodically, because etcd may be restored in the meantime and a
 * quiet cache far behind the watcher's revision would not notice. If etcd's progress cannot be trusted, such a wait may
 * take minutes for each of some fifty resources, so the reads are rare.
 */
const REPEAT_MS = 30_000

export class FutureWatchers {
  readonly #cache: WatchCache
  readonly #clock: Clock
  readonly #waiting = new Set<Cursor>()
  #isReading = false
  #readMs = Number.NEGATIVE_INFINITY
  #timer: Timer | null = null

  constructor(cache: WatchCache, clock: Clock) {
    this.#cache = cache
    this.#clock = clock
  }

  get size(): number {
    return this.#waiting.size
  }

  /**
   * Places a cursor in the ring, or makes it wait until the cache reaches its revision. Ends it with 410 if the ring
   * has already dropped events after its revision.
   */
  follow(cursor: Cursor): void {
    if (cursor.revision > this.#cache.revision) {
      cursor.wait()
      this.#waiting.add(cursor)
      this.#readIn(0)
    } else if (this.#cache.history.canResumeAfter(cursor.revision)) cursor.lag()
    else expire(cursor)
  }

  remove(cursor: Cursor): void {
    if (!this.#waiting.delete(cursor) || this.#waiting.size > 0) return
    this.#timer?.cancel()
    this.#timer = null
  }

  /** The cache has everything at or before `revision`. */
  reached(revision: Revision): void {
    for (const cursor of this.#waiting) {
      if (cursor.revision > revision || cursor.state !== 'waiting') continue
      this.remove(cursor)
      this.follow(cursor)
    }
  }

  #readIn(delayMs: number): void {
    this.#timer?.cancel()
    this.#timer = null
    // The read in progress schedules the next one when it ends.
    if (this.#isReading || this.#waiting.size === 0) return
    const waitMs = Math.max(delayMs, this.#readMs + REVISION_READ_GAP_MS - this.#clock.monotonic())
    if (waitMs <= 0) void this.#read()
    else this.#timer = this.#clock.setTimer(waitMs, () => void this.#read())
  }

  async #read(): Promise<void> {
    const { reads } = this.#cache
    this.#timer = null
    this.#isReading = true
    this.#readMs = this.#clock.monotonic()
    const judged = new Set(this.#waiting)
    const revision = await reads.sourceRevision().catch(() => null)
    this.#isReading = false
    if (revision === null) return this.#readIn(RETRY_MS)
    for (const cursor of judged) {
      if (cursor.state !== 'waiting') continue
      if (cursor.revision <= revision) cursor.decide()
      else {
        this.remove(cursor)
        endSoon(cursor, new RevisionUnknownError(cursor.revision, revision), 'too-large')
      }
    }
    if (this.#waiting.size === 0) return
    // etcd has reached the revisions of the other judged watchers. A cache without events reaches them only through a
    // progress report.
    reads.requestProgress()
    const isLateComer = (cursor: Cursor): boolean => !judged.has(cursor)
    this.#readIn([...this.#waiting].some(isLateComer) ? 0 : REPEAT_MS)
  }
}
