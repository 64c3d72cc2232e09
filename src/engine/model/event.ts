/** The contents of etcd and its changes, without anything of Kubernetes. */
import type { Revision } from './revision.js'

export type Key = string & { readonly __brand: 'Key' }

export interface KeyValue {
  readonly key: Key
  /**
   * In an event: a separate copy, or a slice of a message no larger than a few times its size. In a page of a list: a
   * slice of the response, which it keeps in memory; see `inOwnMemory`.
   */
  readonly value: Buffer
  readonly createRevision: Revision
  readonly modRevision: Revision
  /** Writes since the key was created, 1 for the first. */
  readonly version: number
  /** Decimal text, '0' for none; lease ids exceed 2^53. */
  readonly leaseId: string
  /**
   * Why the value cannot be decrypted; it is then as stored. Absent for every other value: see `value-transform.ts`.
   */
  readonly sealed?: string
}

export type KeyEvent =
  | { readonly type: 'put'; readonly keyValue: KeyValue }
  | { readonly type: 'delete'; readonly key: Key }

/** Every event of one revision, in etcd's order; never split between deliveries, never empty. */
export interface Batch {
  readonly revision: Revision
  readonly events: readonly KeyEvent[]
}

/** Memory up to this size, such as Node's pool, may be shared. */
const SHARED_BYTES = 16 * 1024

/** Returns a key-value whose value does not keep a much larger message alive. */
export function inOwnMemory(keyValue: KeyValue): KeyValue {
  const { value } = keyValue
  const held = value.buffer.byteLength
  return held <= SHARED_BYTES || held <= 2 * value.length ? keyValue : { ...keyValue, value: Buffer.from(value) }
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

/** Bytes that are not UTF-8 become U+FFFD, so the text is for display only. */
export function keyToText(key: Key): string {
  return Buffer.from(key, 'latin1').toString('utf8')
}

/**
 * Returns the first key after every key that starts with `prefix`: etcd's `range_end`. '\0' (to the end) if there is
 * none.
 */
export function prefixEnd(prefix: Key): Key {
  for (let i = prefix.length - 1; i >= 0; i--) {
    const unit = prefix.charCodeAt(i)
    if (unit < 0xff) return (prefix.slice(0, i) + String.fromCharCode(unit + 1)) as Key
  }
  return '\0' as Key
}
