/** The contents of etcd and its changes, without anything specific to Kubernetes. */
import { ownCopy } from '../../support/own-memory.js'
import type { Revision } from './revision.js'

export type Key = string & { readonly __brand: 'Key' }

export interface KeyValue {
  readonly key: Key
  /**
   * In an event, the value is a copy, which may be in Node's pool, or a slice of a message that is at most a few times
   * larger. In a page of a list, it is a slice of the response and keeps the response in memory; see `inOwnMemory`.
   */
  readonly value: Buffer
  readonly createRevision: Revision
  readonly modRevision: Revision
  /** The number of writes since the key was created; 1 for the first. */
  readonly version: number
  /** Decimal text, because lease ids exceed 2^53; '0' for no lease. */
  readonly leaseId: string
  /**
   * Why the value cannot be decrypted. If this is present, `value` is as stored. Absent for every other value; see
   * `value-transform.ts`.
   */
  readonly sealed?: string
}

export type KeyEvent =
  | { readonly type: 'put'; readonly keyValue: KeyValue }
  | { readonly type: 'delete'; readonly key: Key }

export function eventKey(event: KeyEvent): Key {
  return event.type === 'put' ? event.keyValue.key : event.key
}

/** Every event of one revision, in etcd's order. A batch is never split between deliveries and never empty. */
export interface Batch {
  readonly revision: Revision
  readonly events: readonly KeyEvent[]
}

/** Returns a key-value that can be kept for long: its value keeps at most twice its own size in memory. */
export function inOwnMemory(keyValue: KeyValue): KeyValue {
  const { value } = keyValue
  return value.buffer.byteLength <= 2 * value.length ? keyValue : { ...keyValue, value: ownCopy(value) }
}

/** Like `inOwnMemory`, for a batch. */
export function batchInOwnMemory({ revision, events }: Batch): Batch {
  const inOwn = (event: KeyEvent): KeyEvent =>
    event.type === 'put' ? { ...event, keyValue: inOwnMemory(event.keyValue) } : event
  return { revision, events: events.map(inOwn) }
}

export function keyFromText(text: string): Key {
  return Buffer.from(text, 'utf8').toString('latin1') as Key
}

export function keyFromBytes(bytes: Buffer): Key {
  return bytes.toString('latin1') as Key
}

export function keyToBytes(key: Key): Buffer {
  return Buffer.from(key, 'latin1')
}

/** Returns the key as text for display only, because bytes that are not UTF-8 become U+FFFD. */
export function keyToText(key: Key): string {
  return Buffer.from(key, 'latin1').toString('utf8')
}

/**
 * Returns etcd's `range_end` for a prefix: the first key after all keys that start with `prefix`. If there is no such
 * key, returns '\0', which means the end.
 */
export function prefixEnd(prefix: Key): Key {
  for (let i = prefix.length - 1; i >= 0; i--) {
    const unit = prefix.charCodeAt(i)
    if (unit < 0xff) return (prefix.slice(0, i) + String.fromCharCode(unit + 1)) as Key
  }
  return '\0' as Key
}
