/** Checks the invariants of a ring after every operation. */
import type { RingBuffer, RingItem } from '../../src/engine/cache/ring-buffer.js'

/** @throws Error that names the broken rule. */
export function checkRing(ring: RingBuffer<RingItem>): void {
  const { maxItems, maxBytes, keepAgeMs = 0 } = ring.bounds
  const items = Array.from({ length: ring.length }, (_, i) => ring.at(i))
  let before: number = ring.floorRevision
  let bytes = 0
  for (const item of items) {
    if (item === undefined) throw new Error('a slot inside the ring is empty')
    if (item.revision <= before) throw new Error(`${item.revision} does not ascend from ${before}`)
    before = item.revision
    bytes += item.bytes
  }
  if (ring.bytes !== bytes) throw new Error(`${ring.bytes} bytes counted, ${bytes} held`)
  if (keepAgeMs === 0 && ring.length > maxItems) throw new Error(`${ring.length} items, more than ${maxItems}`)
  if (bytes > maxBytes && ring.length > 1) throw new Error(`${bytes} bytes, more than ${maxBytes}`)
  if (ring.at(-1) !== undefined || ring.at(ring.length) !== undefined) throw new Error('something lies outside')
  if (ring.newest !== items.at(-1)) throw new Error('the newest is not the last')
}
