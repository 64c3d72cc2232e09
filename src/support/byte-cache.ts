/**
 * An LRU cache bounded by bytes, whose bound may change while it is in use: a smaller one evicts the least recently used
 * at once. A bound of 0 keeps nothing. lru-cache holds the entries; its own bound is fixed when it is made, so a new
 * bound means a new one with the entries of the old.
 */
import { LRUCache } from 'lru-cache'

export interface ByteCacheOptions<V> {
  readonly maxBytes: number
  /** Whole bytes of memory, at least 2, the overhead of the entry included. */
  readonly sizeOf: (value: V) => number
  /** The share of the bound that one entry may take. Default: 1. */
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

  /** A value beyond the share of one entry is not kept, and neither is the one before it. @returns whether it is kept. */
  set(key: K, value: V): boolean {
    this.#entries.set(key, value)
    return this.#entries.has(key)
  }

  clear(): void {
    this.#entries.clear()
  }

  resize(maxBytes: number): void {
    const entries = this.#bounded(maxBytes)
    // The least recently used come first, so that the others evict them.
    entries.load(this.#entries.dump())
    this.#entries = entries
  }

  #bounded(maxBytes: number): LRUCache<K, V> {
    const { sizeOf, entryShare = 1 } = this.#options
    // To lru-cache 0 means "no bound"; no entry is as small as 1.
    const maxSize = Math.max(1, maxBytes)
    return new LRUCache({ maxSize, maxEntrySize: Math.ceil(maxSize * entryShare), sizeCalculation: sizeOf })
  }
}
