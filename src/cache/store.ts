/**
 * The latest object of every key, sorted by key, with snapshots that cost next to nothing: the tree is copied on write,
 * so a list and its pages stay consistent while writes go on.
 */
import BTreeModule from 'sorted-btree'
import { type Key, prefixEnd } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'

const BTree = BTreeModule.default
type Tree = BTreeModule.default<Key, StoredObject>

/** Byte order, as in etcd: keys are binary strings. */
function compareKeys(a: Key, b: Key): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** An immutable state at one revision. */
export class Snapshot {
  readonly #tree: Tree

  constructor(
    readonly revision: Revision,
    tree: Tree,
    /** Keys present in etcd that could not be served at that time. */
    readonly unservableCount: number,
    /** How many objects are stored as protobuf. */
    readonly protobufCount: number,
  ) {
    this.#tree = tree
  }

  get size(): number {
    return this.#tree.size
  }

  get(key: Key): StoredObject | undefined {
    return this.#tree.get(key)
  }

  /** Objects whose key starts with `prefix`, from `startKey` (inclusive) on, in key order. */
  *objects(prefix: Key, startKey: Key = prefix): Generator<StoredObject, void, void> {
    const end = prefixEnd(prefix)
    for (const [key, object] of this.#tree.entries(startKey < prefix ? prefix : startKey)) {
      if (key >= end && end !== '\0') return
      yield object
    }
  }

  /** How many keys lie in [startKey, end of prefix). O(n) in that number. */
  count(prefix: Key, startKey: Key = prefix): number {
    if (startKey <= prefix && this.#tree.size > 0 && this.#tree.minKey()!.startsWith(prefix)) {
      if (this.#tree.maxKey()!.startsWith(prefix)) return this.#tree.size
    }
    const end = prefixEnd(prefix)
    let count = 0
    for (const key of this.#tree.keys(startKey < prefix ? prefix : startKey)) {
      if (key >= end && end !== '\0') break
      count++
    }
    return count
  }

  /** A store that starts as this state and leaves it untouched. */
  toStore(): Store {
    return new Store(this.#tree.clone(), this.protobufCount)
  }
}

export class Store {
  readonly #tree: Tree

  #protobufCount: number

  constructor(tree: Tree = new BTree<Key, StoredObject>(undefined, compareKeys), protobufCount = 0) {
    this.#tree = tree
    this.#protobufCount = protobufCount
  }

  get protobufCount(): number {
    return this.#protobufCount
  }

  get size(): number {
    return this.#tree.size
  }

  get(key: Key): StoredObject | undefined {
    return this.#tree.get(key)
  }

  set(key: Key, object: StoredObject): void {
    if (this.#protobufCount > 0 && this.#tree.get(key)?.encoding === 'protobuf') this.#protobufCount--
    if (object.encoding === 'protobuf') this.#protobufCount++
    this.#tree.set(key, object)
  }

  delete(key: Key): void {
    if (this.#protobufCount > 0 && this.#tree.get(key)?.encoding === 'protobuf') this.#protobufCount--
    this.#tree.delete(key)
  }

  snapshot(revision: Revision, unservableCount: number): Snapshot {
    return new Snapshot(revision, this.#tree.clone(), unservableCount, this.#protobufCount)
  }
}
