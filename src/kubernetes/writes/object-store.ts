/**
 * Changes one object in etcd with a transaction that compares the mod revision at which the object was read. The
 * object is written as a whole or not at all, and never over a concurrent write. When another write comes first, the
 * failed transaction returns the current object, and the change is decided again without another read.
 *
 * Requests of this process for one key take turns, because racing each other would only cause conflicts and retries.
 */
import { createIngest, isCbor, isEncrypted } from '../codec/ingest.js'
import {
  encodeJsonTree,
  ensureRecord,
  isDeeperThan,
  isRecord,
  type JsonRecord,
  parseJsonTree,
  record,
  recordAt,
} from '../codec/json-tree.js'
import { keyValueObject } from '../dialect/key-value-object.js'
import { type ServedResource, storedApiVersion } from '../dialect/resource-registry.js'
import { extractFacts, planFacts } from '../../engine/facts/json-facts.js'
import type { Key, KeyValue } from '../../engine/model/event.js'
import { apiVersion, keyOfName, type ObjectName, type ApiResource } from '../model/api-resource.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { Revision } from '../../engine/model/revision.js'
import {
  BadRequestError,
  InternalError,
  NotImplementedError,
  RequestEntityTooLargeError,
  TimeoutError,
} from '../model/status.js'
import { StorageReadError } from '../model/status-of.js'
import { type Ingest, isUnservable, LooseObject, type StoredObject } from '../../engine/model/stored-object.js'
import type { Clock } from '../../support/clock.js'
import { sleep } from '../../support/clock.js'
import type { Random } from '../../support/random.js'
import { inTurns } from '../../support/turns.js'
import { isOwnLease } from '../../engine/upstream/lease-id.js'
import {
  type Compare,
  type Page,
  UpstreamError,
  type UpstreamReader,
  type UpstreamWriter,
  type WriteOperation,
  type WriteResult,
} from '../../engine/upstream/upstream.js'
import { KeySlots } from './key-slots.js'
import { storageError } from './storage-error.js'
import { oncePer } from '../../support/memo.js'
import { MAX_JSON_DEPTH } from '../model/limits.js'

export interface ObjectStoreOptions {
  readonly upstream: Pick<UpstreamReader, 'read' | 'readKey'> & UpstreamWriter
  readonly clock: Clock
  readonly random: Random
  /** Returns the JSON of a stored object in the served version, or null if it has none. */
  readonly jsonOf: (served: ServedResource, object: StoredObject) => Buffer | null
  readonly fillDefaults: (served: ServedResource, object: JsonRecord) => void
  readonly maxValueBytes: number
  /** Called when another write came first and the change is decided again. */
  readonly onRetry: () => void
}

export interface ObjectLocation extends ObjectName {
  readonly served: ServedResource
}

/** The object as currently stored. */
export interface Held {
  readonly stored: StoredObject
  /**
   * The object in the served version, with its resourceVersion and with the defaults that a read would fill in.
   * Stored objects may lack these defaults, and a write that changes nothing else does not add them. Copy the object
   * before changing it.
   */
  readonly object: JsonRecord
  /** Whether only a value is stored, so `object` is built from the value and its key. */
  readonly isBare: boolean
  /** Whether the object is stored as protobuf, which is read here and never written. */
  readonly isForeign: boolean
  /**
   * Whether the object is stored in an older version than new writes use. A write that changes nothing else migrates
   * it.
   */
  readonly isOldVersion: boolean
}

export type Change =
  /**
   * `value` is an object, or the bytes of a bare value. `lease` is called at write time, with the lease that etcd no
   * longer had at the previous attempt ('' for none), and returns '0' for none.
   */
  | { readonly kind: 'put'; readonly value: JsonRecord | Buffer; readonly lease: (lost: string) => Promise<string> }
  /** `last` is the state to return to the client. Default: the current one. */
  | { readonly kind: 'delete'; readonly last?: JsonRecord }
  | { readonly kind: 'none' }

/** @param before null if the object does not exist. @throws StatusError to reject the write. */
export type ConfirmPut = (before: JsonRecord | null, after: JsonRecord) => Promise<void>

/** Returns the comparison that fails once the object has changed. */
export function guardOf({ stored: { key, modRevision } }: Held): Compare {
  return { key, modRevision }
}

/** Replaces an object and keeps its lease. */
export function putAgain({ stored }: Held, value: JsonRecord): Change {
  return { kind: 'put', value, lease: () => Promise.resolve(stored.leaseId) }
}

export type Guards = () => Promise<readonly Compare[]>

export interface ChangeOptions {
  readonly dryRun?: boolean
  readonly confirm?: ConfirmPut | undefined
  /**
   * Called before each attempt to write.
   * @returns keys that must not change until the write is done.
   * @throws StatusError
   */
  readonly guards?: Guards | undefined
  /** Whether `decide` gets an unreadable value, or a value that another server has written, as a bare value. */
  readonly removes?: boolean
}

export interface StoredListOptions {
  /** Default: the first key under the prefix. */
  readonly startKey?: Key
  /** Default: the current state. */
  readonly revision?: Revision
  /** Called with the revision of the list before the first object. */
  readonly onRevision?: (revision: Revision) => void
}

export interface Changed {
  readonly kind: 'created' | 'updated' | 'deleted' | 'unchanged'
  /**
   * The object after the write. After a deletion, its last state at the revision of the deletion. null if there was
   * no object before and there is none now.
   */
  readonly stored: StoredObject | null
}

/** The object before a write, and what was decided to write. */
interface Decided {
  readonly place: ObjectLocation
  readonly key: Key
  /** null if the object does not exist. */
  readonly held: Held | null
  /** null for a deletion. */
  readonly value: Buffer | null
  /** The state to return after a deletion. */
  readonly last: JsonRecord | undefined
}

/**
 * A write that keeps losing to others for this long is abandoned, so that the client gets a 504 and not a hanging
 * request.
 */
const GIVE_UP_MS = 30_000
const DELETION_TIMESTAMP = 'metadata.deletionTimestamp'
const DELETION = planFacts([DELETION_TIMESTAMP])
/** How many retries after lost races happen without a pause. */
const QUICK_RETRIES = 3
const MAX_PAUSE_MS = 50

export class ObjectStore {
  readonly #options: ObjectStoreOptions
  readonly #slots = new KeySlots()
  /** Whether a transaction may compare several keys, as far as is known. */
  #comparesSeveral = true
  readonly #ingestOf = oncePer(({ resource }: ServedResource) =>
    createIngest({ resource, maxValueBytes: this.#options.maxValueBytes, wrap: keyValueObject }),
  )

  constructor(options: ObjectStoreOptions) {
    this.#options = options
  }

  /** A linearizable read, as in etcd. @throws StatusError */
  async read(place: ObjectLocation): Promise<Held | null> {
    return this.#held(place, await this.#readKey(keyOfName(place.served.resource, place)))
  }

  /**
   * Finds out whether an object is being deleted, without building its tree. Building the tree of a large definition
   * takes too long to repeat for each of its objects.
   * @returns null if there is no such object.
   * @throws StatusError
   */
  async readStanding(place: ObjectLocation): Promise<{ readonly guard: Compare; readonly isDeleting: boolean } | null> {
    const { served } = place
    const keyValue = await this.#readKey(keyOfName(served.resource, place))
    if (keyValue === null) return null
    const stored = this.#stored(served, keyValue)
    const json = stored === null ? null : this.#options.jsonOf(served, stored)
    const isDeleting = json !== null && extractFacts(json, DELETION).field(DELETION_TIMESTAMP) !== ''
    return { guard: { key: keyValue.key, modRevision: keyValue.modRevision }, isDeleting }
  }

  /** Returns the JSON of a stored object in the served version; null if it has none. */
  json(served: ServedResource, stored: StoredObject): Buffer | null {
    return this.#options.jsonOf(served, stored)
  }

  /** @throws StatusError when etcd refuses the write, or any error that `decide` throws. */
  async change(
    place: ObjectLocation,
    decide: (held: Held | null) => Change,
    options: ChangeOptions = {},
  ): Promise<Changed> {
    const key = keyOfName(place.served.resource, place)
    const release = await this.#slots.take(key)
    try {
      return await this.#decideAndWrite(place, key, decide, options)
    } finally {
      release()
    }
  }

  /**
   * Yields every object under a prefix, page by page, all at one revision, in time slices.
   *
   * @throws StorageReadError at an object that cannot be read, because skipping it could make a namespace look empty.
   */
  async *list(served: ServedResource, prefix: Key): AsyncGenerator<Held> {
    for await (const stored of this.listStored(served, prefix)) {
      const held = this.#heldOf(served, stored)
      if (held !== null) yield held
    }
  }

  /** `list` without reading the objects. */
  async *listStored(
    served: ServedResource,
    prefix: Key,
    { startKey: firstKey = prefix, revision: wanted, onRevision = () => {} }: StoredListOptions = {},
  ): AsyncGenerator<StoredObject> {
    let startKey = firstKey
    let revision: Revision | null = null
    for (;;) {
      const at: Revision | undefined = revision ?? wanted
      const page: Page = await this.#fromStorage(() =>
        this.#options.upstream.read({ prefix, startKey, limit: 500, ...(at === undefined ? {} : { revision: at }) }),
      )
      if (revision === null) onRevision((revision = page.revision))
      for await (const keyValue of inTurns(page.keyValues)) {
        const stored = this.#ingested(served, keyValue)
        if (!isUnservable(stored)) yield stored
        else if (stored.withholds !== undefined) throw StorageReadError.ofObject(keyValue.key, stored.unservable)
      }
      const last = page.keyValues.at(-1)
      if (!page.more || last === undefined) return
      startKey = `${last.key}\0` as Key
    }
  }

  async #decideAndWrite(
    place: ObjectLocation,
    key: Key,
    decide: (held: Held | null) => Change,
    { dryRun = false, confirm, guards, removes = false }: ChangeOptions,
  ): Promise<Changed> {
    const { clock, random, onRetry } = this.#options
    const startedMs = clock.monotonic()
    let current = await this.#readKey(key)
    let granted = '0'
    let lost = ''
    try {
      for (let attempt = 1; ; attempt++) {
        const held = removes ? this.#heldOrRaw(place, current) : this.#held(place, current)
        const change = decide(held)
        if (change.kind === 'none') return { kind: 'unchanged', stored: held?.stored ?? null }
        if (held?.isForeign === true) throw notOurs(place, 'as protobuf, by a kube-apiserver')
        const value = change.kind === 'put' ? this.#bytesOf(change.value, place.served) : null
        if (change.kind === 'put' && !Buffer.isBuffer(change.value)) await confirm?.(held?.object ?? null, change.value)
        const last = change.kind === 'delete' ? (change.last ?? held?.object) : held?.object
        const decided = { place, key, held, value, last }
        if (dryRun) return this.#outcome(decided, '0', held?.stored.modRevision ?? null)
        const leaseId = change.kind === 'put' ? await change.lease(lost) : '0'
        if (leaseId !== current?.leaseId) granted = leaseId
        const guarded = (await guards?.()) ?? []
        try {
          const result = await this.#write(
            [{ key, modRevision: current?.modRevision ?? (0 as Revision) }, ...guarded],
            [value === null ? { type: 'delete', key } : { type: 'put', key, value, leaseId }],
          )
          if (result.kind === 'written') {
            if (current !== null && current.leaseId !== leaseId) await this.#dropLease(current.leaseId)
            granted = '0'
            return this.#outcome(decided, leaseId, result.revision)
          }
          current = result.current[0] ?? null
        } catch (error) {
          const code = error instanceof UpstreamError ? error.code : null
          // etcd may still write the object, and would remove it along with its lease.
          if (code === 'unavailable' || code === 'protocol') granted = '0'
          if (code !== 'lease-not-found') throw storageError(error, 'write')
          // The lease expired before the write, and etcd has removed what had it.
          lost = leaseId
          current = await this.#readKey(key)
        }
        onRetry()
        if (clock.monotonic() - startedMs > GIVE_UP_MS) {
          throw new TimeoutError(`Timeout: other writers keep changing this object; gave up after ${attempt} attempts`)
        }
        if (attempt > QUICK_RETRIES) await sleep(clock, random.next() * MAX_PAUSE_MS)
      }
    } finally {
      await this.#dropLease(granted)
    }
  }

  /**
   * Writes if the first key and all others are as compared. kine refuses to compare more than one. There, as in the API
   * server itself, the guards are only known to have held just before.
   */
  async #write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    const { upstream } = this.#options
    const first = compares.slice(0, 1)
    if (!this.#comparesSeveral) return await upstream.write(first, operations)
    try {
      return await upstream.write(compares, operations)
    } catch (error) {
      const isRefused = error instanceof UpstreamError && error.code === 'unsupported'
      if (!isRefused || compares.length === 1) throw error
      this.#comparesSeveral = false
      return await upstream.write(first, operations)
    }
  }

  /** @throws RequestEntityTooLargeError for a value too large to be read back; BadRequestError, see `bytesOf`. */
  #bytesOf(value: JsonRecord | Buffer, served: ServedResource): Buffer {
    const bytes = bytesOf(value, served)
    const { maxValueBytes } = this.#options
    if (bytes.length <= maxValueBytes) return bytes
    throw new RequestEntityTooLargeError(
      `Request entity too large: the object would take ${bytes.length} bytes, and the limit is ${maxValueBytes}`,
    )
  }

  /** Revokes a lease that a write has granted and no key uses any more. A failure here does not fail the write. */
  async #dropLease(leaseId: string): Promise<void> {
    if (!isOwnLease(leaseId)) return
    try {
      await this.#options.upstream.dropLease(leaseId)
    } catch (error) {
      // The lease expires by itself within a year.
      if (!(error instanceof UpstreamError)) throw error
    }
  }

  /** @param revision null if nothing was written and there was no object. */
  #outcome({ place, key, held, value, last }: Decided, leaseId: string, revision: Revision | null): Changed {
    const kind = value === null ? 'deleted' : held === null ? 'created' : 'updated'
    // A dry run of a create has no revision yet, so its response has none either.
    const modRevision = revision ?? (0 as Revision)
    // `last` already wraps a bare value, so encoding it here would wrap the value a second time.
    if (value === null && held?.isBare === true)
      return { kind, stored: Object.assign(new LooseObject(held.stored), { modRevision }) }
    const bytes = value ?? (last === undefined ? null : encodeJsonTree(last))
    if (bytes === null) return { kind, stored: null }
    const stored = this.#stored(place.served, {
      key,
      value: bytes,
      createRevision: held?.stored.createRevision ?? modRevision,
      modRevision,
      version: (held?.stored.version ?? 0) + (value === null ? 0 : 1),
      leaseId,
    })
    if (stored === null) throw new InternalError('the written object cannot be read back')
    return { kind, stored }
  }

  #held(place: ObjectLocation, keyValue: KeyValue | null): Held | null {
    if (keyValue === null) return null
    if (keyValue.sealed !== undefined) throw StorageReadError.ofObject(keyValue.key, keyValue.sealed)
    const stored = this.#stored(place.served, keyValue)
    const held = stored === null ? null : this.#heldOf(place.served, stored)
    if (held !== null) return held
    throw notOurs(place, 'in a form that cannot be read')
  }

  /**
   * Returns the stored value in a form in which any value can be removed. Values that a kube-apiserver owns (protobuf,
   * CBOR, encrypted) are left to it, except under a declared prefix.
   */
  #heldOrRaw(place: ObjectLocation, keyValue: KeyValue | null): Held | null {
    if (keyValue === null) return null
    const { served } = place
    const isDeclared = served.origin === 'declared'
    const stored = this.#stored(served, keyValue)
    const held = stored === null ? null : this.#heldOf(served, stored)
    if (held !== null) return isDeclared ? { ...held, isForeign: false } : held
    if (keyValue.sealed !== undefined) throw StorageReadError.ofObject(keyValue.key, keyValue.sealed)
    if (!isDeclared && isEncrypted(keyValue.value)) throw notOurs(place, 'encrypted')
    if (!isDeclared && isCbor(keyValue.value)) throw notOurs(place, 'as CBOR, by a kube-apiserver')
    const raw = rawObject(served.resource, place, keyValue)
    const whole = isDeclared ? null : objectIn(keyValue)
    // Its finalizers count, although it cannot be served: with its defaults it may be too large.
    if (whole !== null) return { stored: raw, object: whole, isBare: false, isForeign: false, isOldVersion: false }
    const object = record({ metadata: record({ resourceVersion: formatResourceVersion(keyValue.modRevision) }) })
    return { stored: raw, object, isBare: true, isForeign: false, isOldVersion: false }
  }

  #heldOf(served: ServedResource, stored: StoredObject): Held | null {
    const json = this.#options.jsonOf(served, stored)
    const object = json === null ? null : parseJsonTree(json).value
    if (!isRecord(object)) return null
    const metadata = ensureRecord(object, 'metadata')
    metadata['resourceVersion'] = formatResourceVersion(stored.modRevision)
    this.#options.fillDefaults(served, object)
    const isBare = served.resource.holds === 'values'
    const isOldVersion = served.definition !== null && stored.schemaVersion !== storedApiVersion(served)
    return { stored, object, isBare, isForeign: stored.encoding === 'protobuf', isOldVersion }
  }

  #stored(served: ServedResource, keyValue: KeyValue): StoredObject | null {
    const stored = this.#ingested(served, keyValue)
    return isUnservable(stored) ? null : stored
  }

  #ingested(served: ServedResource, keyValue: KeyValue): ReturnType<Ingest> {
    return this.#ingestOf(served)(keyValue)
  }

  #readKey(key: Key): Promise<KeyValue | null> {
    return this.#fromStorage(() => this.#options.upstream.readKey(key))
  }

  async #fromStorage<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      throw storageError(error, 'read')
    }
  }
}

/** Returns the object as it is stored; null if the value is none. */
function objectIn({ value, modRevision }: KeyValue): JsonRecord | null {
  try {
    const object = parseJsonTree(value).value
    const metadata = recordAt(object, 'metadata')
    if (!isRecord(object) || metadata === null) return null
    metadata['resourceVersion'] = formatResourceVersion(modRevision)
    return object
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** Wraps a value that may consist of any bytes. */
function rawObject(resource: ApiResource, named: ObjectName, keyValue: KeyValue): StoredObject {
  const type = { encoding: 'json', schemaVersion: apiVersion(resource), typeName: resource.kind } as const
  const { namespace: scope, name } = named
  return new LooseObject({ ...keyValue, scope, name, ...type, ...keyValueObject(resource, named, keyValue) })
}

function notOurs({ served, name }: ObjectLocation, form: string): NotImplementedError {
  return new NotImplementedError(
    `${served.resource.plural} ${JSON.stringify(name)} is stored ${form}, and cannot be changed here: use the API server that wrote it`,
  )
}

/**
 * Returns the bytes to store. The type comes first, where lists expect it. The versions of a definition differ only
 * in their type here, because the conversion is `None`. The resourceVersion is etcd's and is not stored.
 *
 * @throws BadRequestError when the object is nested deeper than stored objects can be read. Managed fields nest as
 * deep as the object.
 */
function bytesOf(value: JsonRecord | Buffer, served: ServedResource): Buffer {
  if (Buffer.isBuffer(value)) return value
  const ordered = record()
  for (const name of ['kind', 'apiVersion', 'metadata']) if (value[name] !== undefined) ordered[name] = value[name]
  for (const name in value) ordered[name] = value[name]!
  if (served.definition !== null) ordered['apiVersion'] = storedApiVersion(served)
  const metadata = record(isRecord(value['metadata']) ? value['metadata'] : {})
  delete metadata['resourceVersion']
  ordered['metadata'] = metadata
  if (isDeeperThan(ordered, MAX_JSON_DEPTH)) {
    throw new BadRequestError(`the object is nested more than ${MAX_JSON_DEPTH} deep, managed fields included`)
  }
  return encodeJsonTree(ordered)
}
