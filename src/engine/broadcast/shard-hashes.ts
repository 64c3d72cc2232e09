/**
 * Decides whether an object is in a shard. The object's scope is in its key. Its identity is read once, and the first
 * bits of the identity's hash stay with the object. If identities were kept like other facts, every object would need its own row.
 */
import { containHash, containHead, type Hash, hashOf, headOf, type Shard, type ShardField } from '../model/shard.js'
import type { StoredObject } from '../model/stored-object.js'

export class ShardHashes {
  readonly #identityOf: (object: StoredObject) => string

  /** @param identityOf returns '' for an object without an identity. */
  constructor(identityOf: (object: StoredObject) => string) {
    this.#identityOf = identityOf
  }

  has(shard: Shard, object: StoredObject): boolean {
    return containHead(shard, this.head(shard.field, object)) ?? containHash(shard, this.#hash(shard.field, object))
  }

  /** Returns the first bits of the field's hash. */
  head(field: ShardField, object: StoredObject): number {
    if (field !== 'identity') return headOf(this.#hash(field, object))
    const { notes } = object
    if (notes.identityHead === -1) notes.identityHead = headOf(this.#hash(field, object))
    return notes.identityHead
  }

  /** As in Kubernetes, a missing identity or scope is hashed as ''. */
  #hash(field: ShardField, object: StoredObject): Hash {
    return hashOf(field === 'identity' ? this.#identityOf(object) : object.scope)
  }
}
