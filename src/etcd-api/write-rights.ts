/**
 * What a write does, and so what its caller must be allowed: the keys that it changes, those that it reads on the way,
 * and the leases that it attaches keys to. Whoever attaches a key to a lease, keeps it alive or revokes it decides about
 * the other keys of that lease, so it takes permission for all of them.
 */
import { MAX_RIGHTS } from './limits.js'
import type { Key } from '../engine/model/event.js'
import type { Right, Verb } from './access.js'
import { emptyKey, tooManyOperations } from './etcd-error.js'
import { type KeyRange, keyRange } from './key-range.js'
import { decode, keyIn } from './requests.js'
import { visitTransaction } from './transactions.js'

/** Returns the right for a range. @throws EtcdError for a range that is hidden from everybody. */
export type RightOf = (verb: Verb | 'read', range: KeyRange) => Right

export class WriteRights {
  readonly #rightOf: RightOf
  readonly #rights = new Map<string, Right>()
  /** Decimal text. */
  readonly leases = new Set<string>()
  isWrite = false

  constructor(rightOf: RightOf) {
    this.#rightOf = rightOf
  }

  get all(): readonly Right[] {
    return [...this.#rights.values()]
  }

  need(verb: Verb | 'read', range: KeyRange): void {
    const right = this.#rightOf(verb, range)
    this.#rights.set(JSON.stringify([right.verb, right.resource, right.name, right.namesFrom]), right)
    this.#assertFew()
  }

  /** The keys of each lease are read from etcd, so leases count too. */
  #assertFew(): void {
    if (this.#rights.size + this.leases.size > MAX_RIGHTS) throw tooManyOperations()
  }

  put(request: Uint8Array): void {
    let key = '' as Key
    let lease = '0'
    let reads = false
    const readIf = (isSet: boolean): void => void (reads ||= isSet)
    decode(request, {
      lengths: { 1: (reader) => (key = keyIn(reader)), 2: (reader) => reader.bytes() },
      varints: {
        3: (reader) => (lease = String(reader.int64())),
        // The previous key-value, and a value or a lease that stays as it is.
        4: (reader) => readIf(reader.bool()),
        5: (reader) => readIf(reader.bool()),
        6: (reader) => readIf(reader.bool()),
      },
    })
    const range = this.#rangeOf(key, '' as Key)
    this.isWrite = true
    this.need('update', range)
    if (reads) this.need('read', range)
    if (lease !== '0') this.leases.add(lease)
    this.#assertFew()
  }

  delete(request: Uint8Array): void {
    let key = '' as Key
    let rangeEnd = '' as Key
    let reads = false
    decode(request, {
      lengths: { 1: (reader) => (key = keyIn(reader)), 2: (reader) => (rangeEnd = keyIn(reader)) },
      varints: { 3: (reader) => (reads = reader.bool()) },
    })
    const range = this.#rangeOf(key, rangeEnd)
    this.isWrite = true
    this.need('delete', range)
    if (reads) this.need('read', range)
  }

  transaction(request: Uint8Array): void {
    visitTransaction(request, {
      compare: (range) => this.need('read', range),
      range: ({ range }) => this.need('read', range),
      put: (bytes) => this.put(bytes),
      delete: (bytes) => this.delete(bytes),
    })
  }

  #rangeOf(key: Key, rangeEnd: Key): KeyRange {
    if (key === '') throw emptyKey()
    return keyRange(key, rangeEnd)
  }
}
