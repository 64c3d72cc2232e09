/**
 * Digests of the states that the ring covers. If two caches give the same digest for a revision, they held the same
 * objects at that revision. So a client may move from one to the other although the two never communicate: to another
 * replica, or to the same server after a restart. A restored etcd reuses revisions for different contents, so the
 * digests differ.
 *
 * The digest of a state is computed from the sum of one hash for each object. So an event costs two hashes and no pass
 * over the state, and the order in which objects arrived does not matter. A sum of ordinary hashes would be unsafe,
 * because someone who writes many values can choose them so that two states have the same sum (Wagner's generalized
 * birthday attack; lattice reduction). Instead, each object has 64 lanes of 32 bits from an extendable-output hash, and
 * the lanes are added separately, as in LtHash. With as many objects as etcd can hold, either attack takes some 2^100
 * steps. Clients get the SHA-256 of the sum.
 *
 * The digest covers only objects that clients can see; values that cannot be served are left out. It covers an object's
 * revisions as well as its decrypted bytes, so writing the object again changes the digest, even if only the encryption
 * key is new.
 *
 *     before(b1)  before(b2)  …  before(bn)   newest
 *         └─ b1 ──────┴─ b2 ─ … ──────┴─ bn ────┘
 *
 * Nothing is computed before the first request. Each later request adds only the batches that have arrived since the
 * previous request.
 */
import { createHash } from 'node:crypto'
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import { turns } from '../../support/turns.js'
import type { CacheBatch } from './cache-batch.js'
import type { RingBuffer } from './ring-buffer.js'
import type { Snapshot } from './store.js'

const LANES = 64

/** The sum of the digests of a set of objects. */
class StateSum {
  readonly #lanes: Uint32Array

  constructor(lanes = new Uint32Array(LANES)) {
    this.#lanes = lanes
  }

  add(object: StoredObject): void {
    const own = lanesOf(object)
    for (let i = 0; i < LANES; i++) this.#lanes[i]! += own[i]!
  }

  subtract(object: StoredObject): void {
    const own = lanesOf(object)
    for (let i = 0; i < LANES; i++) this.#lanes[i]! -= own[i]!
  }

  clone(): StateSum {
    return new StateSum(this.#lanes.slice())
  }

  get digest(): string {
    return createHash('sha256').update(this.#lanes).digest('base64url')
  }
}

/** Returns the digest of a state. O(n). */
export async function digestOf(snapshot: Snapshot): Promise<string> {
  return (await sumOf(snapshot)).digest
}

async function sumOf(snapshot: Snapshot): Promise<StateSum> {
  const sum = new StateSum()
  for (const object of snapshot.all()) {
    if (turns.isOver) await turns.take()
    sum.add(object)
  }
  return sum
}

/** The lanes are in the machine's byte order, so a machine with another byte order computes different digests. */
function lanesOf({ key, createRevision, modRevision, version, leaseId, encoding, bytes }: StoredObject): Uint32Array {
  const head = JSON.stringify([key, createRevision, modRevision, version, leaseId, encoding])
  const hash = createHash('shake128', { outputLength: LANES * 4 })
    .update(`${head}\n`, 'latin1')
    .update(bytes)
    .digest()
  return new Uint32Array(hash.buffer, hash.byteOffset, LANES)
}

export class Positions {
  readonly #ring: RingBuffer<CacheBatch>
  readonly #present: { snapshot(): Snapshot }
  /** The sum of the state at `#at`; null before the first request. */
  #sum: StateSum | null = null
  #at: Revision
  #digest = ''
  #isClosed = false
  /** One request is processed at a time, because most requests need the same sum. */
  #work: Promise<void> = Promise.resolve()

  /** @param ring the batches before the present state. */
  constructor(ring: RingBuffer<CacheBatch>, present: { snapshot(): Snapshot }) {
    this.#ring = ring
    this.#present = present
    this.#at = ring.floorRevision
  }

  /** Called when the ring's batches no longer belong to this history. */
  close(): void {
    this.#isClosed = true
  }

  /**
   * Returns the digest of the state at a revision after which a watch can resume; null if that is no longer possible.
   */
  async digestAt(revision: Revision): Promise<string | null> {
    const known = this.#knownAt(revision)
    if (known !== null) return known
    this.#work = this.#work.then(() => this.#catchUp())
    await this.#work
    return this.#knownAt(revision)
  }

  #knownAt(revision: Revision): string | null {
    if (this.#isClosed || revision < this.#ring.floorRevision) return null
    const next = this.#ring.after(revision)
    if (next !== undefined) return next.digestBefore
    // No batch follows the revision, so its state is the current one.
    const isCaughtUp = this.#sum !== null && this.#ring.after(this.#at) === undefined
    return isCaughtUp ? this.#digest : null
  }

  async #catchUp(): Promise<void> {
    if (this.#sum === null || this.#at < this.#ring.floorRevision) await this.#begin()
    const sum = this.#sum
    if (sum === null) return
    for (let batch = this.#next(); batch !== undefined; batch = this.#next()) {
      batch.digestBefore = this.#digest
      for (const { object, previous } of batch.events) {
        if (previous !== null) sum.subtract(previous)
        if (object !== null) sum.add(object)
      }
      this.#at = batch.revision
      this.#digest = sum.digest
      if (!turns.isOver) continue
      await turns.take()
      // In the meantime, the ring has dropped batches that were not added to the sum.
      if (this.#at < this.#ring.floorRevision) return
    }
  }

  #next(): CacheBatch | undefined {
    return this.#isClosed ? undefined : this.#ring.after(this.#at)
  }

  /** Adds up the current state, then walks back from it as far as the ring reaches. */
  async #begin(): Promise<void> {
    this.#sum = null
    const snapshot = this.#present.snapshot()
    const sum = await sumOf(snapshot)
    if (this.#isClosed) return
    const earlier = sum.clone()
    let batch = this.#ring.upTo(snapshot.revision)
    while (batch !== undefined) {
      for (const { object, previous } of batch.events) {
        if (object !== null) earlier.subtract(object)
        if (previous !== null) earlier.add(previous)
      }
      batch.digestBefore = earlier.digest
      const { revision }: CacheBatch = batch
      if (turns.isOver) await turns.take()
      if (this.#isClosed) return
      batch = this.#ring.upTo((revision - 1) as Revision)
    }
    this.#sum = sum
    this.#at = snapshot.revision
    this.#digest = sum.digest
  }
}
