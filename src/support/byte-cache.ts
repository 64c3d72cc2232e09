/**
 * An LRU cache limited by bytes. The limit may change at run time, and a smaller limit immediately evicts the least
 * recently used entries. A limit of 0 keeps nothing. The package lru-cache holds the entries. Its own limit is fixed at
 * creation, so a new limit needs a new instance, which takes over the old entries.
 */
import { LRUCache } from 'lru-cache'

export interface ByteCacheOptions<K, V> {
  readonly maxBytes: number
  /** Returns the entry's size in memory, including key and overhead, as a whole number of bytes, at least 2. */
  readonly sizeOf: (value: V, key: K) => number
  /** The share of the limit that one entry may take. Default: 1. */
  readonly entryShare?: number
}

export class ByteCache<K extends {}, V extends {}> {
  #entries: LRUCache<K, V>

  constructor(private readonly options: ByteCacheOptions<K, V>) {
    this.#entries = this.#bounded(options.maxBytes)
  }

  get bytes(): number {
    return this.#entries.calculatedSize
  }

  get(key: K): V | undefined {
    return this.#entries.get(key)
  }

  /**
   * A value above the limit for one entry is not kept, and removes the key's previous value.
   * @returns whether the value is kept.
   */
  set(key: K, value: V): boolean {
    this.#entries.set(key, value)
    return this.#entries.has(key)
  }

  clear(): void {
    this.#entries.clear()
  }

  /** Drops the least recently used entries, up to the first that is not useless. */
  dropUseless(isUseless: (value: V) => boolean): void {
    for (const key of this.#entries.rkeys()) {
      if (!isUseless(this.#entries.peek(key)!)) return
      this.#entries.delete(key)
    }
  }

  resize(maxBytes: number): void {
    const entries = this.#bounded(maxBytes)
    // The least recently used entries are loaded first, so that the later ones evict them.
    entries.load(this.#entries.dump())
    this.#entries = entries
  }

  #bounded(maxBytes: number): LRUCache<K, V> {
    const { sizeOf, entryShare = 1 } = this.options
    // In lru-cache, 0 means "no limit". A limit of 1 keeps nothing, because every entry is larger.
    const maxSize = Math.max(1, maxBytes)
    return new LRUCache({ maxSize, maxEntrySize: Math.ceil(maxSize * entryShare), sizeCalculation: sizeOf })
  }
}
