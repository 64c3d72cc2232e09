/**
 * Objects by key and by named indexes. An index maps each object to some values, and each value to the keys of its
 * objects. An index is built when it is first read, so an unused index costs nothing.
 *
 * In every listing, objects of one namespace are adjacent.
 *
 * All readers share the stored objects, so treat them as frozen.
 */
import { NamedObjects } from './named-objects.js'

/**
 * Returns the index values under which an object is found. If it throws for a stored object, so does every read of the
 * index.
 */
export type IndexFunction<T> = (object: T) => readonly string[]

/** The initial indexes of an Indexer. */
export interface IndexerOptions<T> {
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>
}

interface Index<T> {
  readonly valuesOf: IndexFunction<T>
  /** null until first read. */
  keysByValue: Map<string, Set<string>> | null
}

/** Objects by key and by named indexes, with one object for each key. */
export class Indexer<T> {
  readonly #objects = new NamedObjects<T>()
  readonly #indexes = new Map<string, Index<T>>()

  constructor(options: IndexerOptions<T> = {}) {
    for (const [name, valuesOf] of Object.entries(options.indexes ?? {})) this.addIndex(name, valuesOf)
  }

  /** May be called at any time. @throws Error when the name is taken. */
  addIndex(name: string, valuesOf: IndexFunction<T>): void {
    if (this.#indexes.has(name)) throw new Error(`index ${JSON.stringify(name)} already exists`)
    this.#indexes.set(name, { valuesOf, keysByValue: null })
  }

  /** Returns the function of an index; undefined if there is no such index. */
  indexFunction(name: string): IndexFunction<T> | undefined {
    return this.#indexes.get(name)?.valuesOf
  }

  get size(): number {
    return this.#objects.size
  }

  get(key: string): T | undefined {
    return this.#objects.get(key)
  }

  has(key: string): boolean {
    return this.#objects.has(key)
  }

  keys(): IterableIterator<string> {
    return this.#objects.keys()
  }

  values(): IterableIterator<T> {
    return this.#objects.values()
  }

  entries(): IterableIterator<[string, T]> {
    return this.#objects.entries()
  }

  list(): T[] {
    return this.#objects.toArray()
  }

  /** @returns the previous object. */
  set(key: string, object: T): T | undefined {
    const previous = this.#objects.set(key, object)
    this.#moveKey(key, previous, object)
    return previous
  }

  /** @returns the previous object. */
  delete(key: string): T | undefined {
    const previous = this.#objects.get(key)
    if (previous === undefined) return undefined
    this.#objects.delete(key)
    this.#moveKey(key, previous, undefined)
    return previous
  }

  /** @throws Error when there is no such index. */
  byIndex(name: string, value: string): T[] {
    return this.keysByIndex(name, value).map((key) => this.#objects.get(key) as T)
  }

  /** @throws Error when there is no such index. */
  keysByIndex(name: string, value: string): string[] {
    return [...(this.#index(name).get(value) ?? [])]
  }

  /** Returns all values of the index. @throws Error when there is no such index. */
  indexValues(name: string): string[] {
    return [...this.#index(name).keys()]
  }

  #moveKey(key: string, previous: T | undefined, object: T | undefined): void {
    for (const index of this.#indexes.values()) {
      if (index.keysByValue === null) continue
      try {
        moveKey(index.valuesOf, index.keysByValue, key, previous, object)
      } catch {
        // The next read builds the index again, and throws the error if it is still there.
        index.keysByValue = null
      }
    }
  }

  #index(name: string): Map<string, Set<string>> {
    const index = this.#indexes.get(name)
    if (index === undefined) throw new Error(`there is no index ${JSON.stringify(name)}`)
    if (index.keysByValue === null) {
      const keysByValue = new Map<string, Set<string>>()
      for (const [key, object] of this.#objects.entries()) moveKey(index.valuesOf, keysByValue, key, undefined, object)
      index.keysByValue = keysByValue
    }
    return index.keysByValue
  }
}

function moveKey<T>(
  valuesOf: IndexFunction<T>,
  keysByValue: Map<string, Set<string>>,
  key: string,
  previous: T | undefined,
  object: T | undefined,
): void {
  const now = object === undefined ? [] : valuesOf(object)
  const before = previous === undefined ? [] : valuesOf(previous)
  for (const value of before) {
    if (now.includes(value)) continue
    const keys = keysByValue.get(value)
    keys?.delete(key)
    // Values come and go (pod IPs), so empty sets are removed.
    if (keys?.size === 0) keysByValue.delete(value)
  }
  for (const value of now) {
    const keys = keysByValue.get(value)
    if (keys === undefined) keysByValue.set(value, new Set([key]))
    else keys.add(key)
  }
}
