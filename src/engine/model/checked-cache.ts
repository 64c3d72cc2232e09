/** A cache as the consistency check sees it when it compares the cache with etcd. */
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

/** The compared data of one key. */
export interface CheckedKey {
  readonly key: Key
  readonly modRevision: Revision
  /**
   * The value in the form that `comparable` returns, made when it is read. Absent if the cache holds no value; such a
   * key is not sampled.
   */
  readonly value?: Buffer
}

export interface CheckedCache {
  /** The revision of etcd whose state the cache holds; null before the first list. */
  readonly revision: Revision | null
  /**
   * Returns what the cache held at exactly that revision, sorted by key; null if that state is not available, or not
   * yet. The result is a snapshot, because it is traversed while etcd's pages arrive and writes continue.
   */
  stateAt(revision: Revision): Iterable<CheckedKey> | null
  /**
   * Returns the bytes that the cache would hold for one of etcd's values; null if the cache would not hold that value.
   * Default: the value itself.
   */
  comparable?(keyValue: KeyValue): Buffer | null | Promise<Buffer | null>
}
