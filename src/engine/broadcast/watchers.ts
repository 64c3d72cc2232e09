/**
 * The watchers of one resource. The parts of the broadcast share this object: cursors wake and end through it, the pump
 * moves them through it, and it holds what watchers share. The pump calls it to move a cursor through its initial
 * state, through the ring batch by batch, and into its group's log. A cursor is checked and joined to the log in one
 * synchronous step, so it neither misses an event nor gets one twice.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import type { EndReason } from '../model/end-reason.js'
import { MIN_INITIAL_BYTES_PER_SECOND, RETIRE_LIMIT_MS, STUCK_LIMIT_MS } from '../model/limits.js'
import type { Revision } from '../model/revision.js'
import type { BroadcastMetrics } from '../model/stage-metrics.js'
import type { Clock } from '../../support/clock.js'
import type { Random } from '../../support/random.js'
import { Slice } from '../../support/turns.js'
import { Bookmarks } from './bookmarks.js'
import type { Cursor, CursorOwner } from './cursor.js'
import { endCleanly, endUnserved, endWithError, expire, noLongerServed } from './endings.js'
import { FutureWatchers } from './future-watchers.js'
import type { Group } from './group.js'
import type { Groups } from './groups.js'
import type { Advance, Pump } from './pump.js'
import { Replays } from './replays.js'

export interface WatchersOptions {
  readonly cache: WatchCache
  readonly pump: Pump
  readonly clock: Clock
  readonly random: Random
  readonly metrics: BroadcastMetrics
  /** Milliseconds between two bookmarks to one watcher, ±10% jitter. */
  readonly bookmarkIntervalMs: number
  /** Byte limit for encoded ring batches kept for lagging cursors. */
  readonly replayBytes: number
  /** Called when an encoder failed, because of a bug or because of the object. */
  readonly onUnencodable: (error: Error) => void
}

/** Limits on the work done for one cursor in one turn of the pump. */
const TURN_BYTES = 256 * 1024
const TURN_BATCHES = 512
const TURN_MS = 1
/** The rate is judged only after this time. By default, a list may not take longer than this at any rate. */
const SLOW_INITIAL_MS = 60_000

export class Watchers implements CursorOwner, Advance {
  readonly cursors = new Set<Cursor>()
  readonly bookmarks: Bookmarks
  readonly future: FutureWatchers
  readonly replays: Replays
  readonly #options: WatchersOptions
  readonly #cache: WatchCache
  #sentEvents = 0
  #sentBytes = 0
  /** Not null while `retire` waits for the last watchers of a resource that is no longer served. */
  #onRetired: (() => void) | null = null

  constructor(
    readonly groups: Groups,
    options: WatchersOptions,
  ) {
    const { cache, clock } = options
    this.#options = options
    this.#cache = cache
    this.bookmarks = new Bookmarks(options)
    this.future = new FutureWatchers(cache, clock)
    this.replays = new Replays(cache.history, options.replayBytes)
  }

  get headRevision(): Revision {
    return this.#cache.revision
  }

  get floorRevision(): Revision {
    return this.#cache.history.floorRevision
  }

  /** Events and bytes written to connections since the start. */
  get sent(): { readonly events: number; readonly bytes: number } {
    return { events: this.#sentEvents, bytes: this.#sentBytes }
  }

  // CursorOwner

  wake(cursor: Cursor): void {
    this.#options.pump.enqueueCursor(cursor, this)
  }

  finish(cursor: Cursor, reason: EndReason): void {
    if (!cursor.end()) return
    this.cursors.delete(cursor)
    this.future.remove(cursor)
    this.bookmarks.remove(cursor)
    this.groups.leave(cursor.group, this.headRevision)
    this.#options.metrics.ended(reason)
    cursor.options.onEnd(reason)
    if (this.cursors.size === 0) this.#onRetired?.()
  }

  /** Keeps plain sums, because a labelled counter would cost several times as much per write. */
  count(events: number, bytes: number): void {
    this.#sentEvents += events
    this.#sentBytes += bytes
  }

  /** The group's log has grown. */
  pass(group: Group<Cursor>): void {
    this.#options.pump.enqueueGroup(group, this)
  }

  /**
   * Returns the error for streams that need an event which cannot be encoded. These streams end, because a missing
   * event would be worse.
   */
  unwritable(caught: unknown): Error {
    const error = caught instanceof Error ? caught : new Error(String(caught))
    this.#options.onUnencodable(error)
    return error
  }

  /**
   * No client can resume its watch, so each watcher first gets every event and then ends cleanly. If that takes too
   * long, it ends with an error. Resolves when all watchers have ended.
   */
  async retire(): Promise<void> {
    const limit = this.#options.clock.setTimer(RETIRE_LIMIT_MS, () => {
      for (const cursor of this.cursors) endWithError(cursor, noLongerServed(), 'removed')
    })
    await new Promise<void>((resolve) => {
      this.#onRetired = resolve
      for (const cursor of this.cursors) {
        this.#endIfComplete(cursor)
        if (cursor.state !== 'ended') this.wake(cursor)
      }
      if (this.cursors.size === 0) resolve()
    })
    this.#onRetired = null
    limit.cancel()
  }

  #endIfComplete(cursor: Cursor): void {
    if (cursor.isAtHead || cursor.state === 'waiting') endUnserved(cursor)
  }

  /** Ends the connections of peers that read too slowly even for an error. Called every few seconds. */
  cutStuck(nowMs: number): void {
    const { headRevision, floorRevision } = this
    for (const cursor of this.cursors) {
      const isStuck = cursor.isStuck(nowMs, floorRevision, headRevision, STUCK_LIMIT_MS)
      if (!isStuck && !cursor.isTooSlow(nowMs, MIN_INITIAL_BYTES_PER_SECOND, SLOW_INITIAL_MS)) continue
      this.finish(cursor, isStuck ? 'stuck' : 'slow')
      cursor.output.destroy()
    }
  }

  // Advance

  advance(cursor: Cursor): boolean {
    if (cursor.state === 'ending') {
      endCleanly(cursor, 'error')
      return false
    }
    if (cursor.isBlocked) return false
    try {
      const hasMore = this.#advanceInTurn(cursor)
      if (this.#onRetired !== null) this.#endIfComplete(cursor)
      return hasMore
    } catch (error) {
      endWithError(cursor, this.unwritable(error), 'error')
      return false
    }
  }

  passed({ members, log, receivedAtMs }: Group<Cursor>): void {
    const { clock, metrics } = this.#options
    metrics.delay((clock.monotonic() - receivedAtMs) / 1000)
    let slowest = log.endOffset
    for (const { offset } of members.active) if (offset < slowest) slowest = offset
    // Trim now instead of waiting for the end of a pass: under constant load there may be no end.
    if (slowest >= log.endOffset) log.release(this.headRevision)
    else log.trim(slowest)
  }

  #advanceInTurn(cursor: Cursor): boolean {
    switch (cursor.state) {
      case 'initial':
        return this.#advanceInitial(cursor)
      case 'lagging':
        return this.#advanceLagging(cursor)
      case 'active':
        cursor.writeLog()
        return false
      case 'waiting':
        cursor.writeOwedBookmark()
        return false
      case 'starting':
      case 'ending':
      case 'ended':
        return false
    }
  }

  #advanceInitial(cursor: Cursor): boolean {
    if (cursor.initial!.revision < this.floorRevision) {
      // The ring has dropped events since that state, so the client could not continue from it.
      expire(cursor)
      return false
    }
    const unit = cursor.nextInitialUnit()
    if (unit === null) {
      cursor.completeInitial()
      if (hasEnded(cursor)) return false
      // A state read from the source itself may be ahead of the cache. Events that it already contains must not be sent
      // again.
      this.future.follow(cursor)
      return !hasEnded(cursor)
    }
    return unit.events === 0 || cursor.writeInitial(unit)
  }

  #advanceLagging(cursor: Cursor): boolean {
    const { history } = this.#cache
    const slice = new Slice(TURN_MS)
    let bytes = 0
    let batches = 0
    // A parked cursor has everything up to the head, even if the last revision written to it is old.
    if (cursor.isAtHead) cursor.passTo(this.headRevision)
    while (batches < TURN_BATCHES && bytes < TURN_BYTES) {
      if (cursor.revision < history.floorRevision) {
        expire(cursor)
        return false
      }
      this.#settleAtHead(cursor)
      if (this.#canJoin(cursor)) {
        cursor.join()
        cursor.writeLog()
        return false
      }
      const batch = history.batchAfter(cursor.revision)
      if (batch === undefined) {
        cursor.park()
        cursor.writeOwedBookmark()
        return false
      }
      const piece = this.replays.pieceOf(cursor, batch, TURN_BATCHES, slice)
      batches += piece.batches
      bytes += piece.unit.bytes.length
      cursor.passTo(piece.revision)
      if (piece.unit.events > 0 && !cursor.writeEvents(piece.unit, piece.eventRevision)) return false
      if (slice.isOver) return true
    }
    return true
  }

  /**
   * If no batch follows the cursor's revision, moves the cursor up to the cache's revision. Moves the log there too if
   * the group has no active members.
   */
  #settleAtHead(cursor: Cursor): void {
    const { members, log } = cursor.group
    const { headRevision } = this
    if (this.#cache.history.batchAfter(cursor.revision) !== undefined) return
    if (members.active.length === 0) log.reset(headRevision)
    if (cursor.revision < headRevision) cursor.passTo(headRevision)
  }

  /** Whether the cursor can continue from the group's log: the log has everything after its revision. */
  #canJoin({ group: { members, log }, revision, needsFirst }: Cursor): boolean {
    // A group without active members writes nothing to its log.
    if (members.active.length === 0 && this.#cache.history.batchAfter(revision) !== undefined) return false
    return revision >= log.floorRevision && !needsFirst
  }
}

/**
 * This is a function so that TypeScript does not assume that the state is the same after a call that may end the
 * cursor.
 */
function hasEnded(cursor: Cursor): boolean {
  return cursor.state === 'ended'
}
