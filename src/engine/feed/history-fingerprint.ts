/**
 * The few facts that a feed remembers about the delivered history, to recognize that history later: the newest puts
 * whose keys still exist, the deletion after them, and the number of keys. The newest put alone is not enough, because
 * two histories may agree on it and differ in an earlier put. A copy of all keys was rejected, because the sink already
 * has one.
 */
import { createHash } from 'node:crypto'
import { type Batch, inOwnMemory, type Key, type KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'

/**
 * A put with the digest of its value instead of the value. A feed that continues another process's feed gets puts in
 * this form.
 */
export interface DigestedPut extends Pick<KeyValue, 'key' | 'createRevision' | 'modRevision' | 'version'> {
  /** The SHA-256 of the value. */
  readonly digest: Buffer
}

export type KnownPut = KeyValue | DigestedPut

/** The contents of a fingerprint. */
export interface KnownHistory {
  /** At most 16 puts, in ascending order of mod revision, one per key. */
  readonly puts: readonly KnownPut[]
  /** The last event if it was a deletion, otherwise null. */
  readonly lastDelete: { readonly key: Key; readonly revision: Revision } | null
  /** The number of keys under the prefix; null if it is not known. */
  readonly keyCount: number | null
}

/** The limit is small because each put is read again from etcd after every loss of the watch. */
const KEPT_PUTS = 16
/**
 * Byte limit for the values that the fingerprint keeps in memory. The newest value is kept even if it is larger; etcd
 * allows 1.5 MB.
 */
const KEPT_BYTES = 1_048_576

export interface DigestedHistory extends KnownHistory {
  readonly puts: readonly DigestedPut[]
}

export class HistoryFingerprint implements KnownHistory {
  #puts: KnownPut[] = []
  #putBytes = 0
  #lastDelete: { readonly key: Key; readonly revision: Revision } | null = null
  #keyCount = 0
  #isCountKnown = true
  #wasListed = false

  /** The newest puts whose keys have not been deleted since, in ascending order. */
  get puts(): readonly KnownPut[] {
    return this.#puts
  }

  /** The newest of these puts; null if there is none. */
  get newest(): KnownPut | null {
    return this.#puts.at(-1) ?? null
  }

  /** The last event if it was a deletion, otherwise null. */
  get lastDelete(): { readonly key: Key; readonly revision: Revision } | null {
    return this.#lastDelete
  }

  /**
   * The number of keys under the prefix. null before a list, and if the source does not distinguish a creation from an
   * update.
   */
  get keyCount(): number | null {
    return this.#wasListed && this.#isCountKnown ? this.#keyCount : null
  }

  /** Creates a fingerprint that continues from an earlier one of the same history. */
  static recalled({ puts, lastDelete, keyCount }: KnownHistory): HistoryFingerprint {
    const fingerprint = new HistoryFingerprint()
    fingerprint.#puts = [...puts]
    fingerprint.#putBytes = puts.reduce((bytes, put) => bytes + valueBytes(put), 0)
    fingerprint.#lastDelete = lastDelete
    fingerprint.#wasListed = keyCount !== null
    fingerprint.#keyCount = keyCount ?? 0
    return fingerprint
  }

  /**
   * Returns the contents of the fingerprint with digests instead of values. From then on the fingerprint also keeps
   * only the digests, so that each value is hashed once.
   */
  digested(): DigestedHistory {
    const puts = this.#puts.map(digestOf)
    this.#puts = puts
    this.#putBytes = 0
    const { lastDelete, keyCount } = this
    return { puts, lastDelete, keyCount }
  }

  listed(keyValues: readonly KeyValue[]): void {
    this.#wasListed = true
    this.#keyCount += keyValues.length
    for (const keyValue of keyValues) {
      if (keyValue.version < 1) this.#isCountKnown = false
      this.#remember(keyValue)
    }
    this.#puts = this.#puts.map((put) => ('value' in put ? inOwnMemory(put) : put))
  }

  applied(batches: readonly Batch[]): void {
    for (const batch of batches) {
      for (const event of batch.events) {
        if (event.type === 'put') {
          const { version } = event.keyValue
          if (version === 1) this.#keyCount++
          else if (version < 1) this.#isCountKnown = false
          this.#remember(event.keyValue)
          this.#lastDelete = null
        } else {
          this.#keyCount--
          this.#lastDelete = { key: event.key, revision: batch.revision }
          this.#forget(event.key)
        }
      }
    }
  }

  #remember(keyValue: KeyValue): void {
    const oldest = this.#puts[0]
    const isFull = this.#puts.length === KEPT_PUTS
    if (isFull && oldest !== undefined && keyValue.modRevision < oldest.modRevision) return
    this.#forget(keyValue.key)
    let at = this.#puts.length
    while (at > 0 && this.#puts[at - 1]!.modRevision > keyValue.modRevision) at--
    this.#puts.splice(at, 0, keyValue)
    this.#putBytes += keyValue.value.length
    while (this.#puts.length > KEPT_PUTS || (this.#putBytes > KEPT_BYTES && this.#puts.length > 1)) {
      this.#putBytes -= valueBytes(this.#puts.shift()!)
    }
  }

  #forget(key: Key): void {
    const at = this.#puts.findIndex((put) => put.key === key)
    if (at === -1) return
    this.#putBytes -= valueBytes(this.#puts[at]!)
    this.#puts.splice(at, 1)
  }
}

/** Whether a key-value read from etcd is the result of the put. */
export function isSamePut(ours: KnownPut, theirs: KeyValue | null): boolean {
  return (
    theirs !== null &&
    theirs.modRevision === ours.modRevision &&
    theirs.createRevision === ours.createRevision &&
    theirs.version === ours.version &&
    ('value' in ours ? theirs.value.equals(ours.value) : sha256(theirs.value).equals(ours.digest))
  )
}

function digestOf(put: KnownPut): DigestedPut {
  if (!('value' in put)) return put
  const { key, createRevision, modRevision, version, value } = put
  return { key, createRevision, modRevision, version, digest: sha256(value) }
}

function sha256(value: Buffer): Buffer {
  return createHash('sha256').update(value).digest()
}

function valueBytes(put: KnownPut): number {
  return 'value' in put ? put.value.length : 0
}
