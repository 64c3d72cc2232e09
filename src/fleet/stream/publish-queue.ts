/**
 * Holds, in order, everything that a publisher has received from its feed and not yet written. Waiting batches share a
 * message, so a burst costs few messages; progress and states are separate messages.
 *
 * Only the newest progress is kept, and only until batches or a state arrive, because they imply it. Progress is also
 * handed out at a limited rate. Every consistent read on every replica requests progress, and a message for each
 * response would push the history out of the stream of a quiet resource. The first progress after a pause is handed out
 * at once, so that a single read does not wait.
 *
 * A proof of the stream's age also waits its turn, so that the stream has everything before the proof when it is handed
 * out.
 */
import type { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Batch } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
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
  readonly revision: Revision
}

/** A response from etcd to a read that was sent at `requestedAtMs`. */
interface QueuedProof {
  readonly kind: 'proof'
  readonly requestedAtMs: number
}

export type Queued = QueuedBatches | QueuedState | QueuedProgress | QueuedProof | { readonly kind: 'synced' }

/** Batches share a message up to this size. */
const MESSAGE_BYTES = 256 * 1024
/**
 * The size assumed for a waiting message without batches. Its fingerprint, about 2 KB, is made only when the message is
 * written.
 */
const MARK_BYTES = 64
/**
 * The shortest time between two progress messages. It allows twenty a second, and no read waits longer than this for
 * its progress.
 */
const PROGRESS_GAP_MS = 50

export class PublishQueue {
  readonly #items: Queued[] = []
  #bytes = 0
  /** The newest progress, which comes after all items; null if there is none. */
  #progress: Revision | null = null
  #progressedMs = Number.NEGATIVE_INFINITY
  /** Whether the stream is known to have everything that etcd had once the last queued item is written. */
  #endsSynced = false
  #isClosed = false
  /** Whether the caller is waiting for an item, which means that it has written all earlier ones. */
  #isAwaited = false
  /** Ends the wait for an item. */
  #wake = (): void => {}

  constructor(private readonly clock: Clock) {}

  get bytes(): number {
    return this.#bytes
  }

  addBatches(batches: readonly Batch[]): void {
    if (batches.length === 0) return
    this.#progress = null
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

  addProgress(revision: Revision): void {
    if (this.#progress === null || revision > this.#progress) this.#progress = revision
    this.#wake()
  }

  addState(state: QueuedState): void {
    this.#progress = null
    this.#endsSynced = false
    this.#addMark(state)
  }

  /**
   * Called when the stream will have everything once the queued items are written. Does nothing if that is already
   * known.
   */
  addSynced(): void {
    if (this.#endsSynced) return
    this.#endsSynced = true
    if (this.#progress !== null) this.#addMark({ kind: 'progress', revision: this.#progress })
    this.#progress = null
    this.#addMark({ kind: 'synced' })
  }

  /** @returns whether nothing is queued or being written, so the proof need not wait. */
  addProof(requestedAtMs: number): boolean {
    if (this.#isAwaited && this.#items.length === 0) return true
    this.#addMark({ kind: 'proof', requestedAtMs })
    return false
  }

  /**
   * Waits for an item and removes the oldest; resolves to null when the queue is closed. The caller must have written
   * the previous item.
   */
  async next(): Promise<Queued | null> {
    while (!this.#isClosed) {
      const item = this.#items.shift()
      if (item !== undefined) {
        this.#bytes -= item.kind === 'batches' ? item.bytes : MARK_BYTES
        return item
      }
      const leftMs = this.#progress === null ? null : this.#progressedMs + PROGRESS_GAP_MS - this.clock.monotonic()
      if (this.#progress !== null && leftMs !== null && leftMs <= 0) {
        const revision = this.#progress
        this.#progress = null
        this.#progressedMs = this.clock.monotonic()
        return { kind: 'progress', revision }
      }
      this.#isAwaited = true
      await new Promise<void>((resolve) => {
        const timer = leftMs === null ? null : this.clock.setTimer(leftMs, resolve)
        this.#wake = () => {
          timer?.cancel()
          resolve()
        }
      })
      this.#isAwaited = false
    }
    return null
  }

  /** Forgets everything. */
  close(): void {
    this.#isClosed = true
    this.#items.length = 0
    this.#progress = null
    this.#bytes = 0
    this.#wake()
  }

  #addMark(mark: Exclude<Queued, QueuedBatches>): void {
    this.#push(mark)
    this.#bytes += MARK_BYTES
  }

  #push(item: Queued): void {
    this.#items.push(item)
    this.#wake()
  }
}
