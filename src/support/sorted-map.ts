/**
 * A map sorted by a string key, with range scans and cheap copy-on-write clones. Only this file imports `sorted-btree`.
 * The order is `<` on strings, which for a binary-string key is etcd's byte order.
 */
import btree from 'sorted-btree'

export type SortedMap<K extends string, V> = btree.default<K, V>

export function createSortedMap<K extends string, V>(): SortedMap<K, V> {
  return new btree.default<K, V>(undefined, compareStrings)
}

function compareStrings(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
