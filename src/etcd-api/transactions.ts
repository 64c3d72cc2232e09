/**
 * Walks through a transaction, to find everything that it reads and writes: its compares, its operations in both
 * branches, and those of the transactions within it.
 */
import { MAX_TXN_DEPTH, MAX_TXN_OPERATIONS } from './limits.js'
import { type Key } from '../engine/model/event.js'
import { emptyKey, tooManyOperations } from './etcd-error.js'
import { type KeyRange, keyRange } from './key-range.js'
import { decode, decodeRange, keyIn, malformed, type RangeRequest } from './requests.js'

export interface TransactionVisitor {
  /** A compare reads, although it returns nothing but whether it holds. */
  compare(range: KeyRange): void
  range(request: RangeRequest): void
  put(request: Uint8Array): void
  delete(request: Uint8Array): void
}

/** @throws EtcdError for a transaction that cannot be read, has an empty key, or is too large. */
export function visitTransaction(request: Uint8Array, visitor: TransactionVisitor): void {
  let left = MAX_TXN_OPERATIONS
  const visit = (bytes: Uint8Array, depth: number): void => {
    if (depth > MAX_TXN_DEPTH) throw tooManyOperations()
    const operation = (op: Uint8Array): void => {
      if (left-- === 0) throw tooManyOperations()
      const kinds: (() => void)[] = []
      decode(op, {
        lengths: {
          1: (reader) => kinds.push(asRange(reader.bytes())),
          2: (reader) => kinds.push(asPut(reader.bytes())),
          3: (reader) => kinds.push(asDelete(reader.bytes())),
          4: (reader) => kinds.push(asTransaction(reader.bytes(), depth)),
        },
      })
      // Some versions of etcd merge two operations in one place, others take the last. Merged, they would reach keys
      // that neither names.
      if (kinds.length > 1) throw malformed()
      kinds[0]?.()
    }
    decode(bytes, {
      lengths: {
        1: (reader) => {
          if (left-- === 0) throw tooManyOperations()
          visitor.compare(comparedRange(reader.bytes()))
        },
        2: (reader) => operation(reader.bytes()),
        3: (reader) => operation(reader.bytes()),
      },
    })
  }
  const asRange = (bytes: Uint8Array) => () => visitor.range(decodeRange(bytes))
  const asPut = (bytes: Uint8Array) => () => visitor.put(bytes)
  const asDelete = (bytes: Uint8Array) => () => visitor.delete(bytes)
  const asTransaction = (bytes: Uint8Array, depth: number) => () => visit(bytes, depth + 1)
  visit(request, 1)
}

function comparedRange(bytes: Uint8Array): KeyRange {
  let key = '' as Key
  let rangeEnd = '' as Key
  decode(bytes, { lengths: { 3: (reader) => (key = keyIn(reader)), 64: (reader) => (rangeEnd = keyIn(reader)) } })
  if (key === '') throw emptyKey()
  return keyRange(key, rangeEnd)
}
