/** All objects of one resource at one revision, as lists and initial states read them. Immutable. */
import type { Key } from './event.js'
import type { Revision } from './revision.js'
import type { StoredObject } from './stored-object.js'

export interface ObjectState {
  readonly revision: Revision
  /** Yields the objects whose key starts with `prefix`, from `startKey` (inclusive) on, in key order. */
  objects(prefix: Key, startKey?: Key): Iterable<StoredObject>
  /** Counts the keys in [startKey, end of prefix), yielding now and then so that the caller can let others run. */
  count(prefix: Key, startKey?: Key): Generator<void, number, void>
}
