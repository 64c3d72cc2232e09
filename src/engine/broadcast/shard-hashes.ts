/**
 * Decides whether an object is in a shard. The object's namespace is in its key. Its uid is read once, and the first
 * bits of the uid's hash stay with the object. If uids were kept like other facts, every object would need its own row.
 */
import { UID, uidOf } from './uid.js'
import { containHash, containHead, type Hash, hashOf, headOf, type Shard, type ShardPath } from '../model/shard.js'
import type { StoredObject } from '../model/stored-object.js'

export class ShardHashes {
  readonly #metadataOf: (object: StoredObject) => Buffer | null

  /** @param metadataOf returns JSON with at least the object's metadata; null when it cannot be read. */
  constructor(metadataOf: (object: StoredObject) => Buffer | null) {
    this.#metadataOf = metadataOf
  }

  has(shard: Shard, object: StoredObject): boolean {
    return containHead(shard, this.head(shard.path, object)) ?? containHash(shard, this.#hash(shard.path, object))
  }

  /** Returns the first bits of the field's hash. */
  head(path: ShardPath, object: StoredObject): number {
    if (path !== UID) return headOf(this.#hash(path, object))
    const { notes } = object
    if (notes.uidHead === -1) notes.uidHead = headOf(this.#hash(path, object))
    return notes.uidHead
  }

  /** As in Kubernetes, a missing uid or namespace is hashed as ''. */
  #hash(path: ShardPath, object: StoredObject): Hash {
    if (path !== UID) return hashOf(object.namespace)
    return hashOf(uidOf(this.#metadataOf(object)))
  }
}
