/**
 * A queue of several flows, such as the requests of different clients. It shares time evenly between the flows, so a
 * client that queues five thousand items delays only itself.
 *
 * The algorithm is deficit round robin. The flows form a ring. The flow at the front runs until it has used its share,
 * and any time beyond the share is deducted in the next rounds. A heap ordered by time used was rejected, because a
 * ring costs no more than a plain queue even with ten thousand flows of one item each, which is a common number of
 * nodes.
 */
import { getOrMake } from './memo.js'

/** The time of one flow in one round, in milliseconds. It is enough for a few dozen cheap items. */
const SHARE_MS = 0.5

/**
 * The largest debt of a flow, in milliseconds. A longer overrun is a pause of the machine, for which no flow should be
 * charged.
 */
const MOST_DEBT_MS = 4

interface Flow<T> {
  readonly key: string
  readonly items: Fifo<T>
  leftMs: number
}

export class FairQueue<T> {
  readonly #flows = new Map<string, Flow<T>>()
  readonly #ring = new Fifo<Flow<T>>()
  #size = 0
  #taken: Flow<T> | null = null

  constructor(private readonly shareMs = SHARE_MS) {}

  get size(): number {
    return this.#size
  }

  /** The number of flows with items, including the flow of the item just taken. */
  get flows(): number {
    return this.#flows.size
  }

  /** The number of items of a flow. */
  sizeOf(key: string): number {
    return this.#flows.get(key)?.items.size ?? 0
  }

  /** @param key the flow's key; the items of one flow leave in order of arrival. */
  push(key: string, item: T): void {
    let flow = this.#flows.get(key)
    if (flow === undefined) {
      flow = { key, items: new Fifo(), leftMs: this.shareMs }
      this.#flows.set(key, flow)
      this.#ring.push(flow)
    }
    flow.items.push(item)
    this.#size++
  }

  /** Removes the next item, if there is one. `spent` must be called before the next is taken. */
  take(): T | undefined {
    if (this.#size === 0) return undefined
    while (this.#ring.first!.leftMs <= 0) this.#goAround()
    this.#taken = this.#ring.first!
    this.#size--
    return this.#taken.items.shift()
  }

  /** @param ms the time spent on the item just taken. */
  spent(ms: number): void {
    const flow = this.#taken!
    this.#taken = null
    if (flow.items.size === 0) {
      this.#ring.shift()
      this.#flows.delete(flow.key)
      return
    }
    flow.leftMs = Math.max(flow.leftMs - ms, -MOST_DEBT_MS)
    if (flow.leftMs <= 0) this.#goAround()
  }

  /** Moves the first flow to the end of the ring, with another share. */
  #goAround(): void {
    const flow = this.#ring.shift()!
    flow.leftMs += this.shareMs
    this.#ring.push(flow)
  }
}

/**
 * Shares time evenly between flows, such as client addresses, and within each flow between its parts, such as its
 * connections.
 */
export class NestedFairQueue<T> {
  readonly #flows: FairQueue<string>
  readonly #parts = new Map<string, FairQueue<T>>()
  #taken = ''

  constructor(private readonly shareMs: number) {
    this.#flows = new FairQueue(shareMs)
  }

  get size(): number {
    return this.#flows.size
  }

  /** The number of items of a flow. */
  sizeOf(flow: string): number {
    return this.#flows.sizeOf(flow)
  }

  /** Whether a flow has at least an even share of the items. */
  hasItsShare(flow: string): boolean {
    return this.#flows.sizeOf(flow) * this.#flows.flows >= this.size
  }

  push(flow: string, part: string, item: T): void {
    getOrMake(this.#parts, flow, () => new FairQueue<T>(this.shareMs)).push(part, item)
    this.#flows.push(flow, flow)
  }

  /** Like `FairQueue`: `spent` must be called before the next is taken. */
  take(): T | undefined {
    const flow = this.#flows.take()
    if (flow === undefined) return undefined
    this.#taken = flow
    return this.#parts.get(flow)!.take()
  }

  /** @param ms the time spent on the item just taken. */
  spent(ms: number): void {
    const parts = this.#parts.get(this.#taken)!
    parts.spent(ms)
    this.#flows.spent(ms)
    if (parts.size === 0) this.#parts.delete(this.#taken)
  }
}

/** An array that releases its consumed front at a constant cost per item. */
export class Fifo<T> {
  readonly #items: T[] = []
  #front = 0

  get size(): number {
    return this.#items.length - this.#front
  }

  get first(): T | undefined {
    return this.#items[this.#front]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#front++]!
    if (this.#front === this.#items.length) {
      this.#items.length = 0
      this.#front = 0
    } else if (this.#front >= 1024 && this.#front * 2 >= this.#items.length) {
      this.#items.splice(0, this.#front)
      this.#front = 0
    }
    return item
  }
}
