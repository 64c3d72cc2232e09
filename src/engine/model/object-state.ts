/** All objects of one resource at one revision, as lists and initial states read them. A state never changes. */
import type { Key } from './event.js'
import type { Revision } from './revision.js'
import type { StoredObject } from './stored-object.js'

export interface ObjectState {
  readonly revision: Revision
  /** Yields the objects whose key starts with `prefix`, from `startKey` (inclusive) on, in key order. */
  objects(prefix: Key, startKey?: Key): Iterable<StoredObject>
  /**
   * Counts the keys that start with `prefix`, from `startKey` on. Yields now and then, so that the caller can let other
   * work run.
   */
  count(prefix: Key, startKey?: Key): Generator<void, number, void>
}
