/**
 * A map of the most recently used entries, up to a number of them. It takes memory for those that it holds, not for those
 * that it may hold: the maps per resource, per caller and per address are many, large at most, and nearly always empty.
 */
import { LRUCache } from 'lru-cache'

const countOne = (): number => 1

/** @param maxEntries at least 1; the entry that was used least recently goes for one more. */
export function recentEntries<K extends {}, V extends {}>(maxEntries: number): LRUCache<K, V> {
  // With its `max` in place of a size, LRUCache makes all of its arrays as long as they may become.
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: countOne })
}
