/**
 * Divides work that takes longer than a few milliseconds into slices, so that no request delays a watch. Slices are
 * limited by time, because the number of objects does not tell how long they take.
 *
 * Each iteration of the event loop has one slice for all such work together, however many requests there are.
 * Unfinished work waits for another turn, and turns are given in the order in which they were requested. Events for
 * watchers go first.
 */

import { Fifo } from './fair-queue.js'

/** Short enough not to be noticed, and a thousand times as long as the overhead of one turn of the event loop. */
const SLICE_MS = 5

/**
 * The slice for requests while events are being sent to watchers. It is shorter because an event may wait behind
 * several slices.
 */
const BUSY_SLICE_MS = 2

/** For this long after sending to a watcher, more is likely to follow, so requests get short slices. */
const BUSY_MS = 100

/** A separate slice for data from the source. */
const SOURCE_MS = 4

/** A period of time that begins now. */
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
 * One slice per iteration of the event loop, for work that does not wait for a turn. Such work is cut short when the
 * slice is over.
 */
export class LoopSlice {
  #slice: Slice | null = null
  readonly #forget = (): void => {
    this.#slice = null
  }

  constructor(private readonly ms = SLICE_MS) {}

  get isOver(): boolean {
    if (this.#slice === null) {
      this.#slice = new Slice(this.ms)
      setImmediate(this.#forget)
    }
    return this.#slice.isOver
  }
}

let ahead: (() => void)[] = []
let aheadImmediate: NodeJS.Immediate | undefined
let lastAheadMs = -Infinity

/**
 * Runs a function once at the end of this iteration of the event loop, before any request's turn. It is used to deliver
 * events to watchers. To run again in the next iteration, the function must be passed again.
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

/** @returns the length of the next slice, in milliseconds. */
function sliceAfterAhead(): number {
  runAhead()
  return performance.now() - lastAheadMs < BUSY_MS ? BUSY_SLICE_MS : SLICE_MS
}

export class Turns {
  readonly #waiting = new Fifo<() => void>()
  #slice: Slice | null = null
  readonly #run = (): void => this.#grant()

  /** @param before called before each turn; it returns the length of the turn's slice in milliseconds. */
  constructor(private readonly before: () => number = () => SLICE_MS) {}

  /** Whether the time of this iteration of the event loop is used up. If so, take a turn before continuing. */
  get isOver(): boolean {
    return this.#slice === null || this.#slice.isOver
  }

  /**
   * Resolves when the caller may work for a slice. The queue needs no limit, because only requests in progress wait
   * here.
   */
  take(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.size === 0) setImmediate(this.#run)
      this.#waiting.push(resolve)
    })
  }

  /** Grants only one turn, because the code after the awaited promise runs only when this function has returned. */
  #grant(): void {
    const sliceMs = this.before()
    const resolve = this.#waiting.shift()!
    if (this.#waiting.size > 0) setImmediate(this.#run)
    this.#slice = new Slice(sliceMs)
    resolve()
  }
}

/** The turns of this process's event loop, which are short while events are being sent to watchers. */
export const turns = new Turns(sliceAfterAhead)

/**
 * The turns for data from the source, such as a page of a list. They are separate so that this data does not wait
 * behind requests, of which there may be thousands.
 */
export const sourceTurns = new Turns(() => SOURCE_MS)

/**
 * Yields the items one by one, and takes a turn whenever the time is used up. Use this where the cost of a promise per
 * item does not matter. In a loop over a hundred thousand objects, promises would take ten times as long as the loop,
 * so such a loop should check `isOver` itself.
 */
export async function* inTurns<T>(items: Iterable<T>, taken: Turns = turns): AsyncGenerator<T, void, void> {
  for (const item of items) {
    if (taken.isOver) await taken.take()
    yield item
  }
}

/** Performs the steps of one job. Each yielded null asks for another turn. */
export function* stepsInTurns<R>(steps: Generator<void, R, void>): Generator<null, R, void> {
  while (true) {
    const step = steps.next()
    if (step.done) return step.value
    if (turns.isOver) yield null
  }
}

/**
 * Splits work on many items into parts that are short compared with a slice, so that the clock is read only once per
 * part.
 *
 * @param weightOf returns the weight of an item. @yields runs of items that weigh `most` or more together; only the
 * last may weigh less.
 */
export function* partsOf<T>(items: Iterable<T>, weightOf: (item: T) => number, most: number): Generator<readonly T[]> {
  let part: T[] = []
  let weight = 0
  for (const item of items) {
    part.push(item)
    weight += weightOf(item)
    if (weight < most) continue
    yield part
    part = []
    weight = 0
  }
  if (part.length > 0) yield part
}
