/**
 * Moves the watchers of one resource forward when the pump calls: through their initial state, through the ring batch
 * by batch, and into their group's log. A cursor is checked and joined in one step, so that nothing can come in
 * between: no hole, no overlap.
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

/** The most work that is done for one cursor in one turn of the pump. */
const TURN_BYTES = 256 * 1024
const TURN_BATCHES = 512
const TURN_MS = 2
/**
 * The most of several batches that goes to a lagging watcher in one write, copied for it. A write costs as much as copying
 * ten times this; a watcher whose socket is full holds it until the socket takes it.
 */
const PIECE_BYTES = 16 * 1024

/** The events that a lagging cursor is sent in one write. */
interface Piece {
  readonly unit: EventUnit
  /** The revision of its last batch. */
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
  /** Called when a cursor begins to wait for a future revision. */
  readonly onWaiting: (cursor: Cursor) => void
}

export class CursorAdvance implements Advance {
  readonly #options: CursorAdvanceOptions
  readonly #cache: WatchCache
  readonly #endings: Endings
  /** The encoded events of each batch of the ring for each group, shared by lagging cursors. */
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

  /** Changes the bound on encoded batches. */
  resizeReplays(maxBytes: number): void {
    this.#replays.resize(maxBytes)
  }

  /** Drops the encoded batches, because the history they are of has ended. */
  forgetReplays(): void {
    this.#replays.clear()
  }

  /** Places a cursor: in the ring, or outside until its revision comes. Ends it with 410 when its revision is gone. */
  follow(cursor: Cursor): void {
    if (cursor.revision > this.#cache.revision) {
      cursor.wait()
      this.#options.onWaiting(cursor)
    } else if (this.#cache.canResumeAfter(cursor.revision)) cursor.lag()
    else this.#endings.expire(cursor)
  }

  advanceActive(cursor: Cursor): void {
    cursor.writeLog(this.#cache.revision)
  }

  advanceOther(cursor: Cursor): boolean {
    if (cursor.state === 'ending') {
      this.#endings.endCleanly(cursor, 'error')
      return false
    }
    if (cursor.isBlocked) return false
    try {
      return this.#advanceInTurn(cursor)
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
    // Free what nobody needs at once, even when events come faster than they leave, so that there is always a rest.
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
        this.advanceActive(cursor)
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
      // The events since then are gone, so the rest of the state would be of no use.
      this.#endings.expire(cursor)
      return false
    }
    const unit = cursor.nextInitialUnit()
    if (unit === null) {
      cursor.completeInitial()
      if (hasEnded(cursor)) return false
      // A state read from the source itself may be ahead of the cache: what it holds already must not be sent again.
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
    // A parked cursor is at the head, however old the revision that it was written last.
    if (cursor.isAtHead) cursor.passTo(cache.revision)
    while (batches < TURN_BATCHES && bytes < TURN_BYTES) {
      if (cursor.revision < cache.floorRevision) {
        this.#endings.expire(cursor)
        return false
      }
      this.#settleAtHead(cursor)
      if (this.#canJoin(cursor)) {
        cursor.join()
        this.advanceActive(cursor)
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

  /** The next batch for the cursor, and with it, where they are small, those after it. */
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

  /** null: it cannot be encoded; the cursor learns of it when it gets there. */
  #replayIfWritable(cursor: Cursor, batch: CacheBatch): EventUnit | null {
    try {
      return this.#replayOf(cursor, batch)
    } catch {
      return null
    }
  }

  /** A cursor that lacks no event is where the cache is, and so is the log of a group without active members. */
  #settleAtHead(cursor: Cursor): void {
    const { members, log } = cursor.group
    const { revision } = this.#cache
    if (this.#cache.batchAfter(cursor.revision) !== undefined) return
    if (members.active.length === 0) log.reset(revision)
    if (cursor.revision < revision) cursor.passTo(revision)
  }

  /** Whether the group's log has everything after the cursor's revision. */
  #canJoin({ group: { members, log }, revision, needsFirst }: Cursor): boolean {
    // Without active members nothing was written to the log.
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

/** Checked again after everything that may have ended the cursor. */
function hasEnded(cursor: Cursor): boolean {
  return cursor.state === 'ended'
}
