/**
 * Bounded history: items in ascending order of revision. The oldest items are evicted when their total size or their
 * age exceeds its limit, or when there are too many items and the oldest have been kept for the minimum time. The
 * minimum is a time because a reader needs enough history to bridge a bookmark interval and a reconnect, at any rate of
 * events. The ring does not know what its items contain.
 *
 *      floor ┐  oldest            newest
 *            ▼  ▼                 ▼
 *     … gone │ [r1] [r2] … [r(n)] │ next append
 *
 * `floorRevision` is the highest revision of an evicted item. Everything *after* it is in the ring, so a reader that
 * has seen everything up to r can continue if and only if r >= floor.
 */
import type { Revision } from '../model/revision.js'

/** The API server keeps history for at least this long, which is enough for a bookmark interval and a reconnect. */
export const KEPT_HISTORY_MS = 75_000

export interface RingItem {
  readonly revision: Revision
  readonly bytes: number
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number
}

export interface RingBounds {
  /** When there are more items than this, the oldest are evicted if they are older than `keepAgeMs`. */
  readonly maxItems: number
  /** This limit takes precedence over the others. Only the newest item, if it is alone, may exceed it. */
  readonly maxBytes: number
  readonly maxAgeMs: number
  /** Items are kept at least this long, whatever their number, unless the byte limit evicts them. Default: 0. */
  readonly keepAgeMs?: number
}

export class RingBuffer<T extends RingItem> {
  /** The length is a power of two, so that a mask wraps an index. It doubles when the array is full. */
  #slots: (T | undefined)[] = Array.from({ length: 64 })
  #head = 0
  #length = 0
  #bytes = 0
  #floor: Revision
  #floorAtMs: number | null = null
  readonly #onEvicted: ((item: T) => void) | undefined
  #bounds: RingBounds
  #cutShort = 0

  /** @param onEvicted called for each evicted item, oldest first, but not for items that a reset drops. */
  constructor(bounds: RingBounds, floor: Revision, onEvicted?: (item: T) => void) {
    this.#bounds = bounds
    this.#floor = floor
    this.#onEvicted = onEvicted
  }

  get bounds(): RingBounds {
    return this.#bounds
  }

  /** Changes the limits and evicts items that exceed them at once. @param nowMs monotonic milliseconds. */
  setBounds(bounds: RingBounds, nowMs: number): void {
    this.#bounds = bounds
    this.#evictBeyond(nowMs)
  }

  get floorRevision(): Revision {
    return this.#floor
  }

  /**
   * When the floor, or a revision after it, was received: the history reaches back at least to this time, also when it
   * is empty. In monotonic milliseconds; null if it was not given.
   */
  get floorAtMs(): number | null {
    return this.#floorAtMs
  }

  get length(): number {
    return this.#length
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The number of items evicted by the byte limit before they were `keepAgeMs` old, since the start. */
  get cutShort(): number {
    return this.#cutShort
  }

  get newest(): T | undefined {
    return this.#length === 0 ? undefined : this.at(this.#length - 1)
  }

  /** Index 0 is the oldest. Returns undefined when out of range. */
  at(index: number): T | undefined {
    return index < 0 || index >= this.#length ? undefined : this.#slots[(this.#head + index) & (this.#slots.length - 1)]
  }

  /**
   * @throws RangeError when the revision is not above the newest item's, which would mean that events are repeated or
   * out of order.
   */
  append(item: T): void {
    const newest = this.newest
    if (item.revision <= (newest?.revision ?? this.#floor)) {
      throw new RangeError(`revision ${item.revision} does not follow ${newest?.revision ?? this.#floor}`)
    }
    if (this.#length === this.#slots.length) this.#grow()
    this.#slots[(this.#head + this.#length) & (this.#slots.length - 1)] = item
    this.#length++
    this.#bytes += item.bytes
    this.#evictBeyond(item.receivedAtMs)
  }

  /**
   * Puts older items, in ascending order, before the oldest. As many of them as the byte limit allows are kept.
   * @param floor the history with all of them begins after this revision.
   */
  prepend(older: readonly T[], floor: Revision): void {
    for (const item of older.toReversed()) {
      if (this.#bytes + item.bytes > this.#bounds.maxBytes) return void (this.#floor = item.revision)
      if (this.#length === this.#slots.length) this.#grow()
      this.#head = (this.#head - 1) & (this.#slots.length - 1)
      this.#slots[this.#head] = item
      this.#length++
      this.#bytes += item.bytes
    }
    this.#floor = floor
  }

  #evictBeyond(nowMs: number): void {
    const { maxItems, maxBytes, maxAgeMs, keepAgeMs = 0 } = this.#bounds
    const keptSinceMs = nowMs - keepAgeMs
    while (this.#bytes > maxBytes && this.#length > 1) {
      if (keepAgeMs > 0 && this.at(0)!.receivedAtMs > keptSinceMs) this.#cutShort++
      this.#evict()
    }
    while (this.#length > maxItems && this.at(0)!.receivedAtMs <= keptSinceMs) this.#evict()
    this.evictOlderThan(nowMs - maxAgeMs)
  }

  /** Evicts items received before `timeMs`. */
  evictOlderThan(timeMs: number): void {
    for (let oldest = this.at(0); oldest !== undefined && oldest.receivedAtMs < timeMs; oldest = this.at(0))
      this.#evict()
  }

  /** Evicts the oldest items until at most `maxBytes` are held. */
  shrinkTo(maxBytes: number): void {
    while (this.#length > 0 && this.#bytes > maxBytes) this.#evict()
  }

  /** Drops everything. History restarts after `floor`, which was received at `floorAtMs`. */
  reset(floor: Revision, floorAtMs: number | null = null): void {
    this.#slots = Array.from({ length: 64 })
    this.#head = 0
    this.#length = 0
    this.#bytes = 0
    this.#floor = floor
    this.#floorAtMs = floorAtMs
  }

  /** Returns the first item whose revision is above `revision`; undefined if there is none. O(log n). */
  after(revision: Revision): T | undefined {
    return this.at(this.#indexAfter(revision))
  }

  /** Returns the last item whose revision is not above `revision`; undefined if there is none. O(log n). */
  upTo(revision: Revision): T | undefined {
    return this.at(this.#indexAfter(revision) - 1)
  }

  #indexAfter(revision: Revision): number {
    let low = 0
    let high = this.#length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.at(middle)!.revision <= revision) low = middle + 1
      else high = middle
    }
    return low
  }

  #evict(): void {
    const oldest = this.#slots[this.#head]!
    this.#slots[this.#head] = undefined
    this.#head = (this.#head + 1) & (this.#slots.length - 1)
    this.#length--
    this.#bytes -= oldest.bytes
    this.#floor = oldest.revision
    this.#floorAtMs = oldest.receivedAtMs
    this.#onEvicted?.(oldest)
  }

  #grow(): void {
    const slots: (T | undefined)[] = Array.from({ length: this.#slots.length * 2 })
    for (let i = 0; i < this.#length; i++) slots[i] = this.at(i)
    this.#slots = slots
    this.#head = 0
  }
}
