/** All objects of one resource at one revision, as lists and initial states read them. It never changes. */
import type { Key } from './event.js'
import type { Revision } from './revision.js'
import type { StoredObject } from './stored-object.js'

export interface ObjectState {
  readonly revision: Revision
  /** Objects whose key starts with `prefix`, from `startKey` (inclusive) on, in key order. */
  objects(prefix: Key, startKey?: Key): Iterable<StoredObject>
  /**
   * How many keys lie in [startKey, end of prefix). It yields now and then, so that the caller can make way for others.
   */
  count(prefix: Key, startKey?: Key): Generator<void, number, void>
}
