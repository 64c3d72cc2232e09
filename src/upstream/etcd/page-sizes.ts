/**
 * How many keys to ask for in a page, so that a page stays near 4 MB: large enough that a list is few round trips, small
 * enough that decoding one (some milliseconds) holds up nobody and 50 at once fit in memory. etcd limits a page by keys
 * only, so the size is learnt per prefix from the pages before.
 */
import type { Key } from '../../model/event.js'

const TARGET_BYTES = 4 * 1024 * 1024
/** Of the largest values etcd takes (1.5 MB) such a page still fits into a message: see `etcd-upstream.ts`. */
const FIRST_KEYS = 100
const MAX_KEYS = 10_000
/** The next page may be larger in kind than the last: grow in steps. */
const MAX_GROWTH = 4
/** Prefixes come from configuration, hundreds at most; the bound is for whoever reads arbitrary ones. */
const MAX_PREFIXES = 1_000

export class PageSizes {
  readonly #keys = new Map<Key, number>()

  keysFor(prefix: Key): number {
    return this.#keys.get(prefix) ?? FIRST_KEYS
  }

  /** A page of `keys` keys came back with `bytes` bytes. */
  observe(prefix: Key, keys: number, bytes: number): void {
    if (keys === 0) return
    const now = this.keysFor(prefix)
    const fitting = Math.floor(TARGET_BYTES / (bytes / keys))
    this.#set(prefix, Math.min(fitting, now * MAX_GROWTH, MAX_KEYS))
  }

  /** A page was refused as too large. False when it cannot get smaller. */
  halve(prefix: Key, keys: number): boolean {
    if (keys <= 1) return false
    this.#set(prefix, keys >>> 1)
    return true
  }

  #set(prefix: Key, keys: number): void {
    this.#keys.delete(prefix)
    this.#keys.set(prefix, Math.max(1, keys))
    if (this.#keys.size <= MAX_PREFIXES) return
    for (const oldest of this.#keys.keys()) {
      this.#keys.delete(oldest)
      return
    }
  }
}
