/**
 * One watcher: a position in a group's stream, without a queue of its own. A cursor owns its state (see
 * `cursor-state.ts`) and keeps its group's member lists in step with that state; `advance.ts` decides the next step.
 * The transport reports when the socket drains or closes.
 */
import type { EndReason } from '../model/end-reason.js'
import type { Revision } from '../model/revision.js'
import type { Status, StatusError } from '../model/status.js'
import type { Checksum } from '../../support/crc32.js'
import { type CursorState, type CursorStep, nextState } from './cursor-state.js'
import type { Group } from './group.js'
import type { InitialFrames } from './initial-frames.js'
import { Timetable } from './timetable.js'
import type { EventUnit, WriteUnit } from './wire-format.js'

/**
 * A connection, as the broadcast sees it. The bytes passed to it are shared and never change afterwards. With
 * compression, the checksum of the uncompressed bytes comes with them; without, the checksum is null.
 */
export interface WatchOutput {
  /**
   * Takes framed bytes. Returns false when the socket is full; then nothing more is written until `cursor.drained()`.
   */
  write(bytes: Buffer, checksum: Checksum | null): boolean
  /** Writes the last bytes, then ends the stream cleanly. @param error the error that the last bytes carry, if any. */
  end(bytes: Buffer | null, error: Status | null, checksum: Checksum | null): void
  /** Cuts off a peer that has stopped reading. */
  destroy(): void
  /** Bytes accepted from us that the peer has not read yet. */
  readonly pendingBytes: number
}

export interface CursorOptions {
  /** The watcher's identity for the status page: the user name, or the address of an anonymous caller. */
  readonly identity: string
  /** Whether the client asked for bookmarks. */
  readonly bookmarks: boolean
  /** Monotonic milliseconds at which the stream ends cleanly. */
  readonly deadlineMs: number
  /** Called with the number of initial-state bytes sent. @returns milliseconds to wait before sending more. */
  readonly pace: (bytes: number) => number
  /** Called at most once, before `onEnd`, when the whole initial state has been written. */
  readonly onInitialComplete: () => void
  /** Called exactly once. */
  readonly onEnd: (reason: EndReason) => void
}

/** The functions of the dispatcher that a cursor needs. */
export interface CursorOwner {
  /** Called when the cursor can continue: its socket drained, or it has something to do. */
  wake(cursor: Cursor): void
  finish(cursor: Cursor, reason: EndReason): void
  /** Counts events and bytes written to a connection. */
  count(events: number, bytes: number): void
}

/** The error that an ending cursor has yet to send. */
export interface LastError {
  readonly error: StatusError
  readonly reason: EndReason
}

export class Cursor {
  readonly timetable: Timetable
  // Only the structure that holds the cursor writes these fields, in this order: the pump's queue, the group's members,
  // the schedule.
  isQueued = false
  slot = -1
  dueTick = -1

  #state: CursorState = 'starting'
  #revision: Revision
  #offset = 0
  #isBlocked = false
  #stuckSinceMs = 0
  #lastError: LastError | null = null
  #needsFirst: boolean
  #initial: InitialFrames | null = null
  #initialAt = 0
  #isPaced = false
  #initialSinceMs = 0
  #initialBytes = 0
  #sentBytes = 0
  #marksInitialEnd = false

  constructor(
    private readonly owner: CursorOwner,
    readonly group: Group<Cursor>,
    readonly output: WatchOutput,
    readonly options: CursorOptions,
    revision: Revision,
  ) {
    this.#revision = revision
    this.#needsFirst = group.encoder.encodeFirst !== null
    this.timetable = new Timetable(options.deadlineMs, options.bookmarks, group.wire.mark?.everyMs ?? null)
  }

  get state(): CursorState {
    return this.#state
  }

  /** Bytes written to the connection, before compression. */
  get sentBytes(): number {
    return this.#sentBytes
  }

  /** Everything up to this revision has been written. For an active cursor, the value dates from its last write. */
  get revision(): Revision {
    return this.#revision
  }

  /** The position in the group's log; only meaningful while active. */
  get offset(): number {
    return this.#offset
  }

  /** Whether the socket is full. */
  get isBlocked(): boolean {
    return this.#isBlocked
  }

  /** The error to be sent while `ending`. */
  get lastError(): LastError | null {
    return this.#lastError
  }

  /** Whether the next event must be encoded as a first one (with a Table's columns). */
  get needsFirst(): boolean {
    return this.#needsFirst
  }

  /** The initial state being sent. */
  get initial(): InitialFrames | null {
    return this.#initial
  }

  /** Whether sending the initial state is paused until a timer fires. */
  get isPaced(): boolean {
    return this.#isPaced
  }

  /** Whether every event for this watcher has been written, so a bookmark may follow. */
  get isAtHead(): boolean {
    if (this.#state === 'active') return this.#offset === this.group.log.endOffset
    return this.#state === 'lagging' && this.group.members.parked.has(this)
  }

  // Transitions

  /** @param marksEnd whether a bookmark marks the end of the initial state. */
  beginInitial(frames: InitialFrames, marksEnd: boolean, nowMs: number): void {
    this.#step('begin-initial')
    this.#initialSinceMs = nowMs
    this.#initial = frames
    this.#revision = frames.revision
    this.#marksInitialEnd = marksEnd
  }

  /**
   * Called when the whole initial state is written. Sends the bookmark that marks its end if the client asked for one,
   * else a mark if the wire has marks.
   */
  completeInitial(): void {
    this.#step('complete-initial')
    const { group } = this
    this.#revision = this.#initial!.revision
    this.#releaseInitial()
    this.options.onInitialComplete()
    if (this.#marksInitialEnd) this.write(this.bookmark(this.#revision, true))
    else if (group.wire.mark !== null) this.write(group.mark(this.#revision))
  }

  wait(): void {
    this.#step('wait')
  }

  /** Continues from the ring, after the cursor's revision. */
  lag(): void {
    this.#step('lag')
    this.#leaveLog()
    this.owner.wake(this)
  }

  /** Falls back to the ring because the log is about to drop the bytes that the cursor needs next. */
  lagFromLog(headRevision: Revision): void {
    this.#revision = this.group.log.revisionAt(this.#offset, headRevision)
    this.lag()
  }

  /** Reads from the log from now on, starting just after the cursor's revision. */
  join(): void {
    this.#step('join')
    this.#offset = this.group.log.offsetAfter(this.#revision)
    this.group.members.addActive(this)
  }

  /**
   * From now on the cursor writes only the error, at its next turn of the pump. Releases the initial state and the log
   * at once.
   */
  endSoon(lastError: LastError): void {
    this.#step('end-soon')
    this.#leaveGroup()
    this.#lastError = lastError
    this.owner.wake(this)
  }

  /** @returns false if the cursor had already ended. */
  end(): boolean {
    if (this.#state === 'ended') return false
    this.#step('end')
    this.#leaveGroup()
    return true
  }

  // Position while lagging

  /** Waits at the head for the first event. */
  park(): void {
    this.group.members.parked.add(this)
  }

  /** Called when the group has an event, which is its first one after `revision`. */
  unpark(revision: Revision): void {
    this.group.members.parked.delete(this)
    this.#revision = revision
    this.owner.wake(this)
  }

  /**
   * Everything up to this revision has been examined, and the part that the watcher sees has been written or is about
   * to be.
   */
  passTo(revision: Revision): void {
    this.#revision = revision
  }

  // Writing

  /** Writes everything up to the head to an active cursor, until its socket is full. */
  writeLog(headRevision: Revision): void {
    if (this.#isBlocked) return
    const { log } = this.group
    while (this.#offset < log.endOffset) {
      const slice = log.sliceFrom(this.#offset, headRevision)
      this.#offset = slice.endOffset
      this.#revision = slice.revision
      this.owner.count(slice.events, slice.bytes.length)
      if (!this.write(slice)) return
    }
    if (this.timetable.owesBookmark) this.writeBookmark(headRevision)
  }

  /** @returns whether more can be written. */
  writeEvents(unit: EventUnit): boolean {
    this.#needsFirst = false
    this.owner.count(unit.events, unit.bytes.length)
    return this.write(unit)
  }

  /**
   * Returns the next unit of the initial state: null when the state is complete, an empty unit when nothing is ready
   * yet.
   */
  nextInitialUnit(): EventUnit | null {
    return this.#initial!.unit(this.#initialAt)
  }

  /** @returns whether more can be written. */
  writeInitial(unit: EventUnit): boolean {
    this.#initialAt++
    this.#initialBytes += unit.bytes.length
    // The shared units carry a Table's columns in their first event.
    return this.writeEvents(unit)
  }

  /** Pauses the initial state until `resume`. The pause is left out when `isTooSlow` computes the reading rate. */
  pause(ms: number): void {
    this.#isPaced = true
    this.#initialSinceMs += ms
  }

  resume(): void {
    this.#isPaced = false
    if (this.#state === 'initial') this.owner.wake(this)
  }

  writeBookmark(revision: Revision): void {
    this.timetable.bookmarkWritten()
    this.#revision = revision
    this.write(this.bookmark(revision))
  }

  bookmark(revision: Revision, endsInitialEvents = false): WriteUnit {
    return this.group.bookmark({ revision, endsInitialEvents })
  }

  writeMark(revision: Revision): void {
    this.#revision = revision
    this.write(this.group.mark(revision))
  }

  /** @returns whether more can be written. The socket may be full, or may have closed during the write. */
  write({ bytes, checksum }: WriteUnit): boolean {
    this.#sentBytes += bytes.length
    if (!this.output.write(bytes, checksum)) this.#isBlocked = true
    return !this.#isBlocked && this.#state !== 'ended'
  }

  // The connection

  /** Called by the transport when the socket can take more. */
  drained(): void {
    if (this.#state === 'ended' || !this.#isBlocked) return
    this.#isBlocked = false
    this.#stuckSinceMs = 0
    this.owner.wake(this)
  }

  /** Called by the transport when the connection is gone. */
  closed(): void {
    this.owner.finish(this, 'closed')
  }

  /**
   * Whether the cursor's socket has been full for `limitMs` while the cursor was below the ring's floor or held one of
   * the few slots for initial states. Below the floor it must end, and a full socket cannot even take the error.
   */
  isStuck(nowMs: number, floorRevision: Revision, headRevision: Revision, limitMs: number): boolean {
    const isHolding = this.#state === 'initial'
    if (!this.#isBlocked || (!isHolding && this.#writtenTo(headRevision) >= floorRevision)) {
      this.#stuckSinceMs = 0
      return false
    }
    if (this.#stuckSinceMs === 0) this.#stuckSinceMs = nowMs
    return nowMs - this.#stuckSinceMs >= limitMs
  }

  /**
   * Whether the client reads its initial state more slowly than `bytesPerSecond`, judged after `allowedMs`. Such a
   * client holds one of the few slots for initial states.
   */
  isTooSlow(nowMs: number, bytesPerSecond: number, allowedMs: number): boolean {
    if (this.#state !== 'initial' || !this.#isBlocked) return false
    const takenMs = nowMs - this.#initialSinceMs
    if (takenMs < allowedMs) return false
    const taken = this.#initialBytes - this.output.pendingBytes
    return taken < (takenMs / 1000) * bytesPerSecond
  }

  #writtenTo(headRevision: Revision): Revision {
    if (this.#state === 'active') return this.group.log.revisionAt(this.#offset, headRevision)
    return this.group.members.parked.has(this) ? headRevision : this.#revision
  }

  #step(step: CursorStep): void {
    this.#state = nextState(this.#state, step)
  }

  #leaveLog(): void {
    if (this.slot !== -1) this.group.members.removeActive(this)
  }

  #leaveGroup(): void {
    this.#leaveLog()
    this.group.members.parked.delete(this)
    this.#releaseInitial()
  }

  #releaseInitial(): void {
    if (this.#initial !== null) this.group.releaseInitial(this.#initial)
    this.#initial = null
  }
}
