/** Shard selectors for tests. */
import { createHash } from 'node:crypto'

/** Ranges of the hash of the uid, or of another field. */
export function rangesText(ranges: readonly (readonly [start: bigint, end: bigint])[], field = 'uid'): string {
  const hex = (value: bigint): string => `'0x${value.toString(16).padStart(16, '0')}'`
  return ranges.map(([start, end]) => `shardRange(object.metadata.${field}, ${hex(start)}, ${hex(end)})`).join(' || ')
}

/** `count` shards of equal size, which together are everything. */
export function shardTexts(count: number, field = 'uid'): readonly string[] {
  const bound = (i: number): bigint => (2n ** 64n * BigInt(i)) / BigInt(count)
  return Array.from({ length: count }, (_, i) => rangesText([[bound(i), bound(i + 1)]], field))
}

/**
 * A uid with random digits, as Kubernetes has them: FNV-1a barely spreads texts that differ in their last characters.
 */
export function uidOf(i: number): string {
  return createHash('sha256').update(String(i)).digest('hex').slice(0, 36)
}
