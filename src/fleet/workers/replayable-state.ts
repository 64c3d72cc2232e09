/**
 * What a worker that starts later needs of one prefix: a state, and the batches after it. The same shape in which a feed
 * begins (a list at an earlier revision, then a replay), so the worker's ring is as full as the others'.
 *
 *     base state ──────▶ │ b1 │ b2 │ … │ bn │   newest
 *        ▲               └──┬─┘
 *        └── the oldest is folded in when a bound is passed
 */
import type { Batch, Key, KeyValue } from '../../model/event.js'
import { type Revision, ZERO_REVISION } from '../../model/revision.js'
import { createSortedMap, type SortedMap } from '../../support/sorted-map.js'
import { batchBytes } from './messages.js'

export interface HistoryBounds {
  readonly maxItems: number
  readonly maxBytes: number
  readonly maxAgeMs: number
  /** Batches are kept for so long whatever their count, within the bytes. Default: 0. */
  readonly keepAgeMs?: number
}

interface Kept {
  readonly batch: Batch
  readonly bytes: number
  readonly receivedAtMs: number
}

export interface Replay {
  readonly revision: Revision
  readonly keyValues: Iterable<KeyValue>
  /** Ascending, all after `revision`. */
  readonly batches: readonly Batch[]
}

/** The front of the array is given back when so much of it is gone, and no more than half is left. */
const COMPACT_ITEMS = 1_024

export class ReplayableState {
  #base = createSortedMap<Key, KeyValue>()
  #baseRevision: Revision = ZERO_REVISION
  /** Undefined before `#first`. */
  #kept: (Kept | undefined)[] = []
  #first = 0
  #bytes = 0

  constructor(readonly bounds: HistoryBounds) {}

  get batches(): number {
    return this.#kept.length - this.#first
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Forgets everything: another state, without the history before it. */
  reset(revision: Revision, keyValues: Iterable<KeyValue>): void {
    this.#base = createSortedMap<Key, KeyValue>()
    for (const keyValue of keyValues) this.#base.set(keyValue.key, keyValue)
    this.#baseRevision = revision
    this.#kept = []
    this.#first = 0
    this.#bytes = 0
  }

  append(batch: Batch, receivedAtMs: number): void {
    const bytes = batchBytes(batch)
    this.#kept.push({ batch, bytes, receivedAtMs })
    this.#bytes += bytes
    const { maxItems, maxBytes, maxAgeMs, keepAgeMs = 0 } = this.bounds
    while (this.#bytes > maxBytes && this.batches > 1) this.#fold()
    while (this.batches > maxItems && this.#kept[this.#first]!.receivedAtMs <= receivedAtMs - keepAgeMs) this.#fold()
    while (this.#kept[this.#first]!.receivedAtMs < receivedAtMs - maxAgeMs) this.#fold()
  }

  /** As it is now, whatever comes later: the tree is copied on write. */
  replay(): Replay {
    const base = this.#base.clone()
    return {
      revision: this.#baseRevision,
      keyValues: base.values(),
      batches: this.#kept.slice(this.#first).map((kept) => kept!.batch),
    }
  }

  /** Everything there is after the newest batch, sorted by key; costs a pass over the history. */
  newest(): Iterable<KeyValue> {
    const state = this.#base.clone()
    for (const kept of this.#kept.slice(this.#first)) applyTo(state, kept!.batch)
    return state.values()
  }

  #fold(): void {
    const { batch, bytes } = this.#kept[this.#first]!
    this.#kept[this.#first++] = undefined
    this.#bytes -= bytes
    applyTo(this.#base, batch)
    this.#baseRevision = batch.revision
    if (this.#first >= COMPACT_ITEMS && this.#first * 2 > this.#kept.length) {
      this.#kept = this.#kept.slice(this.#first)
      this.#first = 0
    }
  }
}

function applyTo(state: SortedMap<Key, KeyValue>, { events }: Batch): void {
  for (const event of events) {
    if (event.type === 'put') state.set(event.keyValue.key, event.keyValue)
    else state.delete(event.key)
  }
}
