/** A cache as seen by the consistency check, which compares it with etcd. */
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

/** The compared part of one key. */
export interface CheckedKey {
  readonly key: Key
  readonly modRevision: Revision
  /**
   * The value in the form that `comparable` gives etcd's value; absent where the cache holds none, and then not
   * sampled.
   */
  readonly value?: Buffer
}

export interface CheckedCache {
  /** The revision of etcd whose state the cache holds; null before the first list. */
  readonly revision: Revision | null
  /**
   * Returns what the cache held at exactly that revision, sorted by key; null when it no longer knows, or does not know
   * yet. It is a snapshot, because it is traversed while etcd's pages arrive and writes continue.
   */
  stateAt(revision: Revision): Iterable<CheckedKey> | null
  /**
   * Returns the bytes that the cache would hold for one of etcd's values; null if it would hold none. Default: the
   * value itself.
   */
  comparable?(keyValue: KeyValue): Buffer | null | Promise<Buffer | null>
}
