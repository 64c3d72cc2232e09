/**
 * The little that a feed remembers of what it delivered, in order to recognise the history again: the newest puts that
 * still exist, the deletion after them, and the number of keys. The newest put alone is not enough, because two
 * histories may agree in it and differ in the one before. A copy of all keys was rejected: the sink has one, and the
 * feed would double it.
 */
import type { Batch, Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'

/** Each of them is read again after every loss of the watch. */
const KEPT_PUTS = 16
/** The fingerprint may keep values of up to 1.5 MB in memory; the newest is kept however large it is. */
const KEPT_BYTES = 1_048_576

export class HistoryFingerprint {
  /** The puts in ascending order of mod revision, one per key. */
  #puts: KeyValue[] = []
  #putBytes = 0
  #lastDelete: { readonly key: Key; readonly revision: Revision } | null = null
  #keyCount = 0
  #isCountKnown = true
  #wasListed = false

  /** The newest values delivered and not deleted since, the newest last. */
  get puts(): readonly KeyValue[] {
    return this.#puts
  }

  /** The newest of these values; null when there is none. */
  get newest(): KeyValue | null {
    return this.#puts.at(-1) ?? null
  }

  /** The last event, if it was a deletion. */
  get lastDelete(): { readonly key: Key; readonly revision: Revision } | null {
    return this.#lastDelete
  }

  /**
   * The number of keys under the prefix; null without a list, and where the source does not tell a creation from an
   * update.
   */
  get keyCount(): number | null {
    return this.#wasListed && this.#isCountKnown ? this.#keyCount : null
  }

  /** Restores what an earlier fingerprint of the same history saw last. */
  recalled(newest: KeyValue | null, lastDelete: { readonly key: Key; readonly revision: Revision } | null): void {
    this.#puts = newest === null ? [] : [newest]
    this.#putBytes = newest?.value.length ?? 0
    this.#lastDelete = lastDelete
  }

  listed(keyValues: readonly KeyValue[]): void {
    this.#wasListed = true
    this.#keyCount += keyValues.length
    for (const keyValue of keyValues) {
      if (keyValue.version < 1) this.#isCountKnown = false
      this.#remember(keyValue)
    }
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
      this.#putBytes -= this.#puts.shift()!.value.length
    }
  }

  #forget(key: Key): void {
    const at = this.#puts.findIndex((put) => put.key === key)
    if (at === -1) return
    this.#putBytes -= this.#puts[at]!.value.length
    this.#puts.splice(at, 1)
  }
}
