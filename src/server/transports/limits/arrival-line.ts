/**
 * Starts arrivals: what a client sends without being asked, such as connections and requests. They start at once while
 * this iteration of the event loop has time for them. Otherwise they wait, and clients take turns.
 */
import { NestedFairQueue } from '../../../support/fair-queue.js'
import { LoopSlice } from '../../../support/turns.js'
import { MOST_ARRIVALS_WAITING } from '../../limits/fixed-limits.js'

/** The slice for arrivals that had to wait. */
const ARRIVALS_MS = 2
/** Each kind of arrival gets at least this part of the slice. */
const LEAST_PART_MS = 0.25
/** A separate slice for arrivals from clients that have no other arrival waiting. */
const AT_ONCE_MS = 1
/** The time that each client gets in a round of waiting arrivals. A part of the slice has several rounds. */
const SHARE_MS = 0.1

/**
 * The origin of an arrival. Each client has an equal share of the time, and each connection of a client an equal part
 * of the client's share.
 */
export interface ArrivalSource {
  readonly client: string
  readonly connection: string
}

const ANYWHERE: ArrivalSource = { client: '', connection: '' }

const nothing = (): void => {}

/**
 * The kinds of arrivals, in the order in which a request passes them. Each iteration of the event loop gives the
 * waiting kinds their turns in this order, so a request passes all of them in one iteration, even if it is part of a
 * burst. If each kind scheduled itself, they would run in the wrong order, because a later kind starts to wait before
 * the earlier ones have finished.
 *
 * The kinds share one slice. If each had its own, an iteration with all kinds busy would be as long as all slices
 * together.
 */
export class ArrivalLine {
  readonly #kinds: ((done: () => void) => void)[] = []
  readonly #due = new Set<number>()
  #isDue = false
  /** The kind whose turn it is. */
  #at = 0
  #isRunning = false
  #endMs = 0
  #partEndMs = 0
  readonly #run = (): void => {
    this.#at = 0
    this.#isRunning = true
    this.#endMs = this.now() + ARRIVALS_MS
    this.#next()
  }
  readonly #done = (): void => this.#next()

  constructor(private readonly now = () => performance.now()) {}

  /**
   * Adds a kind, after all others.
   * @param run called when it is the kind's turn; calls `done` at its end.
   * @returns a function to call when any arrivals wait; the kind then gets a turn in this iteration or the next one.
   */
  add(run: (done: () => void) => void): () => void {
    const kind = this.#kinds.push(run) - 1
    return () => {
      this.#due.add(kind)
      if (this.#isDue) return
      this.#isDue = true
      setImmediate(this.#run)
    }
  }

  /** Whether it is any kind's turn. */
  get isRunning(): boolean {
    return this.#isRunning
  }

  /** Whether the kind whose turn it is has used its time. */
  get isOver(): boolean {
    return this.now() >= this.#partEndMs
  }

  #next(): void {
    while (this.#at < this.#kinds.length) {
      const kind = this.#at++
      if (!this.#due.has(kind)) continue
      // Each kind gets an equal part of the time that is left, so that later kinds get the time that this one does not
      // need.
      const kinds = [...this.#due].filter((due) => due >= kind).length
      const nowMs = this.now()
      this.#partEndMs = nowMs + Math.max((this.#endMs - nowMs) / kinds, LEAST_PART_MS)
      this.#due.delete(kind)
      return this.#kinds[kind]!(this.#done)
    }
    this.#isRunning = false
    this.#isDue = this.#due.size > 0
    if (this.#isDue) setImmediate(this.#run)
  }
}

export interface ArrivalsOptions {
  /** Default: a separate one. */
  readonly line?: ArrivalLine
  /** The slice of arrivals that start at once. */
  readonly slice?: { readonly isOver: boolean }
  /** Milliseconds, to measure each arrival. */
  readonly now?: () => number
  /**
   * How many arrivals may wait before clients that have their full share are rejected. Beyond twice this number, all
   * clients are rejected.
   */
  readonly mostWaiting?: number
}

/** The default slice of arrivals that start at once, shared by all kinds. */
const atOnce = new LoopSlice(AT_ONCE_MS)

/**
 * Starts arrivals, such as requests. An arrival starts at once if its client has none waiting and this iteration of the
 * event loop still has time for it. (Even small requests add up when a hundred arrive at once.) Otherwise it waits.
 * Waiting clients take turns, so that no client waits behind another client's burst. Arrivals of one connection start
 * in order.
 *
 * The time charged for an arrival includes all work that follows without waiting for anything external, because the
 * next arrival starts only when all resolved promises have continued.
 */
export class Arrivals {
  readonly #line: ArrivalLine
  readonly #slice: { readonly isOver: boolean }
  readonly #mostWaiting: number
  readonly #waiting = new NestedFairQueue<() => void>(SHARE_MS)
  /** The first arrival of each client, to start after the current tick. */
  readonly #soon = new Map<string, () => void>()
  readonly #now: () => number
  /** When the arrival that is being started left the queue; null if there is none. */
  #takenMs: number | null = null
  #isGoing = false
  #isGoingSoon = false
  /** Continues in the line's next round. */
  readonly #later: () => void
  #done = nothing
  readonly #go = (): void => this.#begin()
  readonly #goSoon = (): void => this.#beginSoon()

  constructor({
    line = new ArrivalLine(),
    slice = atOnce,
    now = () => performance.now(),
    mostWaiting = MOST_ARRIVALS_WAITING,
  }: ArrivalsOptions = {}) {
    this.#line = line
    this.#slice = slice
    this.#now = now
    this.#mostWaiting = mostWaiting
    this.#later = line.add((done) => {
      this.#done = done
      this.#begin()
    })
  }

  get waiting(): number {
    return this.#waiting.size + this.#soon.size
  }

  /** Whether a new arrival of the client has to wait. */
  isBusyFor({ client }: ArrivalSource): boolean {
    return this.#waiting.sizeOf(client) > 0 || this.#soon.has(client) || this.#isOver
  }

  get #isOver(): boolean {
    return this.#line.isRunning ? this.#line.isOver : this.#slice.isOver
  }

  /**
   * Waits for a turn. This is for callers that all continue on the same event, because otherwise each of them would
   * find that there is time.
   */
  turn(source = ANYWHERE): Promise<void> {
    return new Promise((resolve) => {
      if (this.isBusyFor(source)) return this.#wait(resolve, source)
      this.#soon.set(source.client, resolve)
      if (this.#isGoingSoon) return
      this.#isGoingSoon = true
      process.nextTick(this.#goSoon)
    })
  }

  /** Resolves later, when it is the client's turn. @returns null when too many of its arrivals wait. */
  turnOf(source: ArrivalSource): Promise<void> | null {
    if (this.#isFullFor(source)) return null
    return new Promise((resolve) => this.#wait(resolve, source))
  }

  /**
   * @param begin called now or later.
   * @returns false, without calling `begin`, when too many of the client's arrivals wait.
   */
  admit(begin: () => void, source: ArrivalSource = ANYWHERE): boolean {
    if (!this.isBusyFor(source)) {
      begin()
      return true
    }
    if (this.#isFullFor(source)) return false
    this.#wait(begin, source)
    return true
  }

  /**
   * Whether arrivals of the client are rejected. A client that floods the queue must not keep out other clients that
   * send a request now and then.
   */
  #isFullFor({ client }: ArrivalSource): boolean {
    const { size } = this.#waiting
    return size >= this.#mostWaiting && (size >= 2 * this.#mostWaiting || this.#waiting.hasItsShare(client))
  }

  #wait(begin: () => void, { client, connection }: ArrivalSource): void {
    this.#waiting.push(client, connection, begin)
    if (this.#isGoing) return
    this.#isGoing = true
    this.#later()
  }

  #beginSoon(): void {
    const [first] = this.#soon
    this.#isGoingSoon = first !== undefined
    if (first === undefined) return
    const [client, begin] = first
    this.#soon.delete(client)
    if (this.#isOver) this.#wait(begin, { client, connection: '' })
    else begin()
    queueMicrotask(() => process.nextTick(this.#goSoon))
  }

  #begin(): void {
    if (this.#takenMs !== null) this.#waiting.spent(this.#now() - this.#takenMs)
    this.#takenMs = null
    if (this.#waiting.size === 0) {
      this.#isGoing = false
      this.#end()
    } else if (this.#line.isOver) {
      this.#later()
      this.#end()
    } else {
      const begin = this.#waiting.take()!
      this.#takenMs = this.#now()
      begin()
      // The tick comes after all resolved promises have continued.
      queueMicrotask(() => process.nextTick(this.#go))
    }
  }

  #end(): void {
    const done = this.#done
    this.#done = nothing
    done()
  }
}
