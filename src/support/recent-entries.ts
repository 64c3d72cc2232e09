/**
 * A map of the most recently used entries, up to a maximum number. Its memory depends on the current entries, not on
 * the maximum. That matters because there are many such maps (per resource, per caller, per address) with large
 * maximums, and nearly all of them are empty.
 */
import { LRUCache } from 'lru-cache'

const countOne = (): number => 1

/** @param maxEntries at least 1. A further entry evicts the least recently used one. */
export function recentEntries<K extends {}, V extends {}>(maxEntries: number): LRUCache<K, V> {
  // With `max` instead of a size, LRUCache allocates all of its arrays at full length.
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: countOne })
}
