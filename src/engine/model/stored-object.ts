/**
 * One version of an object as the cache keeps it: its encoded bytes and the offset for the resourceVersion. Nothing is
 * parsed except the few facts that selectors in use need. A parsed tree per object would take several times as much
 * memory as the bytes, and would keep the garbage collector busy all the time.
 */
import type { Scratch } from '../../support/scratch.js'
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

export interface StoredObject {
  readonly key: Key
  readonly scope: string
  readonly name: string
  readonly createRevision: Revision
  readonly modRevision: Revision
  readonly version: number
  readonly leaseId: string
  readonly encoding: 'json' | 'protobuf'
  /**
   * As stated in the bytes; '' if the bytes do not contain it. These strings are shared, because many objects have the
   * same ones.
   */
  readonly schemaVersion: string
  readonly typeName: string
  /** `json` only: the offset just after the `{` of `metadata`, where `"resourceVersion":"N"` is inserted. */
  readonly revisionOffset: number
  /** The number of bytes. */
  readonly size: number
  /**
   * `json`: one compact JSON object without `metadata.resourceVersion`. `protobuf`: the `k8s\0` envelope as stored. The
   * bytes are in separate memory or in a pack, never a slice of a message. Each access may create a new view, so access
   * this once.
   */
  readonly bytes: Buffer
  /**
   * The CRC-32 of the whole value if parts of it were left out, so that checks against the source still notice a
   * difference in those; 0 if none was.
   */
  readonly wholeChecksum: number
  /**
   * Values that other modules keep for this version of the object. Use the notes, not the object, as the key of a
   * `WeakMap`: an object in a pack is a new JavaScript object each time it is read, but its notes stay the same.
   */
  readonly notes: ObjectNotes
  /** The value exactly as stored, for a resource whose clients also get that. Absent for all others. */
  readonly raw?: Buffer
}

export interface ObjectNotes {
  /**
   * The facts that the selectors in use read. Only `engine/broadcast/fact-registry.ts` sets them, and it checks that
   * they are still valid.
   */
  facts: object | null
  /**
   * The rules of a definition, or the schema, that the bytes already satisfy. Only `kubernetes/codec/object-views.ts`
   * sets it.
   */
  conformsTo: object | null
  /** The first 31 bits of the identity's hash; -1 until `engine/broadcast/shard-hashes.ts` first needs them. */
  identityHead: number
}

type LooseContent = Omit<StoredObject, 'size' | 'notes' | 'wholeChecksum'> &
  Partial<Pick<StoredObject, 'wholeChecksum'>>

/** An object that is not in a pack. Listed objects are kept in packs; see `engine/cache/pack.ts`. */
export class LooseObject implements StoredObject, ObjectNotes {
  readonly key: Key
  readonly scope: string
  readonly createRevision: Revision
  readonly modRevision: Revision
  readonly version: number
  readonly leaseId: string
  readonly encoding: 'json' | 'protobuf'
  readonly schemaVersion: string
  readonly typeName: string
  readonly bytes: Buffer
  readonly revisionOffset: number
  readonly wholeChecksum: number
  facts: object | null = null
  conformsTo: object | null = null
  identityHead = -1
  declare readonly raw?: Buffer
  /** The offset of the name in the key, or the name itself if the key does not end in it. */
  private readonly named: string | number

  constructor(object: LooseContent) {
    const { key, name } = object
    this.key = key
    this.scope = object.scope
    this.createRevision = object.createRevision
    this.modRevision = object.modRevision
    this.version = object.version
    this.leaseId = object.leaseId
    this.encoding = object.encoding
    this.schemaVersion = object.schemaVersion
    this.typeName = object.typeName
    this.bytes = object.bytes
    this.revisionOffset = object.revisionOffset
    this.wholeChecksum = object.wholeChecksum ?? 0
    this.named = key.endsWith(name) ? key.length - name.length : name
    // Few resources have it, and the objects of all others stay smaller without.
    if (object.raw !== undefined) this.raw = object.raw
  }

  get name(): string {
    const { named } = this
    return typeof named === 'number' ? this.key.slice(named) : named
  }

  get size(): number {
    return this.bytes.length
  }

  get notes(): ObjectNotes {
    return this
  }
}

/**
 * A value that cannot be served because it is encrypted at rest, has an unknown encoding, exceeds the size limit, or
 * has a stray key. Such a value is counted and logged once, never silently ignored.
 */
export interface Unservable {
  readonly unservable: string
  /**
   * Set for the value of an object that the cluster stored. Without the object, a list would look complete and a watch
   * would report it deleted, so nothing of the resource is served while such a value exists. `encrypted`: only the
   * cluster has the key. `sealed`: the key is missing here.
   */
  readonly withholds?: 'encrypted' | 'sealed' | 'unreadable'
  /** The name of an encrypted value's key, with its provider, such as `aescbc:v1:key1`. */
  readonly encryptionKey?: string
}

export function isUnservable(value: StoredObject | Unservable): value is Unservable {
  return 'unservable' in value
}

/**
 * Reads a stored value.
 * @param scratch optional memory for the object's bytes, for a caller that copies them elsewhere before it reads the
 * next value. Without it, the bytes get separate memory.
 */
export type Ingest = (keyValue: KeyValue, scratch?: Scratch) => StoredObject | Unservable
