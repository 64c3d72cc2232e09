/**
 * The latest object of every key, sorted by key, with snapshots that cost almost nothing: the tree is copy-on-write, so
 * a list and its pages stay consistent during writes.
 */
import { createSortedMap, type SortedMap } from '../../support/sorted-map.js'
import { type Key, prefixEnd } from '../model/event.js'
import type { ObjectState } from '../model/object-state.js'
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'

type Tree = SortedMap<Key, StoredObject>

/** A few microseconds of counting. */
const KEYS_PER_YIELD = 256

/**
 * The number of objects stored as protobuf, by `apiVersion kind`: one entry for each storage version that has occurred.
 */
export type ProtobufKinds = ReadonlyMap<string, number>

const NONE_SEALED: ReadonlyMap<Key, string> = new Map()

function protobufKind(object: StoredObject): string {
  return `${object.apiVersion} ${object.kind}`
}

/** An immutable state at one revision. */
export class Snapshot implements ObjectState {
  readonly #tree: Tree

  constructor(
    readonly revision: Revision,
    tree: Tree,
    /** The number of keys in etcd that could not be served at that time. */
    readonly unservableCount: number,
    readonly protobufKinds: ProtobufKinds,
    /** The name of the history to which the revision belongs; '' for a state that is only used for comparison. */
    readonly history: string,
    /** The keys whose values no key opens, which are not among the objects, with the reason of each. */
    readonly sealed: ReadonlyMap<Key, string>,
  ) {
    this.#tree = tree
  }

  get size(): number {
    return this.#tree.size
  }

  get(key: Key): StoredObject | undefined {
    return this.#tree.get(key)
  }

  /** Yields all objects, in key order. */
  all(): Iterable<StoredObject> {
    return this.#tree.values()
  }

  /** Yields the objects whose key starts with `prefix`, from `startKey` (inclusive) on, in key order. */
  *objects(prefix: Key, startKey: Key = prefix): Generator<StoredObject, void, void> {
    const end = prefixEnd(prefix)
    for (const [key, object] of this.#tree.entries(startKey < prefix ? prefix : startKey)) {
      if (key >= end && end !== '\0') return
      yield object
    }
  }

  /** Counts the keys in [startKey, end of prefix). O(n); yields every few hundred. */
  *count(prefix: Key, startKey: Key = prefix): Generator<void, number, void> {
    if (startKey <= prefix && this.#tree.size > 0 && this.#tree.minKey()!.startsWith(prefix)) {
      if (this.#tree.maxKey()!.startsWith(prefix)) return this.#tree.size
    }
    const end = prefixEnd(prefix)
    let count = 0
    for (const key of this.#tree.keys(startKey < prefix ? prefix : startKey)) {
      if (key >= end && end !== '\0') break
      if (++count % KEYS_PER_YIELD === 0) yield
    }
    return count
  }

  /** Returns a store that starts as this state and leaves the snapshot untouched. */
  toStore(): Store {
    return new Store(this.#tree.clone(), new Map(this.protobufKinds))
  }
}

export class Store {
  readonly #tree: Tree

  readonly #protobufKinds: Map<string, number>

  constructor(tree: Tree = createSortedMap<Key, StoredObject>(), protobufKinds = new Map<string, number>()) {
    this.#tree = tree
    this.#protobufKinds = protobufKinds
  }

  get protobufKinds(): ProtobufKinds {
    return this.#protobufKinds
  }

  get size(): number {
    return this.#tree.size
  }

  get(key: Key): StoredObject | undefined {
    return this.#tree.get(key)
  }

  set(key: Key, object: StoredObject): void {
    this.#uncount(key)
    if (object.encoding === 'protobuf') {
      const kind = protobufKind(object)
      this.#protobufKinds.set(kind, (this.#protobufKinds.get(kind) ?? 0) + 1)
    }
    this.#tree.set(key, object)
  }

  delete(key: Key): void {
    this.#uncount(key)
    this.#tree.delete(key)
  }

  snapshot(revision: Revision, unservableCount: number, history = '', sealed = NONE_SEALED): Snapshot {
    return new Snapshot(revision, this.#tree.clone(), unservableCount, new Map(this.#protobufKinds), history, sealed)
  }

  #uncount(key: Key): void {
    if (this.#protobufKinds.size === 0) return
    const before = this.#tree.get(key)
    if (before?.encoding !== 'protobuf') return
    const kind = protobufKind(before)
    const count = this.#protobufKinds.get(kind)! - 1
    if (count === 0) this.#protobufKinds.delete(kind)
    else this.#protobufKinds.set(kind, count)
  }
}
