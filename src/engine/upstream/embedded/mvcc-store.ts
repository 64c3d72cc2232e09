/**
 * etcd's storage model in memory: one counter, the versions of every key, and a log of the changes at each revision.
 *
 *     index (sorted by key)                    log (dense: one batch per revision)
 *     a → [put@3, put@7, delete@9]             3: put a · 4: put b, put c · 5: delete b · … · 9: delete a
 *     b → [put@4, delete@5]                    ▲ first batch kept = the compact revision, the oldest that can be read
 *
 * The store is pure and synchronous; timers, watchers and faults are in other files. Its size is bounded: history
 * beyond a number of revisions or bytes is compacted automatically, and a key that is deleted and compacted leaves
 * nothing behind. A log of values alone, replayed for each read, was rejected because the cost of reading a page must
 * depend on the page and not on the length of the history.
 *
 * Source of the rules: etcd's API guarantees, and the documentation of etcd's `kvstore` and `key_index`.
 */
import type { Batch, Key, KeyEvent, KeyValue } from '../../model/event.js'
import { eventKey, prefixEnd } from '../../model/event.js'
import { nextRevision, type Revision, ZERO_REVISION } from '../../model/revision.js'
import { ownCopy } from '../../../support/own-memory.js'
import { createSortedMap, type SortedMap } from '../../../support/sorted-map.js'
import { UpstreamError, type WriteOperation } from '../upstream.js'

export interface MvccStoreOptions {
  /** The minimum number of revisions of history to keep. Older revisions are compacted. */
  readonly historyRevisions: number
  /**
   * The approximate limit for bytes of keys and values in the history. Beyond it, the oldest revisions are compacted.
   */
  readonly historyBytes: number
}

export interface RangeResult {
  readonly keyValues: KeyValue[]
  readonly more: boolean
  readonly count: number
}

interface Tombstone {
  readonly value: null
  readonly modRevision: Revision
}

/** Oldest first; never empty. */
type History = (KeyValue | Tombstone)[]

/** The approximate memory of an event without its key and value: objects, array slots, a Buffer's header. */
const eventOverheadBytes = 200

/** Compaction runs when the history exceeds its limit by this share, so that its cost is spread over many writes. */
const compactionSlack = 0.1

export class MvccStore {
  readonly #options: MvccStoreOptions
  #index: SortedMap<Key, History> = createSortedMap()
  #log: Batch[] = []
  /** etcd starts at revision 1 with nothing written, so the first write has revision 2. */
  #revision = 1 as Revision
  #compactRevision: Revision = ZERO_REVISION
  #logBytes = 0

  constructor(options: MvccStoreOptions) {
    this.#options = options
  }

  get revision(): Revision {
    return this.#revision
  }

  /** The oldest revision that can be read, and from which a watch can start; 0 before the first compaction. */
  get compactRevision(): Revision {
    return this.#compactRevision
  }

  /** @throws UpstreamError `compacted` or `future-revision`. */
  get(key: Key, revision: Revision = this.#revision): KeyValue | null {
    this.#checkRevision(revision)
    const history = this.#index.get(key)
    return history === undefined ? null : versionAt(history, revision)
  }

  /**
   * Returns the keys in [startKey, end of prefix) at `revision`, at most `limit` of them, and their total number.
   * @throws UpstreamError `compacted` or `future-revision`.
   */
  range(prefix: Key, startKey: Key, revision: Revision, limit: number): RangeResult {
    this.#checkRevision(revision)
    const keyValues: KeyValue[] = []
    let count = 0
    const first = startKey > prefix ? startKey : prefix
    const end = prefixEnd(prefix)
    const visit = (_key: Key, history: History): void => {
      const keyValue = versionAt(history, revision)
      if (keyValue === null) return
      count++
      if (keyValues.length < limit) keyValues.push(keyValue)
    }
    if (end === '\0') {
      const last = this.#index.maxKey()
      if (last !== undefined) this.#index.forRange(first, last, true, visit)
    } else {
      this.#index.forRange(first, end, false, visit)
    }
    return { keyValues, count, more: count > keyValues.length }
  }

  /**
   * Performs one transaction at one new revision. If it changes nothing, returns null and uses no revision.
   * @throws UpstreamError `protocol` when a key occurs twice, which etcd refuses.
   */
  apply(operations: readonly WriteOperation[]): Batch | null {
    checkUniqueKeys(operations)
    const revision = nextRevision(this.#revision)
    const events: KeyEvent[] = []
    for (const operation of operations) {
      const event = operation.type === 'put' ? this.#put(operation, revision) : this.#delete(operation.key, revision)
      if (event !== null) events.push(event)
    }
    if (events.length === 0) return null
    const batch: Batch = { revision, events }
    this.#revision = revision
    this.#log.push(batch)
    this.#logBytes += batchBytes(batch)
    this.#compactOverBounds()
    return batch
  }

  /** Returns the batch of a kept revision; undefined for a revision above the newest or below the compact revision. */
  batchAt(revision: Revision): Batch | undefined {
    const first = this.#log[0]
    return first === undefined ? undefined : this.#log[revision - first.revision]
  }

  /**
   * Drops the history that only reads and watches below `revision` need. The revision itself stays readable, and its
   * events, including deletes, stay watchable (etcd used to lose these deletes: #18089, #19179).
   * @throws UpstreamError `compacted` if the revision is already compacted, `future-revision` if it is above the
   * newest.
   */
  compact(revision: Revision): void {
    if (revision <= this.#compactRevision) throw compactedError(revision, this.#compactRevision)
    if (revision > this.#revision) throw futureRevisionError(revision, this.#revision)
    this.#compactRevision = revision
    const dropped = new Set<Key>()
    let drop = 0
    for (const batch of this.#log) {
      if (batch.revision > revision) break
      for (const event of batch.events) dropped.add(eventKey(event))
      if (batch.revision === revision) break
      this.#logBytes -= batchBytes(batch)
      drop++
    }
    // The batch at the old compact revision was kept, so the log contains every key that has versions to drop.
    this.#log.splice(0, drop)
    for (const key of dropped) this.#compactKey(key, revision)
  }

  /** Returns a copy for a backup. It shares no mutable state with this store. */
  clone(): MvccStore {
    const copy = new MvccStore(this.#options)
    copy.#index = this.#index.mapValues((history) => [...history])
    copy.#log = [...this.#log]
    copy.#revision = this.#revision
    copy.#compactRevision = this.#compactRevision
    copy.#logBytes = this.#logBytes
    return copy
  }

  /** @throws UpstreamError `compacted` or `future-revision`. */
  #checkRevision(revision: Revision): void {
    if (revision < this.#compactRevision) throw compactedError(revision, this.#compactRevision)
    if (revision > this.#revision) throw futureRevisionError(revision, this.#revision)
  }

  #put(operation: WriteOperation & { type: 'put' }, revision: Revision): KeyEvent {
    const { key, value, leaseId = '0' } = operation
    const history = this.#index.get(key)
    const previous = history?.at(-1)
    const exists = previous !== undefined && previous.value !== null
    const keyValue: KeyValue = {
      key,
      // The caller's buffer may be a slice of a large one, or may be overwritten later.
      value: ownCopy(value),
      createRevision: exists ? previous.createRevision : revision,
      modRevision: revision,
      version: exists ? previous.version + 1 : 1,
      leaseId,
    }
    if (history === undefined) this.#index.set(key, [keyValue])
    else history.push(keyValue)
    return { type: 'put', keyValue }
  }

  #delete(key: Key, revision: Revision): KeyEvent | null {
    const history = this.#index.get(key)
    const previous = history?.at(-1)
    if (history === undefined || previous === undefined || previous.value === null) return null
    history.push({ value: null, modRevision: revision })
    return { type: 'delete', key }
  }

  #compactKey(key: Key, revision: Revision): void {
    const history = this.#index.get(key)
    if (history === undefined) return
    const keep = versionIndex(history, revision)
    if (keep > 0) history.splice(0, keep)
    const first = history[0]
    if (keep >= 0 && first?.value === null) history.shift()
    if (history.length === 0) this.#index.delete(key)
  }

  #compactOverBounds(): void {
    const { historyRevisions, historyBytes } = this.#options
    const isOverBounds =
      this.#log.length > historyRevisions * (1 + compactionSlack) + 1 ||
      this.#logBytes > historyBytes * (1 + compactionSlack)
    if (!isOverBounds) return
    let drop = Math.max(0, this.#log.length - historyRevisions)
    let bytes = this.#logBytes
    for (let i = 0; i < this.#log.length - 1; i++) {
      if (i >= drop && bytes <= historyBytes) break
      bytes -= batchBytes(this.#log[i] as Batch)
      drop = Math.max(drop, i + 1)
    }
    const oldestKept = this.#log[drop]
    if (oldestKept !== undefined && oldestKept.revision > this.#compactRevision) this.compact(oldestKept.revision)
  }
}

function compactedError(revision: Revision, compactRevision: Revision): UpstreamError {
  return new UpstreamError('compacted', `revision ${revision} has been compacted, the oldest is ${compactRevision}`, {
    compactRevision,
  })
}

function futureRevisionError(revision: Revision, current: Revision): UpstreamError {
  return new UpstreamError('future-revision', `revision ${revision} is in the future, the newest is ${current}`)
}

/** @throws UpstreamError */
function checkUniqueKeys(operations: readonly WriteOperation[]): void {
  if (operations.length < 2) return
  const keys = new Set<Key>()
  for (const { key } of operations) {
    if (keys.has(key)) throw new UpstreamError('protocol', `duplicate key in one transaction: ${JSON.stringify(key)}`)
    keys.add(key)
  }
}

function batchBytes(batch: Batch): number {
  let bytes = 0
  for (const event of batch.events) {
    bytes += eventOverheadBytes + (event.type === 'put' ? event.keyValue.key.length + event.keyValue.value.length : 0)
  }
  return bytes
}

/**
 * Returns the index of the newest version at or before `revision`; -1 if there is none. The search begins at the newest
 * version, because recent revisions are read most.
 */
function versionIndex(history: History, revision: Revision): number {
  return history.findLastIndex(({ modRevision }) => modRevision <= revision)
}

function versionAt(history: History, revision: Revision): KeyValue | null {
  const newest = history.at(-1) as KeyValue | Tombstone
  const version = newest.modRevision <= revision ? newest : history[versionIndex(history, revision)]
  return version === undefined || version.value === null ? null : version
}
