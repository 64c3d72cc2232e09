/**
 * The contents of a cache by key: an object that can be served, or a marker for a value that cannot. A new state is
 * built beside the current one and replaces it in one step.
 */
import { type Key, type KeyValue, keyToText } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { type Ingest, type StoredObject, isUnservable } from '../model/stored-object.js'
import type { Logger } from '../../support/log.js'
import type { Scratch } from '../../support/scratch.js'
import { Store } from './store.js'
import { ValueSlabs } from './value-slabs.js'
import { recentEntries } from '../../support/recent-entries.js'

const ENCRYPTED =
  "its values are encrypted at rest, and the key is the API server's (--encryption-provider-config there)"

/** A key that cannot be served is logged once, up to this many keys. */
const LOGGED_KEYS = 1_000

/** Converts stored values into objects, and logs each key that cannot be served once. */
export class Ingester {
  readonly #loggedKeys = recentEntries<Key, true>(LOGGED_KEYS)

  constructor(
    readonly ingest: Ingest,
    private readonly resource: string,
    private readonly logger: Logger,
  ) {}

  tellUnservable(key: Key, reason: string): void {
    if (this.#loggedKeys.has(key)) return
    this.#loggedKeys.set(key, true)
    this.logger.warn({ resource: this.resource, key: keyToText(key), reason }, 'value cannot be served')
  }
}

export class HeldObjects {
  readonly store = new Store()
  readonly #unservable = new Map<Key, Revision>()
  /** Keys of values because of which nothing of the resource is served. */
  readonly #encrypted = new Set<Key>()
  readonly #unreadable = new Map<Key, string>()
  readonly #slabs = new ValueSlabs()
  readonly #current = (key: Key): StoredObject | undefined => this.store.get(key)

  constructor(private readonly ingester: Ingester) {}

  /** Keys whose values cannot be served, with each value's revision. */
  get unservable(): ReadonlyMap<Key, Revision> {
    return this.#unservable
  }

  get encryptedCount(): number {
    return this.#encrypted.size
  }

  /** Why nothing of the resource can be served; null if it can. */
  get withheldReason(): string | null {
    if (this.#encrypted.size > 0) return ENCRYPTED
    for (const reason of this.#unreadable.values()) return `one of its values cannot be read here: ${reason}`
    return null
  }

  /** Like `put`, for the values of a list, which share memory. Call `listed` after the last. */
  list(keyValue: KeyValue): void {
    const { scratch } = this.#slabs
    scratch.reset()
    const object = this.put(keyValue, scratch)
    if (object !== null) this.#slabs.add(object)
  }

  listed(): void {
    this.#slabs.seal()
  }

  /** @returns the object, or null for a value that cannot be served. */
  put(keyValue: KeyValue, scratch?: Scratch): StoredObject | null {
    const { key } = keyValue
    const object = this.ingester.ingest(keyValue, scratch)
    if (!isUnservable(object)) {
      this.keep(object)
      return object
    }
    this.#unservable.set(key, keyValue.modRevision)
    this.#replace(key, null)
    this.#admit(key)
    if (object.withholds === 'encrypted') this.#encrypted.add(key)
    else this.ingester.tellUnservable(key, object.unservable)
    if (object.withholds === 'unreadable') this.#unreadable.set(key, object.unservable)
    return null
  }

  /** Adds an object that has already been read. */
  keep(object: StoredObject): void {
    if (this.#unservable.size > 0) this.#unservable.delete(object.key)
    this.#admit(object.key)
    this.#replace(object.key, object)
  }

  delete(key: Key): void {
    this.#replace(key, null)
    this.#unservable.delete(key)
    this.#admit(key)
  }

  #admit(key: Key): void {
    if (this.#encrypted.size > 0) this.#encrypted.delete(key)
    if (this.#unreadable.size > 0) this.#unreadable.delete(key)
  }

  #replace(key: Key, object: StoredObject | null): void {
    const before = this.#slabs.size === 0 ? undefined : this.store.get(key)
    if (object === null) this.store.delete(key)
    else this.store.set(key, object)
    if (before !== undefined) this.#slabs.leave(before, this.#current)
  }

  /**
   * Returns a key of this later state that cannot belong to the history of `earlier`: created at or before `revision`
   * but not held then, or last written at or before `revision` but different from what was held. null if there is none.
   */
  strangerTo(earlier: HeldObjects, revision: Revision, prefix: Key): Key | null {
    for (const { key, modRevision, createRevision, bytes } of this.store.snapshot(revision, 0).objects(prefix)) {
      if (createRevision > revision || earlier.unservable.has(key)) continue
      const held = earlier.store.get(key)
      if (held?.createRevision !== createRevision) return key
      if (modRevision > revision) continue
      if (held.modRevision !== modRevision || !held.bytes.equals(bytes)) return key
    }
    for (const [key, modRevision] of this.#unservable) {
      if (modRevision <= revision && earlier.unservable.get(key) !== modRevision) return key
    }
    return null
  }
}
