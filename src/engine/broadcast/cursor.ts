/**
 * One watcher: a position in a group's stream, without a queue of its own. A cursor owns its state (see
 * `cursor-state.ts`) and keeps its group's member lists in step with that state; `watchers.ts` decides the next step.
 * The transport reports when the socket drains or closes.
 */
import type { EndReason } from '../model/end-reason.js'
import type { Revision } from '../model/revision.js'
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
  end(bytes: Buffer | null, error: Error | null, checksum: Checksum | null): void
  /** Cuts off a peer that has stopped reading. */
  destroy(): void
  /** Bytes accepted from us that the peer has not read yet. */
  readonly pendingBytes: number
  /** The connection, which may carry other watches; absent if it must not be ended for the sake of balance. */
  readonly carrier?: object | undefined
}

export interface CursorOptions {
  /** The watcher's identity for the status page: the user name, or the address of an anonymous caller. */
  readonly identity: string
  /** Whether the client asked for bookmarks. */
  readonly bookmarks: boolean
  /** Monotonic milliseconds at which the stream ends cleanly. */
  readonly deadlineMs: number
  /** Called at most once, before `onEnd`, when the whole initial state has been written. */
  readonly onInitialComplete: () => void
  /** Called exactly once. */
  readonly onEnd: (reason: EndReason) => void
}

/** What a cursor needs of the object that the watchers of a resource share. */
export interface CursorOwner {
  /** The revision up to which everything has been dispatched. */
  readonly headRevision: Revision
  /** The revision after which every event is in the ring. */
  readonly floorRevision: Revision
  /** Called when the cursor can continue: its socket drained, or it has something to do. */
  wake(cursor: Cursor): void
  finish(cursor: Cursor, reason: EndReason): void
  /** Counts events and bytes written to a connection. */
  count(events: number, bytes: number): void
}

/** The error that an ending cursor has yet to send. */
export interface LastError {
  readonly error: Error
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
  /** The newest position that the client knows: from its request, an event, a bookmark or a mark; -1 for none. */
  #knownRevision = -1
  /** Whether the source is known to have reached the revision with which the watch begins. */
  #isDecided = false
  #isBlocked = false
  #stuckSinceMs = 0
  #lastError: LastError | null = null
  #needsFirst: boolean
  #initial: InitialFrames | null = null
  #initialAt = 0
  #initialSinceMs = 0
  #initialBytes = 0
  #sentBytes = 0
  #marksInitialEnd = false

  constructor(
    readonly owner: CursorOwner,
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

  /**
   * The state for operators. A watcher that is parked at the head misses nothing, so it counts as active: a Table's
   * watcher cannot join the log before its first event, which may be hours away.
   */
  get shownState(): CursorState {
    return this.isAtHead ? 'active' : this.#state
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

  /**
   * The revision up to which everything has been written to this watcher; null while that is not known, or not
   * complete. A watcher that began with a state newer than the cache's has everything up to the revision of that state.
   * So has a watcher from a revision that the cache has not reached, once it is known that the source has.
   */
  get position(): Revision | null {
    if (this.isAtHead) return this.owner.headRevision
    return this.#state === 'waiting' && this.#isDecided ? this.#revision : null
  }

  /** Whether every event for this watcher has been written, so a bookmark may follow. */
  get isAtHead(): boolean {
    if (this.#state === 'active') return this.#offset === this.group.log.endOffset
    return this.#state === 'lagging' && this.group.members.parked.has(this)
  }

  // Transitions

  /** The client named the revision after which the watch begins. */
  beginAfter(): void {
    this.#knownRevision = this.#revision
  }

  /** The source has reached the revision with which the watch begins. */
  decide(): void {
    this.#isDecided = true
    this.owner.wake(this)
  }

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
    this.#revision = this.#initial!.revision
    this.#releaseInitial()
    this.options.onInitialComplete()
    this.#isDecided = true
    if (this.#marksInitialEnd) this.#tell(this.bookmark(this.#revision, true), this.#revision)
    else this.#writeMark(this.#revision)
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
  writeLog(): void {
    if (this.#isBlocked) return
    const { headRevision } = this.owner
    const { log } = this.group
    while (this.#offset < log.endOffset) {
      const slice = log.sliceFrom(this.#offset, headRevision)
      this.#offset = slice.endOffset
      this.#revision = slice.revision
      this.#knownRevision = slice.eventRevision
      this.owner.count(slice.events, slice.bytes.length)
      if (!this.write(slice)) return
    }
    this.writeOwedBookmark()
  }

  /** @param revision the position that the last event tells the client; -1 for none. @returns whether more can be written. */
  writeEvents(unit: EventUnit, revision: number): boolean {
    this.#needsFirst = false
    this.#knownRevision = revision
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
    return this.writeEvents(unit, -1)
  }

  /** Writes the bookmark that is due, if the watcher has a position by now. */
  writeOwedBookmark(): void {
    const revision = this.timetable.owesBookmark && !this.#isBlocked ? this.position : null
    if (revision !== null) this.#writeBookmark(revision)
  }

  /**
   * Shows the client of a quiet stream that it is alive. A bookmark that is due repeats a position that has not moved,
   * since a browser shows its page nothing of a mark. Without a position the client gets at most an empty mark.
   */
  showLife(due: 'bookmark' | 'mark'): void {
    if (this.#isBlocked || this.#state === 'ending') return
    const { options, timetable } = this
    const revision = this.position
    const isKnown = revision === this.#knownRevision
    if (due === 'bookmark' && revision !== null) return this.#writeBookmark(revision)
    if (isKnown) timetable.bookmarkWritten()
    this.#writeMark(isKnown || options.bookmarks ? null : revision)
  }

  #writeBookmark(revision: Revision): void {
    this.timetable.bookmarkWritten()
    this.#tell(this.bookmark(revision), revision)
  }

  bookmark(revision: Revision, endsInitialEvents = false): WriteUnit {
    return this.group.bookmark({ revision, endsInitialEvents })
  }

  /** The last bytes of a stream that ends without an error; null for none. */
  farewell(withBookmark: boolean): WriteUnit | null {
    const revision = this.#isBlocked ? null : this.position
    if (revision === null) return null
    if (withBookmark) return this.bookmark(revision)
    const isMarked = this.group.wire.mark?.hasPosition === true && revision !== this.#knownRevision
    return isMarked ? this.group.mark(revision) : null
  }

  /** Whether its client resumes where the watch is: it knows that position, or a clean end would tell it. */
  get isResumable(): boolean {
    const { position, options, group } = this
    const isTold = options.bookmarks || group.wire.mark?.hasPosition === true
    return !this.#isBlocked && position !== null && (isTold || position === this.#knownRevision)
  }

  #writeMark(revision: Revision | null): void {
    if (this.group.wire.mark !== null) this.#tell(this.group.mark(revision), revision)
  }

  #tell(unit: WriteUnit, revision: Revision | null): void {
    if (revision !== null) {
      this.#revision = revision
      this.#knownRevision = revision
    }
    this.write(unit)
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

  /**
   * Called by a transport that carries several cursors, when another one has filled the socket: nothing is written
   * until `drained`.
   */
  block(): void {
    if (this.#state !== 'ended') this.#isBlocked = true
  }

  /** Called by the transport when the connection is gone. */
  closed(): void {
    this.finish('closed')
  }

  finish(reason: EndReason): void {
    this.owner.finish(this, reason)
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
