/**
 * A map sorted by a string key, with range scans and cheap copy-on-write clones. Only this file imports `sorted-btree`.
 * The order is `<` on strings, which for a binary-string key is etcd's byte order.
 */
import imported from 'sorted-btree'

export type SortedMap<K extends string, V> = imported.default<K, V>

// The default import of a CommonJS module contains all of its exports in Node, but is `exports.default` in Bun.
const BTree = (imported as Partial<typeof imported>).default ?? (imported as unknown as typeof imported.default)

export function createSortedMap<K extends string, V>(): SortedMap<K, V> {
  return new BTree<K, V>(undefined, compareStrings)
}

function compareStrings(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
