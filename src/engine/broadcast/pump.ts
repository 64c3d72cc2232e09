/**
 * Moves bytes from logs to sockets, fairly and in slices.
 *
 * One after another, the pump takes the groups whose logs have grown. In one pass over a group, it writes everything
 * between each cursor and the head to each writable socket, in one write. After a few milliseconds it yields to the
 * event loop and then continues where it stopped, so that ingest, new connections and health checks stay responsive
 * with ten thousand watchers. No watcher is always last. Events do not wait for a timer: those that arrive during a
 * pass accumulate in the logs and leave with the next write.
 *
 * Cursors that need more than the log have a separate queue: for their initial state, a replay from the ring, or the
 * rest of the log after their socket has drained. Each gets a bounded turn between the groups.
 *
 * Both queues share time evenly between flows (`Group.flow`), so a client with thousands of watches that each need a
 * separate encoding delays only its own watches.
 */
import type { Cursor } from './cursor.js'
import type { Group } from './group.js'
import type { PumpMetrics } from '../model/stage-metrics.js'
import { FairQueue } from '../../support/fair-queue.js'
import { beforeTurns, LoopSlice } from '../../support/turns.js'

export interface PumpOptions {
  /** Milliseconds of work between two turns of the event loop. */
  readonly sliceMs?: number
  /** Milliseconds that one iteration of the event loop may spend on appending events to groups. */
  readonly dispatchMs?: number
  /** The number of groups to which a batch is appended at once even if the time is up. */
  readonly unslicedGroups?: number
  /** Milliseconds. */
  readonly now?: () => number
  readonly metrics: PumpMetrics
}

/** The operations that the pump performs on cursors. Each dispatcher supplies them for its own cursors. */
export interface Advance {
  /** One bounded turn for one cursor, outside a pass. @returns whether the cursor has more to do right away. */
  advance(cursor: Cursor): boolean
  /** Called when a pass over the group is complete. */
  passed(group: Group<Cursor>): void
}

/**
 * How long a slice of the pump may delay the event loop. The delay is imperceptible, but much longer than the overhead
 * of one iteration of the loop.
 */
const SLICE_MS = 4
/**
 * The clock is read once for this many cursors, because reading it costs about as much as advancing three cursors at
 * the head.
 */
const CURSORS_PER_CLOCK_READ = 16
const UNSLICED_GROUPS = 16

export class Pump {
  /**
   * The time for appending events to groups, over all resources. When it is over, the watchers of the remaining groups
   * read the events from the ring instead, in later slices of the pump.
   */
  readonly dispatchSlice: { readonly isOver: boolean }
  /**
   * A batch is appended to this many groups even if the time is up. For a large group, appending a burst costs no more
   * than reading it from the ring once, and replaying it from the ring to each watcher costs more.
   */
  readonly unslicedGroups: number
  readonly #sliceMs: number
  readonly #now: () => number
  readonly #metrics: PumpMetrics
  readonly #groups = new FairQueue<{ readonly group: Group<Cursor>; readonly advance: Advance }>()
  readonly #cursors = new FairQueue<{ readonly cursor: Cursor; readonly advance: Advance }>()
  #isScheduled = false
  #isStopped = false
  readonly #run = (): void => this.#slice()

  constructor(options: PumpOptions) {
    this.#sliceMs = options.sliceMs ?? SLICE_MS
    this.dispatchSlice = new LoopSlice(options.dispatchMs)
    this.unslicedGroups = options.unslicedGroups ?? UNSLICED_GROUPS
    this.#now = options.now ?? (() => performance.now())
    this.#metrics = options.metrics
  }

  /** The number of cursors and groups with work to do. */
  get depth(): number {
    return this.#groups.size + this.#cursors.size
  }

  /** Called when the group's log has grown. */
  enqueueGroup(group: Group<Cursor>, advance: Advance, followsAtOnce = false): void {
    if (group.isDirty) return
    group.isDirty = true
    group.members.beginPass(followsAtOnce)
    this.#groups.push(group.flow, { group, advance })
    this.#schedule()
  }

  enqueueCursor(cursor: Cursor, advance: Advance): void {
    if (cursor.isQueued) return
    cursor.isQueued = true
    this.#cursors.push(cursor.group.flow, { cursor, advance })
    this.#schedule()
  }

  stop(): void {
    this.#isStopped = true
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return
    this.#isScheduled = true
    beforeTurns(this.#run)
  }

  #slice(): void {
    this.#isScheduled = false
    if (this.#isStopped) return
    const started = this.#now()
    const end = started + this.#sliceMs
    // Groups and cursors get half the slice each, so that a storm of replays does not hold up live events, or the other
    // way round. Without live events, the groups' half is left to other work, such as other clients' requests. Initial
    // states end the cursors' half after a quarter of the slice, because there may be minutes of such work and no event
    // waits for it.
    const hasCursors = this.#cursors.size > 0
    this.#passGroups(started, hasCursors ? started + this.#sliceMs / 2 : end)
    if (hasCursors) this.#turnCursors(this.#now() + this.#sliceMs / 2)
    this.#metrics.slice((this.#now() - started) / 1000)
    if (this.depth > 0) this.#schedule()
  }

  #passGroups(started: number, end: number): void {
    let nowMs = started
    while (nowMs < end) {
      const item = this.#groups.take()
      if (item === undefined) return
      const beganMs = nowMs
      nowMs = this.#passGroup(item.group, end)
      if (item.group.members.isPassComplete) this.#passed(item.group, item.advance)
      else this.#groups.push(item.group.flow, item)
      this.#groups.spent(nowMs - beganMs)
    }
  }

  /** @returns the time afterwards. If it is not before `end`, the pass may be incomplete. */
  #passGroup(group: Group<Cursor>, end: number): number {
    let untilClock = CURSORS_PER_CLOCK_READ
    const { members } = group
    for (let cursor = members.nextInPass(); cursor !== undefined; cursor = members.nextInPass()) {
      cursor.writeLog()
      if (--untilClock > 0) continue
      const nowMs = this.#now()
      if (nowMs >= end) return nowMs
      untilClock = CURSORS_PER_CLOCK_READ
    }
    // Even a pass over a few cursors reads the clock once, so that the time limit also holds for ten thousand groups
    // with one watcher each.
    return this.#now()
  }

  #passed(group: Group<Cursor>, advance: Advance): void {
    const { members, log } = group
    group.isDirty = false
    const hasMore = members.active.some((cursor) => !cursor.isBlocked && cursor.offset < log.endOffset)
    advance.passed(group)
    if (hasMore) this.enqueueGroup(group, advance, true)
  }

  #turnCursors(end: number): void {
    let nowMs = this.#now()
    let initialMs = 0
    // There are at most as many turns as there were cursors. Cursors queued in the meantime wait for the next slice.
    for (let left = this.#cursors.size; left > 0; left--) {
      const { cursor, advance } = this.#cursors.take()!
      const beganMs = nowMs
      const isInitial = cursor.state === 'initial'
      cursor.isQueued = false
      if (advance.advance(cursor)) this.enqueueCursor(cursor, advance)
      nowMs = this.#now()
      this.#cursors.spent(nowMs - beganMs)
      if (isInitial) initialMs += nowMs - beganMs
      if (nowMs >= end || initialMs >= this.#sliceMs / 4) return
    }
  }
}
