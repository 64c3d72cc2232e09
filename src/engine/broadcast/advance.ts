/**
 * Moves the watchers of one resource forward when the pump calls: through their initial state, through the ring batch
 * by batch, and into their group's log. A cursor is checked and joined to the log in one synchronous step, so it
 * neither misses an event nor gets one twice.
 */
import type { CacheBatch } from '../cache/cache-batch.js'
import type { WatchCache } from '../cache/watch-cache.js'
import { ByteCache } from '../../support/byte-cache.js'
import type { Clock } from '../../support/clock.js'
import { Slice } from '../../support/turns.js'
import type { Revision } from '../model/revision.js'
import type { BroadcastMetrics } from '../model/stage-metrics.js'
import type { Cursor } from './cursor.js'
import type { Endings } from './endings.js'
import type { Group } from './group.js'
import type { Advance } from './pump.js'
import { type EventUnit, joinedUnits } from './wire-format.js'

/** Limits on the work done for one cursor in one turn of the pump. */
const TURN_BYTES = 256 * 1024
const TURN_BATCHES = 512
const TURN_MS = 1
/**
 * Consecutive batches are copied into one write to a lagging watcher up to this size. A write costs as much as copying
 * ten times this many bytes. If the socket is full, the copied bytes stay in memory until it drains.
 */
const PIECE_BYTES = 16 * 1024

/** The events sent to a lagging cursor in one write. */
interface Piece {
  readonly unit: EventUnit
  /** The revision of the last batch in the piece. */
  readonly revision: Revision
  readonly batches: number
}

export interface CursorAdvanceOptions {
  readonly cache: WatchCache
  readonly endings: Endings
  readonly clock: Clock
  readonly metrics: BroadcastMetrics
  /** The most bytes of encoded ring batches kept for lagging cursors. */
  readonly replayBytes: number
  /** Called when a cursor starts waiting for a future revision. */
  readonly onWaiting: (cursor: Cursor) => void
  /** Called after each turn of a single cursor, but not during a pass over a group. */
  readonly onTurn: (cursor: Cursor) => void
}

export class CursorAdvance implements Advance {
  readonly #options: CursorAdvanceOptions
  readonly #cache: WatchCache
  readonly #endings: Endings
  /** Encoded events per ring batch and group, shared by lagging cursors. */
  readonly #replays: ByteCache<string, EventUnit>

  constructor(options: CursorAdvanceOptions) {
    this.#options = options
    this.#cache = options.cache
    this.#endings = options.endings
    this.#replays = new ByteCache({
      maxBytes: options.replayBytes,
      sizeOf: (replay) => replay.bytes.length + 128,
    })
  }

  /** Changes the byte limit for encoded batches. */
  resizeReplays(maxBytes: number): void {
    this.#replays.resize(maxBytes)
  }

  /** Drops the encoded batches when the history to which they belong has ended. */
  forgetReplays(): void {
    this.#replays.clear()
  }

  /**
   * Places a cursor in the ring, or makes it wait until the cache reaches its revision. Ends it with 410 if the ring
   * has already dropped events after its revision.
   */
  follow(cursor: Cursor): void {
    if (cursor.revision > this.#cache.revision) {
      cursor.wait()
      this.#options.onWaiting(cursor)
    } else if (this.#cache.canResumeAfter(cursor.revision)) cursor.lag()
    else this.#endings.expire(cursor)
  }

  get headRevision(): Revision {
    return this.#cache.revision
  }

  advance(cursor: Cursor): boolean {
    if (cursor.state === 'ending') {
      this.#endings.endCleanly(cursor, 'error')
      return false
    }
    if (cursor.isBlocked) return false
    try {
      const hasMore = this.#advanceInTurn(cursor)
      this.#options.onTurn(cursor)
      return hasMore
    } catch (error) {
      this.#endings.endWithError(cursor, this.#endings.unwritable(error), 'error')
      return false
    }
  }

  passed({ members, log, receivedAtMs }: Group<Cursor>): void {
    const { clock, metrics } = this.#options
    metrics.delay((clock.monotonic() - receivedAtMs) / 1000)
    let slowest = log.endOffset
    for (const { offset } of members.active) if (offset < slowest) slowest = offset
    // Trim now instead of waiting for the end of a pass: under constant load there may be no end.
    if (slowest >= log.endOffset) log.release(this.#cache.revision)
    else log.trim(slowest)
  }

  #advanceInTurn(cursor: Cursor): boolean {
    switch (cursor.state) {
      case 'initial':
        return this.#advanceInitial(cursor)
      case 'lagging':
        return this.#advanceLagging(cursor)
      case 'active':
        cursor.writeLog(this.headRevision)
        return false
      case 'starting':
      case 'waiting':
      case 'ending':
      case 'ended':
        return false
    }
  }

  #advanceInitial(cursor: Cursor): boolean {
    if (cursor.isPaced) return false
    if (cursor.initial!.revision < this.#cache.floorRevision) {
      // The ring has dropped events since that state, so the client could not continue from it.
      this.#endings.expire(cursor)
      return false
    }
    const unit = cursor.nextInitialUnit()
    if (unit === null) {
      cursor.completeInitial()
      if (hasEnded(cursor)) return false
      // A state read from the source itself may be ahead of the cache. Events that it already contains must not be sent
      // again.
      this.follow(cursor)
      return !hasEnded(cursor)
    }
    if (unit.events === 0) return true
    const hasRoom = cursor.writeInitial(unit)
    const waitMs = cursor.options.pace(unit.bytes.length)
    if (waitMs <= 0) return hasRoom
    cursor.pause(waitMs)
    this.#options.clock.setTimer(waitMs, () => cursor.resume())
    return false
  }

  #advanceLagging(cursor: Cursor): boolean {
    const cache = this.#cache
    const slice = new Slice(TURN_MS)
    let bytes = 0
    let batches = 0
    // A parked cursor has everything up to the head, even if the last revision written to it is old.
    if (cursor.isAtHead) cursor.passTo(cache.revision)
    while (batches < TURN_BATCHES && bytes < TURN_BYTES) {
      if (cursor.revision < cache.floorRevision) {
        this.#endings.expire(cursor)
        return false
      }
      this.#settleAtHead(cursor)
      if (this.#canJoin(cursor)) {
        cursor.join()
        cursor.writeLog(this.headRevision)
        return false
      }
      const batch = cache.batchAfter(cursor.revision)
      if (batch === undefined) {
        cursor.park()
        if (cursor.timetable.owesBookmark) cursor.writeBookmark(cache.revision)
        return false
      }
      const piece = this.#pieceOf(cursor, batch, slice)
      batches += piece.batches
      bytes += piece.unit.bytes.length
      cursor.passTo(piece.revision)
      if (piece.unit.events > 0 && !cursor.writeEvents(piece.unit)) return false
      if (slice.isOver) return true
    }
    return true
  }

  /** Returns the cursor's next batch, together with the following ones if they are small. */
  #pieceOf(cursor: Cursor, batch: CacheBatch, slice: Slice): Piece {
    const first = this.#replayOf(cursor, batch)
    const units = first.events > 0 ? [first] : []
    let { revision } = batch
    let bytes = first.bytes.length
    let batches = 1
    while (bytes < PIECE_BYTES && batches < TURN_BATCHES && !cursor.needsFirst && !slice.isOver) {
      const next = this.#cache.batchAfter(revision)
      const unit = next === undefined ? null : this.#replayIfWritable(cursor, next)
      if (unit === null || bytes + unit.bytes.length > PIECE_BYTES) break
      if (unit.events > 0) units.push(unit)
      bytes += unit.bytes.length
      batches++
      revision = next!.revision
    }
    return { unit: joinedUnits(units), revision, batches }
  }

  /** Returns null for a batch that cannot be encoded. The cursor gets the error when it reaches that batch. */
  #replayIfWritable(cursor: Cursor, batch: CacheBatch): EventUnit | null {
    try {
      return this.#replayOf(cursor, batch)
    } catch {
      return null
    }
  }

  /**
   * If no batch follows the cursor's revision, moves the cursor up to the cache's revision. Moves the log there too if
   * the group has no active members.
   */
  #settleAtHead(cursor: Cursor): void {
    const { members, log } = cursor.group
    const { revision } = this.#cache
    if (this.#cache.batchAfter(cursor.revision) !== undefined) return
    if (members.active.length === 0) log.reset(revision)
    if (cursor.revision < revision) cursor.passTo(revision)
  }

  /** Whether the cursor can continue from the group's log: the log has everything after its revision. */
  #canJoin({ group: { members, log }, revision, needsFirst }: Cursor): boolean {
    // A group without active members writes nothing to its log.
    if (members.active.length === 0 && this.#cache.batchAfter(revision) !== undefined) return false
    return revision >= log.floorRevision && !needsFirst
  }

  #replayOf(cursor: Cursor, batch: CacheBatch): EventUnit {
    const { group } = cursor
    if (cursor.needsFirst) return group.replay(batch, true)
    const key = `${group.key}\n${batch.revision}`
    let replay = this.#replays.get(key)
    if (replay === undefined) {
      replay = group.replay(batch, false)
      this.#replays.set(key, replay)
    }
    return replay
  }
}

/**
 * This is a function so that TypeScript does not assume that the state is the same after a call that may end the
 * cursor.
 */
function hasEnded(cursor: Cursor): boolean {
  return cursor.state === 'ended'
}
