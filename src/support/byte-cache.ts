/**
 * An LRU cache limited by bytes, with a limit that may change at run time: a smaller one evicts the least recently used
 * at once. A limit of 0 keeps nothing. lru-cache holds the entries; its own limit is fixed at creation, so a new limit
 * means a new instance with the old entries.
 */
import { LRUCache } from 'lru-cache'

export interface ByteCacheOptions<V> {
  readonly maxBytes: number
  /** Returns whole bytes of memory, at least 2, including the entry's overhead. */
  readonly sizeOf: (value: V) => number
  /** The share of the limit that one entry may take. Default: 1. */
  readonly entryShare?: number
}

export class ByteCache<K extends {}, V extends {}> {
  readonly #options: ByteCacheOptions<V>
  #entries: LRUCache<K, V>

  constructor(options: ByteCacheOptions<V>) {
    this.#options = options
    this.#entries = this.#bounded(options.maxBytes)
  }

  get bytes(): number {
    return this.#entries.calculatedSize
  }

  get(key: K): V | undefined {
    return this.#entries.get(key)
  }

  /** A value above the limit for one entry is not kept, and neither is its predecessor. @returns whether it is kept. */
  set(key: K, value: V): boolean {
    this.#entries.set(key, value)
    return this.#entries.has(key)
  }

  clear(): void {
    this.#entries.clear()
  }

  resize(maxBytes: number): void {
    const entries = this.#bounded(maxBytes)
    // Loads the least recently used first, so that the others evict them.
    entries.load(this.#entries.dump())
    this.#entries = entries
  }

  #bounded(maxBytes: number): LRUCache<K, V> {
    const { sizeOf, entryShare = 1 } = this.#options
    // To lru-cache, 0 means "no limit"; no entry is as small as 1.
    const maxSize = Math.max(1, maxBytes)
    return new LRUCache({ maxSize, maxEntrySize: Math.ceil(maxSize * entryShare), sizeCalculation: sizeOf })
  }
}
