/**
 * The contents of a cache by key: an object that can be served, or a marker for a value that cannot. A new state is
 * built while the current one is still in use, and replaces it in one step.
 */
import { inOwnMemory, type Key, type KeyValue, keyToText } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { type Ingest, type StoredObject, type Unservable, isUnservable } from '../model/stored-object.js'
import type { Logger } from '../../support/log.js'
import { Scratch } from '../../support/scratch.js'
import { type Snapshot, Store } from './store.js'
import { canPack, loosened, MAX_VALUE_BYTES, Packer, packOf } from './pack.js'
import { recentEntries } from '../../support/recent-entries.js'

const ENCRYPTED =
  'its values are encrypted at rest with a key that this server does not have (--encryption-provider-config)'

/** Remembers this many keys whose values cannot be served, so that each is logged only once. */
const LOGGED_KEYS = 1_000

/**
 * Converts stored values into objects. For each key whose value cannot be served, logs that once. Until the state is
 * current, values may be read that were removed long ago; of those, only what is left then is logged.
 */
export class Ingester {
  #early: ReturnType<typeof recentEntries<Key, string>> | null = recentEntries(LOGGED_KEYS)
  readonly #loggedKeys = recentEntries<Key, true>(LOGGED_KEYS)

  constructor(
    readonly ingest: Ingest,
    private readonly resource: string,
    private readonly logger: Logger,
  ) {}

  /** @param left the keys whose values cannot be served now. */
  reportLeft(left: ReadonlyMap<Key, Revision>): void {
    const early = this.#early
    this.#early = null
    for (const key of left.keys()) {
      const reason = early?.get(key)
      if (reason !== undefined) this.reportUnservable(key, reason)
    }
  }

  reportUnservable(key: Key, reason: string): void {
    if (this.#early !== null) return void this.#early.set(key, reason)
    if (this.#loggedKeys.has(key)) return
    this.#loggedKeys.set(key, true)
    this.logger.warn({ resource: this.resource, key: keyToText(key), reason }, 'value cannot be served')
  }
}

/** Questions about the objects as they are now. A read takes a snapshot instead. */
export type Contents = Pick<
  HeldObjects,
  'size' | 'unservable' | 'encrypted' | 'sealedValues' | 'isAllProtobuf' | 'protobufTypes' | 'rawBytes'
>

interface Listing {
  readonly packer: Packer
  /** Memory for the object that is being listed. */
  readonly scratch: Scratch
  lastKey: string
}

export class HeldObjects {
  readonly store = new Store()
  readonly #unservable = new Map<Key, Revision>()
  /**
   * Keys with values that only the API server can decrypt, and the names of their encryption keys. While there are any,
   * nothing of the resource can be served.
   */
  readonly #encrypted = new Map<Key, string>()
  /**
   * Stored values that none of this server's encryption keys can decrypt yet, with the names of the encryption keys
   * that they need.
   */
  readonly #sealed = new Map<Key, { readonly keyValue: KeyValue; readonly encryptionKey: string }>()
  readonly #unreadable = new Map<Key, string>()
  #rawBytes = 0
  /** Not null only while a state is being listed. */
  #listing: Listing | null = null

  constructor(private readonly ingester: Ingester) {}

  /** The number of objects that can be served. */
  get size(): number {
    return this.store.size
  }

  /** Keys whose values cannot be served, with each value's revision. */
  get unservable(): ReadonlyMap<Key, Revision> {
    return this.#unservable
  }

  /** Bytes of the values that are also kept exactly as stored. */
  get rawBytes(): number {
    return this.#rawBytes
  }

  /** The number of values encrypted at rest that cannot be decrypted, by the name of their encryption key. */
  get encrypted(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    const names = [...this.#encrypted.values(), ...[...this.#sealed.values()].map((one) => one.encryptionKey)]
    for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
    return counts
  }

  /** Stored values that none of this server's encryption keys can decrypt. */
  get sealedValues(): readonly KeyValue[] {
    return [...this.#sealed.values()].map(({ keyValue }) => keyValue)
  }

  /** Whether there are objects, and all of them are stored as protobuf. */
  get isAllProtobuf(): boolean {
    let count = 0
    for (const objects of this.store.protobufTypes.values()) count += objects
    return count > 0 && count === this.size
  }

  /** The kinds of objects stored as protobuf: `schemaVersion typeName`, each once. */
  get protobufTypes(): Iterable<string> {
    return this.store.protobufTypes.keys()
  }

  /** The number of keys, including those whose values cannot be served. */
  countKeys(): number {
    return this.size + this.#unservable.size
  }

  /** Returns why the value under `key` cannot be decrypted; undefined if there is no such value. */
  sealedReason(key: Key): string | undefined {
    return this.#sealed.get(key)?.keyValue.sealed
  }

  snapshot(revision: Revision, history = ''): Snapshot {
    const unservable = this.#unservable.size - this.#sealed.size
    if (this.#sealed.size === 0) return this.store.snapshot(revision, unservable, history)
    const sealed = new Map(this.sealedValues.map((keyValue) => [keyValue.key, keyValue.sealed ?? '']))
    return this.store.snapshot(revision, unservable, history, sealed)
  }

  /** Why the resource as a whole cannot be served, for everybody; null if it can. */
  get withheldReason(): string | null {
    for (const { keyValue, encryptionKey } of this.#sealed.values())
      return `one of its values cannot be decrypted (its key is ${encryptionKey}): ${keyValue.sealed}`
    return this.unreadableReason
  }

  /** Why not even a part of the resource can be served; null if the parts without sealed values can. */
  get unreadableReason(): string | null {
    if (this.#encrypted.size > 0) return ENCRYPTED
    for (const reason of this.#unreadable.values()) return `one of its values cannot be read here: ${reason}`
    return null
  }

  /**
   * Like `put`, for the values of a list. They are packed if they come in key order. Call `listed` after the last
   * value.
   */
  list(keyValue: KeyValue): void {
    const listing = (this.#listing ??= { packer: new Packer(), scratch: new Scratch(MAX_VALUE_BYTES), lastKey: '' })
    listing.scratch.reset()
    const object = this.ingester.ingest(keyValue, listing.scratch)
    // A run cannot continue after this object, because no other object may be between those of a run.
    if (isUnservable(object) || !canPack(object) || object.key <= listing.lastKey) {
      this.#endPack(listing)
      if (isUnservable(object)) this.#putUnservable(keyValue, object)
      else this.keep(loosened(object))
    } else this.#pack(object, listing)
    if (keyValue.key > listing.lastKey) listing.lastKey = keyValue.key
  }

  listed(): void {
    if (this.#listing !== null) this.#endPack(this.#listing)
    this.#listing = null
  }

  #pack(object: StoredObject, listing: Listing): void {
    if (listing.packer.add(object)) return
    this.#endPack(listing)
    listing.packer.add(object)
  }

  #endPack({ packer }: Listing): void {
    const run = packer.take()
    if (run !== null) this.store.append(run)
  }

  /** @returns the object, or null for a value that cannot be served. */
  put(keyValue: KeyValue): StoredObject | null {
    const object = this.ingester.ingest(keyValue)
    if (isUnservable(object)) return this.#putUnservable(keyValue, object)
    this.keep(object)
    return object
  }

  #putUnservable(keyValue: KeyValue, object: Unservable): null {
    const { key } = keyValue
    this.#unservable.set(key, keyValue.modRevision)
    this.#replace(key, null)
    this.#admit(key)
    const { encryptionKey = '' } = object
    if (object.withholds === 'encrypted') this.#encrypted.set(key, encryptionKey)
    else if (object.withholds === 'sealed') this.#sealed.set(key, { keyValue: inOwnMemory(keyValue), encryptionKey })
    else this.ingester.reportUnservable(key, object.unservable)
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
    if (this.#sealed.size > 0) this.#sealed.delete(key)
    if (this.#unreadable.size > 0) this.#unreadable.delete(key)
  }

  #replace(key: Key, object: StoredObject | null): void {
    const before = this.store.get(key)
    if (object === null) this.store.delete(key)
    else this.store.set(key, object)
    if (before !== undefined) this.#leave(before)
    this.#rawBytes += (object?.raw?.length ?? 0) - (before?.raw?.length ?? 0)
  }

  /**
   * Unpacks a pack when most of it is unused. The remaining objects take little memory and are likely to be replaced
   * soon.
   */
  #leave(object: StoredObject): void {
    const pack = packOf(object)
    if (pack === null) return
    pack.usedBytes -= object.size
    if (pack.usedBytes * 4 < pack.valueBytes) this.store.unpack(pack)
  }

  /**
   * Returns a key of this later state that cannot belong to the history of `earlier`; null if there is none. Such an
   * object was created at or before `revision` but not held then, or last written at or before `revision` but different
   * from the held one. At the same revision, one that was held and is missing here is returned as well.
   * @param now the revision of this state.
   */
  contradictingKey(earlier: HeldObjects, revision: Revision, prefix: Key, now: Revision): Key | null {
    for (const object of this.store.snapshot(revision, 0).objects(prefix)) {
      const { key, modRevision, createRevision } = object
      if (createRevision > revision || earlier.unservable.has(key)) continue
      const held = earlier.store.get(key)
      if (held?.createRevision !== createRevision) return key
      if (modRevision > revision) continue
      if (held.modRevision !== modRevision || !isSameValue(held, object)) return key
    }
    for (const [key, modRevision] of this.#unservable) {
      if (modRevision <= revision && earlier.unservable.get(key) !== modRevision) return key
    }
    if (now > revision) return null
    for (const { key } of earlier.store.snapshot(revision, 0).objects(prefix)) {
      if (this.store.get(key) === undefined) return key
    }
    return null
  }
}

function isSameValue(one: StoredObject, other: StoredObject): boolean {
  return one.wholeChecksum === other.wholeChecksum && one.bytes.equals(other.bytes)
}
