/**
 * Objects sorted by key, loose or packed. Each entry is either a loose object or a run of neighbours in one pack,
 * stored under its first key. When an object changes, it is taken out of its run, which divides the run.
 *
 *     a ── [b c d e] ── f ── [g h]          d changes          a ── [b c] ── d ── [e] ── f ── [g h]
 *
 * Clones cost almost nothing, because the tree is copy-on-write and runs never change.
 */
import { createSortedMap, type SortedMap } from '../../support/sorted-map.js'
import type { Key } from '../model/event.js'
import type { StoredObject } from '../model/stored-object.js'
import { loosened, type Pack, Run } from './pack.js'

type Entries = SortedMap<Key, StoredObject | Run>

export class ObjectTree {
  readonly #entries: Entries
  #size: number

  constructor(entries: Entries = createSortedMap(), size = 0) {
    this.#entries = entries
    this.#size = size
  }

  get size(): number {
    return this.#size
  }

  get firstKey(): Key | undefined {
    return this.#entries.minKey()
  }

  get lastKey(): Key | undefined {
    const last = this.#entries.nextLowerPair(undefined)?.[1]
    return last instanceof Run ? last.lastKey : last?.key
  }

  clone(): ObjectTree {
    return new ObjectTree(this.#entries.clone(), this.#size)
  }

  get(key: Key): StoredObject | undefined {
    const found = this.#atOrBefore(key)
    if (found instanceof Run) return found.get(key)
    return found?.key === key ? found : undefined
  }

  set(key: Key, object: StoredObject): void {
    this.#cutOut(key)
    if (this.#entries.set(key, object)) this.#size++
  }

  delete(key: Key): void {
    this.#cutOut(key)
    if (this.#entries.delete(key)) this.#size--
  }

  /** Adds a run whose keys come after all keys in the tree. */
  append(run: Run): void {
    this.#entries.set(run.firstKey, run)
    this.#size += run.size
  }

  /**
   * Yields the objects from `startKey` up to, but not including, `endKey`, in key order. The tree must not change in
   * the meantime, so call this on a clone.
   * @param endKey null for no end.
   */
  *objects(startKey: Key, endKey: Key | null): Generator<StoredObject, void, void> {
    for (const entry of this.#between(startKey, endKey)) {
      if (!(entry instanceof Run)) yield entry
      else for (let place = entry.from; place < entry.to; place++) yield entry.pack.object(place)
    }
  }

  /** Yields the number of objects in each entry of such a range. */
  *counts(startKey: Key, endKey: Key | null): Generator<number, void, void> {
    for (const entry of this.#between(startKey, endKey)) yield entry instanceof Run ? entry.size : 1
  }

  /** Makes the remaining objects of a pack loose, so that only readers keep the pack alive. */
  unpack(pack: Pack): void {
    const runs: Run[] = []
    const lastKey = pack.keyOf(pack.count - 1)
    for (const [key, entry] of this.#entries.entries(pack.keyOf(0))) {
      if (key > lastKey) break
      if (entry instanceof Run && entry.pack === pack) runs.push(entry)
    }
    for (const run of runs) {
      for (let place = run.from; place < run.to; place++) {
        const object = loosened(pack.object(place))
        this.#entries.set(object.key, object)
      }
    }
  }

  *#between(startKey: Key, endKey: Key | null): Generator<StoredObject | Run, void, void> {
    const before = this.#entries.nextLowerPair(startKey)?.[1]
    if (before instanceof Run) {
      const rest = before.between(startKey, endKey)
      if (rest !== null) yield rest
    }
    for (const [key, entry] of this.#entries.entries(startKey)) {
      if (endKey !== null && key >= endKey) return
      const part = entry instanceof Run ? entry.between(startKey, endKey) : entry
      if (part !== null) yield part
    }
  }

  #atOrBefore(key: Key): StoredObject | Run | undefined {
    return this.#entries.getPairOrNextLower(key)?.[1]
  }

  /** Removes the key from the run that contains it. Divides a run whose keys are on both sides of it. */
  #cutOut(key: Key): void {
    const run = this.#atOrBefore(key)
    if (!(run instanceof Run)) return
    const { pack, from, to } = run
    const place = run.placeOf(key)
    if (place === to) return
    const isHeld = run.holds(key, place)
    if (isHeld) this.#size--
    if (place === from) this.#entries.delete(key)
    else this.#entries.set(run.firstKey, new Run(pack, from, place))
    const rest = isHeld ? place + 1 : place
    if (rest < to) this.#entries.set(pack.keyOf(rest), new Run(pack, rest, to))
  }
}
