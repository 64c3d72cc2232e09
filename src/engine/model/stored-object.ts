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
  readonly namespace: string
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
  readonly apiVersion: string
  readonly kind: string
  /** `json` only: the offset just after the `{` of `metadata`, where `"resourceVersion":"N"` is inserted. */
  readonly metadataOffset: number
  /** The number of bytes. */
  readonly size: number
  /**
   * `json`: one compact JSON object without `metadata.resourceVersion`. `protobuf`: the `k8s\0` envelope as stored. The
   * bytes are in separate memory or in a pack, never a slice of a message. Each access may create a new view, so access
   * this once.
   */
  readonly bytes: Buffer
  /**
   * Values that other modules keep for this version of the object. Use the notes, not the object, as the key of a
   * `WeakMap`: an object in a pack is a new JavaScript object each time it is read, but its notes stay the same.
   */
  readonly notes: ObjectNotes
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
  /** The first 31 bits of the uid's hash; -1 until `engine/broadcast/shard-hashes.ts` first needs them. */
  uidHead: number
}

/** An object that is not in a pack. Listed objects are kept in packs; see `engine/cache/pack.ts`. */
export class LooseObject implements StoredObject, ObjectNotes {
  readonly key: Key
  readonly namespace: string
  readonly createRevision: Revision
  readonly modRevision: Revision
  readonly version: number
  readonly leaseId: string
  readonly encoding: 'json' | 'protobuf'
  readonly apiVersion: string
  readonly kind: string
  readonly bytes: Buffer
  readonly metadataOffset: number
  facts: object | null = null
  conformsTo: object | null = null
  uidHead = -1
  /** The offset of the name in the key, or the name itself if the key does not end in it. */
  private readonly named: string | number

  constructor(object: Omit<StoredObject, 'size' | 'notes'>) {
    const { key, name } = object
    this.key = key
    this.namespace = object.namespace
    this.createRevision = object.createRevision
    this.modRevision = object.modRevision
    this.version = object.version
    this.leaseId = object.leaseId
    this.encoding = object.encoding
    this.apiVersion = object.apiVersion
    this.kind = object.kind
    this.bytes = object.bytes
    this.metadataOffset = object.metadataOffset
    this.named = key.endsWith(name) ? key.length - name.length : name
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
   * Set for the value of a Kubernetes object. Without the object, a list would look complete and a watch would report
   * it deleted, so nothing of the resource is served while such a value exists. `encrypted`: only the API server has
   * the key. `sealed`: the key is missing here.
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
