/**
 * Keeps what a worker that starts later needs to know about one prefix: a state, and the batches after it. A feed
 * begins in the same way (with a list at an earlier revision, then a replay), so the new worker's ring is as full as
 * the others'.
 *
 *     base state ──────▶ │ b1 │ b2 │ … │ bn │   newest
 *        ▲               └──┬─┘
 *        └── a batch that the ring evicts is folded in
 */
import { type Batch, batchInOwnMemory, eventKey, type Key, type KeyValue } from '../../engine/model/event.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import { RingBuffer, type RingBounds, type RingItem } from '../../engine/cache/ring-buffer.js'
import { createSortedMap, type SortedMap } from '../../support/sorted-map.js'
import { batchBytes } from '../key-value-codec.js'

interface Kept extends RingItem {
  readonly batch: Batch
}

export interface StateWithHistory {
  readonly revision: Revision
  readonly keyValues: Iterable<KeyValue>
  /** In ascending order, all after `revision`. */
  readonly batches: readonly Batch[]
}

export interface EarlierBatches {
  readonly after: Revision
  readonly until: Revision
  /** The values, at `after`, of the keys that the batches change. */
  readonly replaced: readonly KeyValue[]
  readonly batches: readonly Batch[]
}

export class ReplayableState {
  #base = createSortedMap<Key, KeyValue>()
  /** The batches after the base state, so the floor is the revision of that state. */
  readonly #history: RingBuffer<Kept>

  constructor(bounds: RingBounds) {
    this.#history = new RingBuffer(bounds, ZERO_REVISION, ({ batch }) => applyTo(this.#base, batch))
  }

  /**
   * Changes the limits of the history. Batches beyond the new limits are folded into the state.
   * @param nowMs monotonic.
   */
  setBounds(bounds: RingBounds, nowMs: number): void {
    this.#history.setBounds(bounds, nowMs)
  }

  /** Replaces the state, and forgets the history before it. */
  reset(revision: Revision, keyValues: Iterable<KeyValue>): void {
    this.#base = createSortedMap<Key, KeyValue>()
    for (const keyValue of keyValues) this.#base.set(keyValue.key, keyValue)
    this.#history.reset(revision)
  }

  append(batch: Batch, receivedAtMs: number): void {
    this.#history.append(keptOf(batchInOwnMemory(batch), receivedAtMs))
  }

  /**
   * Puts batches before the oldest. @returns false if the history no longer begins where they end, or with another state.
   */
  precede({ after, until, replaced, batches }: EarlierBatches, receivedAtMs: number): boolean {
    if (this.#history.floorRevision !== until) return false
    const base = this.#base
    const reached = new Map(replaced.map(({ key, modRevision }) => [key, modRevision as Revision | null]))
    for (const { events } of batches) {
      for (const event of events) reached.set(eventKey(event), event.type === 'put' ? event.keyValue.modRevision : null)
    }
    for (const [key, revision] of reached) if ((base.get(key)?.modRevision ?? null) !== revision) return false
    for (const { events } of batches) for (const event of events) base.delete(eventKey(event))
    for (const keyValue of replaced) base.set(keyValue.key, keyValue)
    const older = batches.map((batch) => keptOf(batch, this.#history.at(0)?.receivedAtMs ?? receivedAtMs))
    this.#history.prepend(older, after)
    for (const batch of batches) if (batch.revision <= this.#history.floorRevision) applyTo(base, batch)
    return true
  }

  /** Returns the current content, which later calls do not change, because the tree is copy-on-write. */
  replay(): StateWithHistory {
    const base = this.#base.clone()
    return { revision: this.#history.floorRevision, keyValues: base.values(), batches: [...this.#batches()] }
  }

  /** Returns all key-values after the newest batch, sorted by key; costs a pass over the history. */
  newest(): Iterable<KeyValue> {
    const state = this.#base.clone()
    for (const batch of this.#batches()) applyTo(state, batch)
    return state.values()
  }

  *#batches(): Generator<Batch, void, void> {
    for (let i = 0; i < this.#history.length; i++) yield this.#history.at(i)!.batch
  }
}

function keptOf(batch: Batch, receivedAtMs: number): Kept {
  return { batch, revision: batch.revision, bytes: batchBytes(batch), receivedAtMs }
}

function applyTo(state: SortedMap<Key, KeyValue>, { events }: Batch): void {
  for (const event of events) {
    if (event.type === 'put') state.set(event.keyValue.key, event.keyValue)
    else state.delete(event.key)
  }
}
