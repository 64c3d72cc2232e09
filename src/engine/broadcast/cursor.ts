/**
 * One watcher: a place in a group's stream, never a queue. It owns its state (see `cursor-state.ts`) and keeps its
 * group's members in step with it; `advance.ts` decides where it goes next. A transport tells it when its socket drains
 * or closes.
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
 * A connection, as the broadcast sees it. The bytes it is given are shared and never change afterwards. On a compressed
 * wire they come with the checksum of their uncompressed content, otherwise with null.
 */
export interface WatchOutput {
  /** Takes framed bytes. Returns false when it is full: it is given no more until `cursor.drained()`. */
  write(bytes: Buffer, checksum: Checksum | null): boolean
  /** Writes the last bytes, then ends the stream cleanly. @param error the error that the last bytes carry, if any. */
  end(bytes: Buffer | null, error: Status | null, checksum: Checksum | null): void
  /** Cuts off a peer that takes nothing any more. */
  destroy(): void
  /** The bytes that it has taken from us and the peer has not taken yet. */
  readonly pendingBytes: number
}

export interface CursorOptions {
  /** Who watches, for the status page: the user, or the address of a caller without a name. */
  readonly identity: string
  /** The client asked for bookmarks. */
  readonly bookmarks: boolean
  /** Monotonic milliseconds at which the stream ends cleanly. */
  readonly deadlineMs: number
  /** Called with the bytes of initial state that were sent. @returns milliseconds to wait before sending more. */
  readonly pace: (bytes: number) => number
  /** Called at most once, before `onEnd`, when the whole initial state has been handed over. */
  readonly onInitialComplete: () => void
  /** Called once. */
  readonly onEnd: (reason: EndReason) => void
}

/** The functions of the dispatcher that a cursor needs. */
export interface CursorOwner {
  /** Called when the cursor can go on: its socket drained, or it has something to do. */
  wake(cursor: Cursor): void
  finish(cursor: Cursor, reason: EndReason): void
  /** Counts events handed to a connection, and their bytes. */
  count(events: number, bytes: number): void
}

/** The error that an ending cursor still has to send. */
export interface LastError {
  readonly error: StatusError
  readonly reason: EndReason
}

export class Cursor {
  readonly timetable: Timetable
  // Written by the structure it stands in, and by nobody else: the pump's queue, the group's members, the schedule.
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

  /** All bytes that were handed to its connection, before compression. */
  get sentBytes(): number {
    return this.#sentBytes
  }

  /** Everything at or before it has been written; while active, as of the last write. */
  get revision(): Revision {
    return this.#revision
  }

  /** Its place in the group's log; meaningful while active. */
  get offset(): number {
    return this.#offset
  }

  /** The socket is full. */
  get isBlocked(): boolean {
    return this.#isBlocked
  }

  /** The error that it will be sent, while `ending`. */
  get lastError(): LastError | null {
    return this.#lastError
  }

  /** The next event must be encoded as a first one (a Table's columns). */
  get needsFirst(): boolean {
    return this.#needsFirst
  }

  /** The initial state that it is being sent. */
  get initial(): InitialFrames | null {
    return this.#initial
  }

  /** Its initial state rests until a timer ends. */
  get isPaced(): boolean {
    return this.#isPaced
  }

  /** Nothing that concerns it is left to be written, so a bookmark may be. */
  get isAtHead(): boolean {
    if (this.#state === 'active') return this.#offset === this.group.log.endOffset
    return this.#state === 'lagging' && this.group.members.parked.has(this)
  }

  // Transitions

  /** @param marksEnd whether a bookmark marks the end of the state. */
  beginInitial(frames: InitialFrames, marksEnd: boolean, nowMs: number): void {
    this.#step('begin-initial')
    this.#initialSinceMs = nowMs
    this.#initial = frames
    this.#revision = frames.revision
    this.#marksInitialEnd = marksEnd
  }

  /** All of the state is written; a bookmark or a mark says so where the client asked for it. */
  completeInitial(): void {
    this.#step('complete-initial')
    const { group } = this
    this.#revision = this.#initial!.revision
    this.#releaseInitial()
    this.options.onInitialComplete()
    if (this.#marksInitialEnd) this.write(group.bookmark({ revision: this.#revision, endsInitialEvents: true }))
    else if (group.wire.mark !== null) this.write(group.mark(this.#revision))
  }

  wait(): void {
    this.#step('wait')
  }

  /** It goes on from the ring, after its revision. */
  lag(): void {
    this.#step('lag')
    this.#leaveLog()
    this.owner.wake(this)
  }

  /** The log is about to lose what lies before it: it goes on from the ring. */
  lagFromLog(headRevision: Revision): void {
    this.#revision = this.group.log.revisionAt(this.#offset, headRevision)
    this.lag()
  }

  /** It stands in the log from now on, just after its revision. */
  join(): void {
    this.#step('join')
    this.#offset = this.group.log.offsetAfter(this.#revision)
    this.group.members.addActive(this)
  }

  /**
   * From now on it is written nothing but an error, in a turn of the pump. Its hold on a state or a log ends at once.
   */
  endSoon(lastError: LastError): void {
    this.#step('end-soon')
    this.#leaveGroup()
    this.#lastError = lastError
    this.owner.wake(this)
  }

  /** @returns whether it had not ended before. */
  end(): boolean {
    if (this.#state === 'ended') return false
    this.#step('end')
    this.#leaveGroup()
    return true
  }

  // Its place while it lags

  /** It is at the head and waits for its first event. */
  park(): void {
    this.group.members.parked.add(this)
  }

  /** The next event that concerns its group follows this revision. */
  unpark(revision: Revision): void {
    this.group.members.parked.delete(this)
    this.#revision = revision
    this.owner.wake(this)
  }

  /** Everything up to this revision has been looked at, and nothing of it is left to be written. */
  passTo(revision: Revision): void {
    this.#revision = revision
  }

  // What is written

  /** Writes an active cursor up to the head, unless its socket is full. */
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

  /** Returns the next unit of its initial state: null when that is complete, an empty one when nothing is ready yet. */
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

  /** Its initial state rests until `resume`. The rest does not count when its rate is judged. */
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
    this.write(this.group.bookmark({ revision, endsInitialEvents: false }))
  }

  writeMark(revision: Revision): void {
    this.#revision = revision
    this.write(this.group.mark(revision))
  }

  /** @returns whether more can be written: the socket may be full, or have closed over it. */
  write({ bytes, checksum }: WriteUnit): boolean {
    this.#sentBytes += bytes.length
    if (!this.output.write(bytes, checksum)) this.#isBlocked = true
    return !this.#isBlocked && this.#state !== 'ended'
  }

  // The connection

  /** The transport's socket can take more. */
  drained(): void {
    if (this.#state === 'ended' || !this.#isBlocked) return
    this.#isBlocked = false
    this.#stuckSinceMs = 0
    this.owner.wake(this)
  }

  /** The transport's connection is gone. */
  closed(): void {
    this.owner.finish(this, 'closed')
  }

  /**
   * Whether it has been blocked for `limitMs` below the ring's floor, where it cannot even be told that it has expired,
   * or while it holds one of the few slots for initial states.
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
   * Whether it has taken its initial state more slowly than so many bytes a second, after a time in which that is allowed: it
   * holds one of the few places for initial states.
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
