/**
 * Moves bytes from logs to sockets, fairly and in slices.
 *
 * A pass takes the dirty groups in turn and writes to each writable socket all that lies between its cursor and the
 * head, in one write. After a few milliseconds it yields to the event loop and goes on where it stopped, so that
 * ingest, new connections and health checks stay alive with ten thousand watchers, and no watcher is always last.
 * Nothing waits on a timer: events that come while a pass runs gather in the logs and leave with the next write.
 *
 * Cursors that need more than the log (initial state, replay from the ring, a socket that has just drained) stand in a
 * queue of their own; each gets a bounded turn, in between the groups.
 */
import type { Cursor } from './cursor.js'
import type { Group } from './group.js'
import { LoopSlice } from '../support/turns.js'

export interface PumpOptions {
  /** The length of one slice of work between two turns of the event loop, in milliseconds. */
  readonly sliceMs?: number
  /** How long events may be handed to groups in one iteration of the event loop, milliseconds. */
  readonly dispatchMs?: number
  /** So many groups get a batch at once however long the others took. */
  readonly unslicedGroups?: number
  readonly metrics: { passSlice(seconds: number): void }
}

/** The operations of the pump on cursors; each dispatcher supplies them for its own. */
export interface Advance {
  /** Writes an active cursor up to the head, unless it is blocked. */
  advanceActive(cursor: Cursor): void
  /** One bounded turn of any other work. @returns whether there is more to do right away. */
  advanceOther(cursor: Cursor): boolean
  /** A pass over the group is complete. */
  passed(group: Group<Cursor>): void
}

/** The loop delay that a pass may add: well below what anybody feels, well above the cost of a turn of the loop. */
const SLICE_MS = 4
/** Reading the clock costs about as much as three cursors at the head. */
const CURSORS_PER_CLOCK_READ = 16
const UNSLICED_GROUPS = 16

export class Pump {
  /**
   * The time for handing events to groups, of all resources together. Watchers of the groups that have had no turn when
   * it is over go on from the ring, in slices of the pump.
   */
  readonly dispatchSlice: { readonly isOver: boolean }
  /**
   * So many groups get every batch at once: a burst of events to one large group costs no more than reading the burst, and
   * its watchers would go on one by one from the ring, which is dearer for all.
   */
  readonly unslicedGroups: number
  readonly #sliceMs: number
  readonly #metrics: PumpOptions['metrics']
  readonly #groups: { group: Group<Cursor>; advance: Advance }[] = []
  #groupsAt = 0
  readonly #cursors: { cursor: Cursor; advance: Advance }[] = []
  #cursorsAt = 0
  #isScheduled = false
  #isStopped = false
  readonly #run = (): void => this.#slice()

  constructor(options: PumpOptions) {
    this.#sliceMs = options.sliceMs ?? SLICE_MS
    this.dispatchSlice = new LoopSlice(options.dispatchMs)
    this.unslicedGroups = options.unslicedGroups ?? UNSLICED_GROUPS
    this.#metrics = options.metrics
  }

  /** The number of cursors and groups with work to do. */
  get depth(): number {
    return this.#groups.length - this.#groupsAt + (this.#cursors.length - this.#cursorsAt)
  }

  /** Called when the group's log has grown. */
  enqueueGroup(group: Group<Cursor>, advance: Advance): void {
    if (group.isDirty) return
    group.isDirty = true
    group.members.beginPass()
    this.#groups.push({ group, advance })
    this.#schedule()
  }

  enqueueCursor(cursor: Cursor, advance: Advance): void {
    if (cursor.isQueued) return
    cursor.isQueued = true
    this.#cursors.push({ cursor, advance })
    this.#schedule()
  }

  stop(): void {
    this.#isStopped = true
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return
    this.#isScheduled = true
    setImmediate(this.#run)
  }

  #slice(): void {
    this.#isScheduled = false
    if (this.#isStopped) return
    const started = performance.now()
    const end = started + this.#sliceMs
    // Half of the slice for each, so that a storm of replays does not hold up live events, nor they the storm.
    const hasCursors = this.#cursors.length > this.#cursorsAt
    this.#passGroups(hasCursors ? started + this.#sliceMs / 2 : end)
    if (hasCursors) this.#turnCursors(end)
    this.#metrics.passSlice((performance.now() - started) / 1000)
    if (this.depth > 0) this.#schedule()
  }

  #passGroups(end: number): void {
    while (this.#groupsAt < this.#groups.length) {
      const { group, advance } = this.#groups[this.#groupsAt]!
      const { members, log } = group
      const isLate = this.#passGroup(group, advance, end)
      if (isLate && !members.isPassComplete) return
      this.#groupsAt++
      group.isDirty = false
      const hasMore = members.active.some((cursor) => !cursor.isBlocked && cursor.offset < log.endOffset)
      advance.passed(group)
      if (hasMore) this.enqueueGroup(group, advance)
      if (isLate) break
    }
    this.#groupsAt = compact(this.#groups, this.#groupsAt)
  }

  /** @returns true when the time was up. */
  #passGroup(group: Group<Cursor>, advance: Advance, end: number): boolean {
    let untilClock = CURSORS_PER_CLOCK_READ
    const { members } = group
    for (let cursor = members.nextInPass(); cursor !== undefined; cursor = members.nextInPass()) {
      advance.advanceActive(cursor)
      if (--untilClock === 0) {
        if (performance.now() >= end) return true
        untilClock = CURSORS_PER_CLOCK_READ
      }
    }
    // A pass over few cursors reads the clock once, so that ten thousand groups of one are sliced as well.
    return performance.now() >= end
  }

  #turnCursors(end: number): void {
    // Those queued during this turn have their turn in the next.
    const until = this.#cursors.length
    while (this.#cursorsAt < until) {
      const { cursor, advance } = this.#cursors[this.#cursorsAt++]!
      cursor.isQueued = false
      if (advance.advanceOther(cursor)) this.enqueueCursor(cursor, advance)
      if (performance.now() >= end) break
    }
    this.#cursorsAt = compact(this.#cursors, this.#cursorsAt)
  }
}

/** Lets go of the consumed front of a queue, at a cost that is constant per item. @returns the new front. */
function compact(queue: unknown[], front: number): number {
  if (front === queue.length) {
    queue.length = 0
    return 0
  }
  if (front < 1024 || front * 2 < queue.length) return front
  queue.splice(0, front)
  return 0
}
