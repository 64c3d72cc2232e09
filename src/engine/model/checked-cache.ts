/** The interface of a cache that the consistency check compares with etcd. */
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

/** The part of one key that is compared. */
export interface CheckedKey {
  readonly key: Key
  readonly modRevision: Revision
  /** The value as `comparable` makes it of etcd's; absent where the cache holds none, and then it is not sampled. */
  readonly value?: Buffer
}

export interface CheckedCache {
  /** The cache holds what etcd held at this revision; null before the first list. */
  readonly revision: Revision | null
  /**
   * What the cache held at exactly that revision, sorted by key; null when it cannot tell any more, or yet. A snapshot:
   * it is gone through while etcd's pages come in, and writes go on meanwhile.
   */
  stateAt(revision: Revision): Iterable<CheckedKey> | null
  /**
   * The bytes that the cache would hold of a value of etcd's; null when it would hold none. Default: the value itself.
   */
  comparable?(keyValue: KeyValue): Buffer | null
}
