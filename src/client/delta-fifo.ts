/**
 * What happened to each object since it was last looked at, between the reflector that writes and the informer that
 * reads: one entry per key, in the order in which keys first changed.
 *
 *     queue    a ─ b ─ c            keys, oldest change first
 *     pending  a: Updated           at most three deltas each, whatever comes:
 *              b: Added Deleted     a run of upserts is one (the newest object), a run of deletions is one,
 *              c: Deleted Added     and what lies between two deletions is gone with the first.
 *
 * So memory is bounded by the number of objects and not by how slowly they are read, and yet no deletion is missed: one
 * that a relist shows only by absence is delivered with the last object known, marked as such. client-go's DeltaFIFO
 * compresses deletions only and so grows with a slow reader.
 */
import type { ReflectorSink } from '../reflector/reflector.js'
import type { Change } from '../reflector/object-codec.js'

export type Delta<T> =
  | { readonly type: 'Added' | 'Updated' | 'Replaced' | 'Sync'; readonly object: T }
  | {
      readonly type: 'Deleted'
      /** The last that is known: the state at the deletion, unless `isFinalStateUnknown`. */
      readonly object: T
      /** The deletion itself was not seen, a list without the object was. (DeletedFinalStateUnknown in client-go.) */
      readonly isFinalStateUnknown: boolean
    }

export interface KeyedDeltas<T> {
  readonly key: string
  /** Oldest first, 1 to 3. */
  readonly deltas: readonly Delta<T>[]
}

/** What the reader of the queue holds: what it has been told of and not yet told gone. */
export interface KnownObjects<T> {
  get(key: string): T | undefined
  keys(): IterableIterator<string>
}

export interface DeltaFifoOptions<T> {
  readonly keyOf: (object: T) => string
  readonly known: KnownObjects<T>
}

export class DeltaFifo<T> implements ReflectorSink<T> {
  readonly #keyOf: (object: T) => string
  readonly #known: KnownObjects<T>
  /** A Map keeps the order of insertion: it is queue and index in one. */
  readonly #pending = new Map<string, Delta<T>[]>()
  #isPopulated = false
  /**
   * One for many pops: a new one would look first at every place that is empty since the Map was last made anew, and so
   * make of the first state of 100,000 objects some billion steps.
   */
  #oldest: Iterator<[string, Delta<T>[]]> | null = null
  /** Keys of the first state that have not been popped; they are the oldest. */
  #initialLeft = 0
  #onItem: (() => void) | null = null

  constructor(options: DeltaFifoOptions<T>) {
    this.#keyOf = options.keyOf
    this.#known = options.known
  }

  /** Keys with something to tell. */
  get length(): number {
    return this.#pending.size
  }

  /** The first whole state has been popped. */
  get hasSynced(): boolean {
    return this.#isPopulated && this.#initialLeft === 0
  }

  /** Called, synchronously, when something was put in while it was empty, and when an empty first state came. */
  onItem(callback: () => void): void {
    this.#onItem = callback
  }

  change({ type, object, key }: Change<T>): void {
    if (type === 'DELETED') this.#delete(key, object, false)
    else this.#push(key, { type: type === 'ADDED' ? 'Added' : 'Updated', object })
  }

  /** A whole state: each object as Replaced, and Deleted for what was pending or known and is not among them. */
  replace(items: readonly T[]): void {
    // Where there was nothing, nothing can be missing.
    const keys = this.#pending.size === 0 && this.#known.keys().next().done === true ? null : new Set<string>()
    for (const object of items) {
      const key = this.#keyOf(object)
      keys?.add(key)
      this.#push(key, { type: 'Replaced', object })
    }
    if (keys !== null) this.#deleteAllBut(keys)
    if (this.#isPopulated) return
    this.#isPopulated = true
    this.#initialLeft = this.#pending.size
    if (this.#initialLeft === 0) this.#onItem?.()
  }

  /** A Sync for each known object of which nothing is pending: handlers that mend drift look at it again. */
  resync(): void {
    for (const key of this.#known.keys()) {
      const object = this.#known.get(key)
      if (object !== undefined && !this.#pending.has(key)) this.#push(key, { type: 'Sync', object })
    }
  }

  /** The oldest key with all of its deltas, which are no longer held; null when there is none. Never waits. */
  pop(): KeyedDeltas<T> | null {
    this.#oldest ??= this.#pending.entries()
    const first = this.#oldest.next()
    if (first.done === true) {
      // One that has come to the end sees nothing that is put in later.
      this.#oldest = null
      return null
    }
    const [key, deltas] = first.value
    this.#pending.delete(key)
    if (this.#initialLeft > 0) this.#initialLeft--
    return { key, deltas }
  }

  #deleteAllBut(keys: ReadonlySet<string>): void {
    for (const key of this.#pending.keys()) if (!keys.has(key)) this.#deleteUnseen(key)
    for (const key of this.#known.keys()) {
      if (!keys.has(key) && !this.#pending.has(key)) this.#deleteUnseen(key)
    }
  }

  #deleteUnseen(key: string): void {
    const last = this.#pending.get(key)?.at(-1)
    const object = last === undefined ? this.#known.get(key) : last.object
    // A pending deletion is the better one: it was seen.
    if (object !== undefined && last?.type !== 'Deleted') this.#delete(key, object, true)
  }

  #delete(key: string, object: T, isFinalStateUnknown: boolean): void {
    // A second telling of what nobody holds.
    if (!this.#pending.has(key) && this.#known.get(key) === undefined) return
    this.#push(key, { type: 'Deleted', object, isFinalStateUnknown })
  }

  #push(key: string, delta: Delta<T>): void {
    const deltas = this.#pending.get(key)
    if (deltas !== undefined) return compress(deltas, delta)
    const wasEmpty = this.#pending.size === 0
    this.#pending.set(key, [delta])
    if (wasEmpty) this.#onItem?.()
  }
}

function compress<T>(deltas: Delta<T>[], delta: Delta<T>): void {
  const last = deltas.at(-1) as Delta<T>
  if (delta.type !== 'Deleted') {
    if (last.type === 'Deleted') deltas.push(delta)
    // A run of upserts stays what its first was: to the reader it is one step from what it holds to the newest.
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
