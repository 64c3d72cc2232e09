/**
 * Chooses how many keys to request in a page, so that a page stays near 8 MB. Pages should not be small, because for
 * every page etcd walks over all remaining keys to count them. 200,000 keys of 1 KiB took etcd 7.5 s of CPU time in
 * pages of 1 MB, and 1.1 s in pages of 10,000 keys, which API servers use. A page is decoded in time slices, so a large
 * page costs memory but does not block the event loop. etcd limits a page only by its number of keys, so the right
 * number is derived for each prefix from the size of earlier pages.
 */
import type { Key } from '../../model/event.js'
import { recentEntries } from '../../../support/recent-entries.js'
import { MAX_SIZED_PREFIXES } from '../../model/limits.js'

const TARGET_BYTES = 8 * 1024 * 1024
/**
 * A page with this many of the largest values that etcd accepts (1.5 MB) still fits into a message; see
 * `etcd-upstream.ts`.
 */
const FIRST_KEYS = 100
/** API servers request the same number. */
export const MAX_KEYS = 10_000
/** The next page may have much larger values than the last one, so the number of keys grows in steps. */
const MAX_GROWTH = 4

export class PageSizes {
  readonly #keys = recentEntries<Key, number>(MAX_SIZED_PREFIXES)

  keysFor(prefix: Key): number {
    return this.#keys.get(prefix) ?? FIRST_KEYS
  }

  /** Reports that a page of `keys` keys had `bytes` bytes. */
  observe(prefix: Key, keys: number, bytes: number): void {
    if (keys === 0) return
    const now = this.keysFor(prefix)
    const fitting = Math.floor(TARGET_BYTES / (bytes / keys))
    this.#set(prefix, Math.min(fitting, now * MAX_GROWTH, MAX_KEYS))
  }

  /** Reports that a page was refused as too large. Returns false if a page cannot be smaller. */
  halve(prefix: Key, keys: number): boolean {
    if (keys <= 1) return false
    this.#set(prefix, keys >>> 1)
    return true
  }

  #set(prefix: Key, keys: number): void {
    this.#keys.set(prefix, Math.max(1, keys))
  }
}
