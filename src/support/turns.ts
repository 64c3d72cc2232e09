/**
 * Work that takes longer than a few milliseconds is done in slices, so that no request delays a watch. Slices are cut by time,
 * because a number of objects does not say how long they take.
 *
 * One iteration of the event loop has one slice for all such work together, however many requests there are. Work that is not
 * done takes a turn, and turns come in the order in which they were requested. Events for watchers go first.
 */

import { NestedFairQueue } from './fair-queue.js'

/** Too short to notice, and a turn of the event loop costs a thousandth of it. */
export const SLICE_MS = 5

/** The slice of requests while watchers are being sent events: each of these may wait behind several slices. */
const BUSY_SLICE_MS = 2

/** So long after it was sent anything, a watcher is likely to be sent more: requests go on carefully. */
const BUSY_MS = 100

/** Arrivals have a slice where they come and another where they go on, beside those of others. */
const ARRIVALS_MS = 2

/** Data from the source has its own slice beside that of requests. */
const SOURCE_MS = 4

/** A stretch of time that begins now. */
export class Slice {
  readonly #endMs: number

  constructor(ms = SLICE_MS) {
    this.#endMs = performance.now() + ms
  }

  get isOver(): boolean {
    return performance.now() >= this.#endMs
  }
}

/**
 * One slice in each iteration of the event loop, for work that comes by itself and is cut short where it takes longer.
 */
export class LoopSlice {
  readonly #ms: number
  #slice: Slice | null = null
  readonly #forget = (): void => {
    this.#slice = null
  }

  constructor(ms = SLICE_MS) {
    this.#ms = ms
  }

  get isOver(): boolean {
    if (this.#slice === null) {
      this.#slice = new Slice(this.#ms)
      setImmediate(this.#forget)
    }
    return this.#slice.isOver
  }
}

/** Where an arrival comes from: each client has an equal share of the time, and within it each of its connections. */
export interface ArrivalSource {
  readonly client: string
  readonly connection: string
}

const ANYWHERE: ArrivalSource = { client: '', connection: '' }

/** So many wait before any is refused: ten thousand nodes that come back at once are no attack. */
const MOST_WAITING = 16_384

export interface ArrivalsOptions {
  readonly slice?: { readonly isOver: boolean }
  /** Milliseconds, for what each took. */
  readonly now?: () => number
  /** How many may wait before clients that have their share of them are refused. From twice as many on, everybody is. */
  readonly mostWaiting?: number
}

/**
 * Begins what arrives, such as requests: as much as there is time for in an iteration of the event loop, and the rest in the next
 * ones. A hundred small requests that come at once are not small together. What waits goes on in fair turns, so that nobody waits
 * behind another client's burst; arrivals of one connection begin in their order.
 *
 * Work that follows a beginning without waiting for anything outside counts as its time: the next begins when no promise
 * is left to run.
 */
export class Arrivals {
  readonly #slice: { readonly isOver: boolean }
  readonly #mostWaiting: number
  readonly #waiting = new NestedFairQueue<() => void>()
  readonly #now: () => number
  /** When the one that is being begun was taken; null when none is. */
  #takenMs: number | null = null
  #isGoing = false
  readonly #go = (): void => this.#begin()

  constructor({
    slice = new LoopSlice(ARRIVALS_MS),
    now = () => performance.now(),
    mostWaiting = MOST_WAITING,
  }: ArrivalsOptions = {}) {
    this.#slice = slice
    this.#now = now
    this.#mostWaiting = mostWaiting
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Whether one that arrives now has to wait. */
  get isBusy(): boolean {
    return this.#isGoing || this.#slice.isOver
  }

  /**
   * Resolves in the order of asking. It is for those who all go on when one thing happens that they have waited for: each of
   * them would find that there is time.
   */
  turn(): Promise<void> {
    return new Promise((resolve) => this.#wait(resolve, ANYWHERE, (go) => process.nextTick(go)))
  }

  /** Resolves later, when it is the client's turn. @returns null when too many of it wait. */
  turnOf(source: ArrivalSource): Promise<void> | null {
    if (this.#isFullFor(source)) return null
    return new Promise((resolve) => this.#wait(resolve, source, setImmediate))
  }

  /** @param begin called now or later. @returns false, and does not call it, when too many of the client wait. */
  admit(begin: () => void, source: ArrivalSource = ANYWHERE): boolean {
    if (!this.isBusy) {
      begin()
      return true
    }
    if (this.#isFullFor(source)) return false
    this.#wait(begin, source, setImmediate)
    return true
  }

  /** One client that sends more than anybody keeps out no other one that comes now and then. */
  #isFullFor({ client }: ArrivalSource): boolean {
    const { size } = this.#waiting
    return size >= this.#mostWaiting && (size >= 2 * this.#mostWaiting || this.#waiting.hasItsShare(client))
  }

  #wait(begin: () => void, { client, connection }: ArrivalSource, soon: (go: () => void) => void): void {
    this.#waiting.push(client, connection, begin)
    if (this.#isGoing) return
    this.#isGoing = true
    soon(this.#go)
  }

  #begin(): void {
    if (this.#takenMs !== null) this.#waiting.spent(this.#now() - this.#takenMs)
    this.#takenMs = null
    if (this.waiting === 0) this.#isGoing = false
    else if (this.#slice.isOver) setImmediate(this.#go)
    else {
      const begin = this.#waiting.take()!
      this.#takenMs = this.#now()
      begin()
      // A tick comes when all promises that can go on have done so.
      queueMicrotask(() => process.nextTick(this.#go))
    }
  }
}

let ahead: (() => void)[] = []
let aheadImmediate: NodeJS.Immediate | undefined
let lastAheadMs = -Infinity

/**
 * Runs once at the end of this iteration of the event loop, before any request has its turn, whoever asked first. This is for
 * what is due to watchers. To go on in the next iteration, it asks again.
 */
export function beforeTurns(run: () => void): void {
  ahead.push(run)
  aheadImmediate ??= setImmediate(runAhead)
}

function runAhead(): void {
  const due = ahead
  ahead = []
  clearImmediate(aheadImmediate)
  aheadImmediate = undefined
  if (due.length > 0) lastAheadMs = performance.now()
  for (const run of due) run()
}

/** @returns the length of the slice that comes next, in milliseconds. */
function sliceAfterAhead(): number {
  runAhead()
  return performance.now() - lastAheadMs < BUSY_MS ? BUSY_SLICE_MS : SLICE_MS
}

export class Turns {
  readonly #before: () => number
  #waiting: (() => void)[] = []
  #next = 0
  #sliceMs = 0
  #slice: Slice | null = null
  readonly #run = (): void => this.#grant()

  /** @param before called before each turn is given. It returns the length of its slice, milliseconds. */
  constructor(before: () => number = () => SLICE_MS) {
    this.#before = before
  }

  /** The time of this iteration of the event loop is used up: take a turn before going on. */
  get isOver(): boolean {
    return this.#slice === null || this.#slice.isOver
  }

  /** Resolves when the caller may work for a slice. As many wait as there are requests under way. */
  take(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.length === 0) setImmediate(this.#run)
      this.#waiting.push(resolve)
    })
  }

  /** One at a time: what follows a promise runs only when this function has returned. */
  #grant(): void {
    this.#sliceMs = this.#before()
    const resolve = this.#waiting[this.#next++]!
    if (this.#next < this.#waiting.length) setImmediate(this.#run)
    else {
      this.#waiting = []
      this.#next = 0
    }
    this.#slice = new Slice(this.#sliceMs)
    resolve()
  }
}

/** The turns of this process's event loop: short ones while watchers are being sent events. */
export const turns = new Turns(sliceAfterAhead)

/**
 * The turns of what comes from the source, such as a page of a list: they do not wait behind those of requests, of which
 * there may be thousands.
 */
export const sourceTurns = new Turns(() => SOURCE_MS)

/**
 * Yields the items one by one, and takes a turn whenever the time is used up. It is for parts that are worth a promise; a loop over
 * a hundred thousand objects, where promises would take ten times as long as the loop, looks at `isOver` itself.
 */
export async function* inTurns<T>(items: Iterable<T>, taken: Turns = turns): AsyncGenerator<T, void, void> {
  for (const item of items) {
    if (taken.isOver) await taken.take()
    yield item
  }
}

/** Does the steps of one work; each null that it yields asks for another turn. */
export function* stepsInTurns<R>(steps: Generator<void, R, void>): Generator<null, R, void> {
  while (true) {
    const step = steps.next()
    if (step.done) return step.value
    if (turns.isOver) yield null
  }
}

/**
 * Cuts work on many items into parts that are small beside a slice, so that the clock is read once for each of them.
 *
 * @param weightOf of an item. @yields runs of items that weigh `most` or more together; only the last may weigh less.
 */
export function* partsOf<T>(items: readonly T[], weightOf: (item: T) => number, most: number): Generator<readonly T[]> {
  let first = 0
  let weight = 0
  for (let i = 0; i < items.length; i++) {
    weight += weightOf(items[i]!)
    if (weight < most) continue
    yield items.slice(first, i + 1)
    first = i + 1
    weight = 0
  }
  if (first < items.length) yield items.slice(first)
}
