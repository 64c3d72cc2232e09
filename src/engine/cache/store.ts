/**
 * The latest object of every key, sorted by key. Snapshots cost almost nothing because the tree is copy-on-write, and
 * they keep a list and its pages consistent during writes.
 */
import { type Key, prefixEnd } from '../model/event.js'
import type { ObjectState } from '../model/object-state.js'
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import { ObjectTree } from './object-tree.js'
import type { Pack, Run } from './pack.js'

/** Counting this many entries takes a few microseconds. */
const ENTRIES_PER_YIELD = 256

/**
 * The number of objects stored as protobuf, by `schemaVersion typeName`, with one entry for each version in which some object
 * is stored.
 */
export type ProtobufTypes = ReadonlyMap<string, number>

const NONE_SEALED: ReadonlyMap<Key, string> = new Map()

/** Returns null if the prefix has no end. */
function endOf(prefix: Key): Key | null {
  const end = prefixEnd(prefix)
  return end === '\0' ? null : end
}

function protobufType(object: StoredObject): string {
  return `${object.schemaVersion} ${object.typeName}`
}

/** An immutable state at one revision. */
export class Snapshot implements ObjectState {
  readonly #tree: ObjectTree

  constructor(
    readonly revision: Revision,
    tree: ObjectTree,
    /** The number of keys whose values in etcd could not be served at that revision. */
    readonly unservableCount: number,
    readonly protobufTypes: ProtobufTypes,
    /** The name of the history to which the revision belongs; '' for a state that is used only for comparison. */
    readonly history: string,
    /** The keys whose values cannot be decrypted, with the reason for each. They are not among the objects. */
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
    return this.#tree.objects('' as Key, null)
  }

  /** Yields the objects whose key starts with `prefix`, from `startKey` (inclusive) on, in key order. */
  objects(prefix: Key, startKey: Key = prefix): Generator<StoredObject, void, void> {
    return this.#tree.objects(startKey < prefix ? prefix : startKey, endOf(prefix))
  }

  /** Counts the keys that start with `prefix`, from `startKey` on. O(n); yields every few hundred entries. */
  *count(prefix: Key, startKey: Key = prefix): Generator<void, number, void> {
    const { firstKey, lastKey } = this.#tree
    if (startKey <= prefix && firstKey?.startsWith(prefix) === true && lastKey?.startsWith(prefix) === true)
      return this.#tree.size
    let count = 0
    let entries = 0
    for (const objects of this.#tree.counts(startKey < prefix ? prefix : startKey, endOf(prefix))) {
      count += objects
      if (++entries % ENTRIES_PER_YIELD === 0) yield
    }
    return count
  }

  /** Returns a store that starts with this state. Changes to the store leave the snapshot untouched. */
  toStore(): Store {
    return new Store(this.#tree.clone(), new Map(this.protobufTypes))
  }
}

export class Store {
  readonly #tree: ObjectTree

  readonly #protobufTypes: Map<string, number>

  constructor(tree = new ObjectTree(), protobufTypes = new Map<string, number>()) {
    this.#tree = tree
    this.#protobufTypes = protobufTypes
  }

  get protobufTypes(): ProtobufTypes {
    return this.#protobufTypes
  }

  get size(): number {
    return this.#tree.size
  }

  get(key: Key): StoredObject | undefined {
    return this.#tree.get(key)
  }

  set(key: Key, object: StoredObject): void {
    this.#uncount(key)
    this.#count(object)
    this.#tree.set(key, object)
  }

  /** Adds a run whose keys come after all keys in the store. */
  append(run: Run): void {
    for (let place = run.from; place < run.to; place++) this.#count(run.pack.object(place))
    this.#tree.append(run)
  }

  /** Makes the remaining objects of a pack loose. */
  unpack(pack: Pack): void {
    this.#tree.unpack(pack)
  }

  delete(key: Key): void {
    this.#uncount(key)
    this.#tree.delete(key)
  }

  snapshot(revision: Revision, unservableCount: number, history = '', sealed = NONE_SEALED): Snapshot {
    return new Snapshot(revision, this.#tree.clone(), unservableCount, new Map(this.#protobufTypes), history, sealed)
  }

  #count(object: StoredObject): void {
    if (object.encoding !== 'protobuf') return
    const type = protobufType(object)
    this.#protobufTypes.set(type, (this.#protobufTypes.get(type) ?? 0) + 1)
  }

  #uncount(key: Key): void {
    if (this.#protobufTypes.size === 0) return
    const before = this.#tree.get(key)
    if (before?.encoding !== 'protobuf') return
    const type = protobufType(before)
    const count = this.#protobufTypes.get(type)! - 1
    if (count === 0) this.#protobufTypes.delete(type)
    else this.#protobufTypes.set(type, count)
  }
}
