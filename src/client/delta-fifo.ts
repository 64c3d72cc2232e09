/**
 * Collects the changes of each object between the reflector, which writes, and the informer, which reads: one entry per
 * key, in the order in which keys first changed.
 *
 *     queue    a ─ b ─ c            keys, oldest change first
 *     pending  a: Updated           at most three deltas each, whatever arrives:
 *              b: Added Deleted     a run of upserts is one (the newest object), a run of deletions is one,
 *              c: Deleted Added     and what lies between two deletions is gone with the first.
 *
 * Memory is therefore bounded by the number of objects, however slow the reader is, and yet no deletion is missed: a
 * deletion that a relist shows only by absence is delivered with the last known object, marked as such. client-go's
 * DeltaFIFO compresses only deletions and so grows with a slow reader.
 */
import type { ReflectorStore } from './reflector/reflector.js'
import type { Change } from './reflector/object-codec.js'

/** One change of an object that a reader of a DeltaFifo has not seen. */
export type Delta<T> =
  | { readonly type: 'Added' | 'Updated' | 'Replaced' | 'Sync'; readonly object: T }
  | {
      readonly type: 'Deleted'
      /** The last known object: the state at the deletion, unless `isFinalStateUnknown`. */
      readonly object: T
      /**
       * Whether a list without the object was seen, but not the deletion itself. (DeletedFinalStateUnknown in
       * client-go.)
       */
      readonly isFinalStateUnknown: boolean
    }

/** All changes of one object that a reader of a DeltaFifo has not seen. */
export interface KeyedDeltas<T> {
  readonly key: string
  /** One to three deltas, oldest first. */
  readonly deltas: readonly Delta<T>[]
  /** Whether no object was known before the state that this one belongs to. */
  readonly isOfFirstState: boolean
}

/** The objects known to the reader of the queue: it has received them, and not yet their deletion. */
export interface KnownObjects<T> {
  get(key: string): T | undefined
  keys(): IterableIterator<string>
}

export interface DeltaFifoOptions<T> {
  readonly keyOf: (object: T) => string
  readonly known: KnownObjects<T>
}

/** Collects the changes of each object between a reflector and a reader that may be slow. */
export class DeltaFifo<T> implements ReflectorStore<T> {
  readonly #keyOf: (object: T) => string
  readonly #known: KnownObjects<T>
  /**
   * A Map keeps insertion order, so it is queue and index in one. A single delta is stored without an array: the first
   * state has one per object, and all of them wait at once.
   */
  readonly #pending = new Map<string, Delta<T> | Delta<T>[]>()
  /**
   * A first state that nobody has received yet, oldest first, from `#firstAt` on: its objects are not in `#pending`
   * until one of them changes.
   */
  #first: readonly T[] = []
  #firstAt = 0
  #isPopulated = false
  /**
   * One iterator serves many pops: a new one would first visit every slot emptied since the Map was last rebuilt, and
   * so turn the first state of 100,000 objects into some billion steps.
   */
  #oldest: Iterator<[string, Delta<T> | Delta<T>[]]> | null = null
  /** The number of keys of the first state that have not been popped; they are the oldest. */
  #initialLeft = 0
  #onItem: (() => void) | null = null

  constructor(options: DeltaFifoOptions<T>) {
    this.#keyOf = options.keyOf
    this.#known = options.known
  }

  /** The number of keys with pending deltas. */
  get length(): number {
    return this.#pending.size + this.#first.length - this.#firstAt
  }

  /** Whether the first whole state has been popped. */
  get hasSynced(): boolean {
    return this.#isPopulated && this.#initialLeft === 0
  }

  /**
   * The callback runs synchronously when an item was added to the empty queue, and when an empty first state arrived.
   */
  onItem(callback: () => void): void {
    this.#onItem = callback
  }

  change({ type, object, key }: Change<T>): void {
    this.#giveFirstPlaces()
    if (type === 'DELETED') this.#delete(key, object, false)
    else this.#push(key, { type: type === 'ADDED' ? 'Added' : 'Updated', object })
  }

  /**
   * Accepts a complete state: each object becomes Replaced, and objects that were pending or known but are missing
   * become Deleted.
   */
  replace(items: readonly T[]): void {
    // Nothing can be missing if nothing was there.
    if (this.length === 0 && this.#known.keys().next().done === true) {
      this.#first = items
      this.#firstAt = 0
      if (items.length > 0) this.#onItem?.()
    } else {
      this.#giveFirstPlaces()
      const keys = new Set<string>()
      for (const object of items) {
        const key = this.#keyOf(object)
        keys.add(key)
        this.#push(key, { type: 'Replaced', object })
      }
      this.#deleteAllBut(keys)
    }
    if (this.#isPopulated) return
    this.#isPopulated = true
    this.#initialLeft = this.length
    if (this.#initialLeft === 0) this.#onItem?.()
  }

  /** Adds a Sync for each known object without pending deltas, so that handlers that repair drift see it again. */
  resync(): void {
    this.#giveFirstPlaces()
    for (const key of this.#known.keys()) {
      const object = this.#known.get(key)
      if (object !== undefined && !this.#pending.has(key)) this.#push(key, { type: 'Sync', object })
    }
  }

  /** Returns the oldest key with all of its deltas, which leave the queue; null if it is empty. Never waits. */
  pop(): KeyedDeltas<T> | null {
    if (this.#firstAt < this.#first.length) {
      const object = this.#first[this.#firstAt++] as T
      if (this.#firstAt === this.#first.length) this.#forgetFirst()
      if (this.#initialLeft > 0) this.#initialLeft--
      return { key: this.#keyOf(object), deltas: [{ type: 'Replaced', object }], isOfFirstState: true }
    }
    this.#oldest ??= this.#pending.entries()
    const first = this.#oldest.next()
    if (first.done === true) {
      // An exhausted iterator does not see later insertions.
      this.#oldest = null
      return null
    }
    const [key, pending] = first.value
    this.#pending.delete(key)
    if (this.#initialLeft > 0) this.#initialLeft--
    return { key, deltas: deltasOf(pending), isOfFirstState: false }
  }

  #forgetFirst(): void {
    this.#first = []
    this.#firstAt = 0
  }

  /** From now on the remaining first state can be found by key, and merged with later changes. */
  #giveFirstPlaces(): void {
    if (this.#first.length === 0) return
    const waiting = this.#first
    const isInitial = this.#initialLeft > 0
    for (let i = this.#firstAt; i < waiting.length; i++) {
      const object = waiting[i] as T
      this.#push(this.#keyOf(object), { type: 'Replaced', object })
    }
    this.#forgetFirst()
    // A duplicate key has one entry.
    if (isInitial) this.#initialLeft = this.#pending.size
  }

  #deleteAllBut(keys: ReadonlySet<string>): void {
    for (const key of this.#pending.keys()) if (!keys.has(key)) this.#deleteUnseen(key)
    for (const key of this.#known.keys()) {
      if (!keys.has(key) && !this.#pending.has(key)) this.#deleteUnseen(key)
    }
  }

  #deleteUnseen(key: string): void {
    const pending = this.#pending.get(key)
    const last = pending === undefined ? undefined : deltasOf(pending).at(-1)
    const object = last === undefined ? this.#known.get(key) : last.object
    // A pending deletion is kept, because it was seen.
    if (object !== undefined && last?.type !== 'Deleted') this.#delete(key, object, true)
  }

  #delete(key: string, object: T, isFinalStateUnknown: boolean): void {
    // The reader already knows this deletion.
    if (!this.#pending.has(key) && this.#known.get(key) === undefined) return
    this.#push(key, { type: 'Deleted', object, isFinalStateUnknown })
  }

  #push(key: string, delta: Delta<T>): void {
    const pending = this.#pending.get(key)
    if (pending !== undefined) {
      const deltas = deltasOf(pending)
      compress(deltas, delta)
      this.#pending.set(key, deltas)
      return
    }
    const wasEmpty = this.#pending.size === 0
    this.#pending.set(key, delta)
    if (wasEmpty) this.#onItem?.()
  }
}

function deltasOf<T>(pending: Delta<T> | Delta<T>[]): Delta<T>[] {
  return Array.isArray(pending) ? pending : [pending]
}

function compress<T>(deltas: Delta<T>[], delta: Delta<T>): void {
  const last = deltas.at(-1) as Delta<T>
  if (delta.type !== 'Deleted') {
    if (last.type === 'Deleted') deltas.push(delta)
    // A run of upserts keeps the type of its first: for the reader it is one step from its current object to the
    // newest.
    else deltas[deltas.length - 1] = { type: last.type === 'Sync' ? delta.type : last.type, object: delta.object }
    return
  }
  if (last.type === 'Deleted') {
    if (last.isFinalStateUnknown) deltas[deltas.length - 1] = delta
    return
  }
  const earlier = deltas.findIndex(({ type }) => type === 'Deleted')
  if (earlier !== -1) deltas.length = earlier
  deltas.push(delta)
}
