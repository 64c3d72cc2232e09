/** Encodes batches of the ring for cursors that lag, once per batch and group, and joins small ones into one write. */
import type { CacheBatch } from '../cache/cache-batch.js'
import type { History } from '../cache/history.js'
import { ByteCache } from '../../support/byte-cache.js'
import { inOwnMemory } from '../../support/own-memory.js'
import type { Slice } from '../../support/turns.js'
import type { Revision } from '../model/revision.js'
import type { Cursor } from './cursor.js'
import { type EventUnit, joinedUnits } from './wire-format.js'

/**
 * Consecutive batches are copied into one write to a lagging watcher up to this size. A write costs as much as copying
 * ten times this many bytes. If the socket is full, the copied bytes stay in memory until it drains.
 */
const PIECE_BYTES = 16 * 1024
/** Memory of an encoded batch besides its bytes and its key, as measured. */
const REPLAY_ENTRY_BYTES = 512

/** The events sent to a lagging cursor in one write. */
export interface Piece {
  readonly unit: EventUnit
  /** The revision of the last batch in the piece. */
  readonly revision: Revision
  /** The revision of the last event in the piece, if there is one. */
  readonly eventRevision: Revision
  readonly batches: number
}

type Replayed = Pick<History, 'batchAfter' | 'floorRevision'>

interface Encoded extends EventUnit {
  readonly revision: Revision
}

export class Replays {
  readonly #history: Replayed
  readonly #encoded: ByteCache<string, Encoded>

  /** @param maxBytes the most bytes of encoded batches that are kept. */
  constructor(history: Replayed, maxBytes: number) {
    this.#history = history
    this.#encoded = new ByteCache({
      maxBytes,
      sizeOf: (replay, key) => replay.bytes.length + REPLAY_ENTRY_BYTES + 2 * key.length,
    })
  }

  /** Memory of the encoded batches that are kept. */
  get bytes(): number {
    return this.#encoded.bytes
  }

  resize(maxBytes: number): void {
    this.#encoded.resize(maxBytes)
  }

  /** Drops the encoded batches when the history to which they belong has ended. */
  clear(): void {
    this.#encoded.clear()
  }

  /** Returns the cursor's next batch, together with at most `maxBatches` - 1 of the following ones if they are small. */
  pieceOf(cursor: Cursor, batch: CacheBatch, maxBatches: number, slice: Slice): Piece {
    const first = this.#replayOf(cursor, batch)
    const units = first.events > 0 ? [first] : []
    let { revision } = batch
    let eventRevision = revision
    let bytes = first.bytes.length
    let batches = 1
    while (bytes < PIECE_BYTES && batches < maxBatches && !cursor.needsFirst && !slice.isOver) {
      const next = this.#history.batchAfter(revision)
      const unit = next === undefined ? null : this.#replayIfWritable(cursor, next)
      if (unit === null || bytes + unit.bytes.length > PIECE_BYTES) break
      bytes += unit.bytes.length
      batches++
      revision = next!.revision
      if (unit.events === 0) continue
      units.push(unit)
      eventRevision = revision
    }
    return { unit: joinedUnits(units), revision, eventRevision, batches }
  }

  /** Returns null for a batch that cannot be encoded. The cursor gets the error when it reaches that batch. */
  #replayIfWritable(cursor: Cursor, batch: CacheBatch): EventUnit | null {
    try {
      return this.#replayOf(cursor, batch)
    } catch {
      return null
    }
  }

  #replayOf({ group, needsFirst }: Cursor, batch: CacheBatch): EventUnit {
    if (needsFirst) return group.replay(batch, true)
    const key = `${group.key}\n${batch.revision}`
    const known = this.#encoded.get(key)
    if (known !== undefined) return known
    // No cursor reads a batch that the ring has dropped.
    const { floorRevision } = this.#history
    this.#encoded.dropUseless(({ revision }) => revision <= floorRevision)
    const replay = group.replay(batch, false)
    this.#encoded.set(key, { ...replay, bytes: inOwnMemory(replay.bytes), revision: batch.revision })
    return replay
  }
}
