/**
 * The little a feed remembers of what it handed over, enough to recognise the history again: the newest put that is still
 * there, the deletion after it, and how many keys there are. A copy of all keys was rejected: the sink has one, and this feed would double it.
 */
import type { Batch, Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'

export class HistoryFingerprint {
  #newest: KeyValue | null = null
  #lastDelete: { readonly key: Key; readonly revision: Revision } | null = null
  #keyCount = 0
  #isCountKnown = true
  #wasListed = false

  /** The newest value handed over that has not been deleted since; null before the first one and after its deletion. */
  get newest(): KeyValue | null {
    return this.#newest
  }

  /** The last event, where that was a deletion. */
  get lastDelete(): { readonly key: Key; readonly revision: Revision } | null {
    return this.#lastDelete
  }

  /** Keys under the prefix; null without a list, and where the source does not tell a creation from an update. */
  get keyCount(): number | null {
    return this.#wasListed && this.#isCountKnown ? this.#keyCount : null
  }

  /** What an earlier fingerprint of the same history had seen last. */
  recalled(newest: KeyValue | null, lastDelete: { readonly key: Key; readonly revision: Revision } | null): void {
    this.#newest = newest
    this.#lastDelete = lastDelete
  }

  listed(keyValues: readonly KeyValue[]): void {
    this.#wasListed = true
    this.#keyCount += keyValues.length
    for (const keyValue of keyValues) {
      if (keyValue.version < 1) this.#isCountKnown = false
      if (this.#newest === null || keyValue.modRevision > this.#newest.modRevision) this.#newest = keyValue
    }
  }

  applied(batches: readonly Batch[]): void {
    for (const batch of batches) {
      for (const event of batch.events) {
        if (event.type === 'put') {
          const { version } = event.keyValue
          if (version === 1) this.#keyCount++
          else if (version < 1) this.#isCountKnown = false
          this.#newest = event.keyValue
          this.#lastDelete = null
        } else {
          this.#keyCount--
          this.#lastDelete = { key: event.key, revision: batch.revision }
          if (event.key === this.#newest?.key) this.#newest = null
        }
      }
    }
  }
}
