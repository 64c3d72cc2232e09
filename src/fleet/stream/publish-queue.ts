/**
 * Holds what a publisher has received from its feed and not yet written, in order. Waiting batches share a message, so
 * a burst costs few messages; progress and states are separate messages. Only the newest progress waits, and none
 * before batches, which imply it: one message is in flight at a time, and many marks may arrive meanwhile if NATS is
 * far away.
 */
import type { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Batch } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import { batchBytes } from '../key-value-codec.js'
import type { StateReason } from './message.js'
import type { SnapshotWriter } from './snapshot-store.js'

export interface QueuedState {
  readonly kind: 'state'
  readonly revision: Revision
  readonly reason: StateReason
  readonly snapshot: SnapshotWriter
  readonly fingerprint: HistoryFingerprint
}

interface QueuedBatches {
  readonly kind: 'batches'
  readonly batches: Batch[]
  bytes: number
}

interface QueuedProgress {
  readonly kind: 'progress'
  revision: Revision
}

/** A message without batches. */
type QueuedMark = QueuedState | QueuedProgress | { readonly kind: 'synced' }

export type Queued = QueuedBatches | QueuedMark

/** Batches share a message up to this size. */
const MESSAGE_BYTES = 256 * 1024
/** Counted for a waiting message without batches. Its fingerprint, about 2 KB, is only made when it is written. */
const MARK_BYTES = 64

export class PublishQueue {
  readonly #onContent: () => void
  readonly #items: Queued[] = []
  #bytes = 0
  /** Whether the last queued item is known to complete everything that etcd had. */
  #endsSynced = false
  #isClosed = false
  /** Ends the wait for an item. */
  #wake = (): void => {}

  /** @param onContent called for each new item but progress, and not for an addition to a waiting one. */
  constructor(onContent: () => void) {
    this.#onContent = onContent
  }

  get bytes(): number {
    return this.#bytes
  }

  addBatches(batches: readonly Batch[]): void {
    if (batches.length === 0) return
    if (this.#items.at(-1)?.kind === 'progress') {
      this.#bytes -= MARK_BYTES
      this.#items.pop()
    }
    const last = this.#items.at(-1)
    let into = last?.kind === 'batches' ? last : null
    for (const batch of batches) {
      const bytes = batchBytes(batch)
      if (into === null || into.bytes + bytes > MESSAGE_BYTES) {
        into = { kind: 'batches', batches: [], bytes: 0 }
        this.#push(into)
      }
      into.batches.push(batch)
      into.bytes += bytes
      this.#bytes += bytes
    }
  }

  /** Called when the continued stream already says that it has everything. */
  continueSynced(): void {
    this.#endsSynced = true
  }

  /** @returns false for a redundant mark. */
  add(mark: QueuedMark): boolean {
    const last = this.#items.at(-1)
    if (mark.kind === 'synced' && this.#endsSynced) return false
    if (mark.kind !== 'progress') this.#endsSynced = mark.kind === 'synced'
    if (mark.kind === 'progress' && last?.kind === 'progress') {
      if (mark.revision > last.revision) last.revision = mark.revision
      return true
    }
    this.#push(mark)
    this.#bytes += MARK_BYTES
    return true
  }

  /** Removes the oldest item once there is one; resolves to null when the queue is closed. */
  async next(): Promise<Queued | null> {
    while (this.#items.length === 0 && !this.#isClosed) await new Promise<void>((resolve) => (this.#wake = resolve))
    const item = this.#items.shift() ?? null
    if (item !== null) this.#bytes -= item.kind === 'batches' ? item.bytes : MARK_BYTES
    return item
  }

  /** Forgets everything. */
  close(): void {
    this.#isClosed = true
    this.#items.length = 0
    this.#bytes = 0
    this.#wake()
  }

  #push(item: Queued): void {
    this.#items.push(item)
    if (item.kind !== 'progress') this.#onContent()
    this.#wake()
  }
}
