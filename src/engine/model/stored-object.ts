/**
 * One version of an object as the cache keeps it: its encoded bytes, the offset for the resourceVersion, and nothing
 * parsed except the few facts that selectors in use need. A parsed tree per object would cost several times its bytes
 * and all of the garbage collector's time.
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
  /** As stated in the bytes; '' if they do not say. These strings are shared: many objects have the same. */
  readonly apiVersion: string
  readonly kind: string
  /** `json` only: the offset just after the `{` of `metadata`, where `"resourceVersion":"N"` is inserted. */
  readonly metadataOffset: number
  /** The number of bytes. */
  readonly size: number
  /**
   * `json`: one compact JSON object without `metadata.resourceVersion`. `protobuf`: the `k8s\0` envelope as stored. In
   * its own memory, or in a pack; never a slice of a message. Each call may create a new view, so call it once.
   */
  readonly bytes: Buffer
  /**
   * Values that others keep for this version of the object. Use the notes, not the object, as the key of a `WeakMap`:
   * an object in a pack is a new JavaScript object each time it is read, but its notes stay the same.
   */
  readonly notes: ObjectNotes
}

export interface ObjectNotes {
  /**
   * The facts that selectors in use read. Set only by `engine/broadcast/fact-registry.ts`, which checks that they are
   * still valid.
   */
  facts: object | null
  /**
   * The rules of a definition, or the schema, that the bytes already satisfy; set only by
   * `kubernetes/codec/object-views.ts`.
   */
  conformsTo: object | null
  /** The first 31 bits of the uid's hash; -1 until `engine/broadcast/shard-hashes.ts` needs them. */
  uidHead: number
}

/** A single object in its own memory. Listed objects are kept in packs: `engine/cache/pack.ts`. */
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
  /** The offset of the name in the key, or the name itself if the key spells it differently. */
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
 * A value that cannot be served: encrypted at rest, in an unknown encoding, over the size limit, or a stray key.
 * Counted and logged once, never silently ignored.
 */
export interface Unservable {
  readonly unservable: string
  /**
   * Set for a Kubernetes object: a list without it would look complete, and a watch would report it deleted, so nothing
   * of the resource is served while it exists. `encrypted`: only the API server has the key. `sealed`: the key is
   * missing here.
   */
  readonly withholds?: 'encrypted' | 'sealed' | 'unreadable'
  /** The name of the key of an encrypted value, with its provider: `aescbc:v1:key1`. */
  readonly encryptionKey?: string
}

export function isUnservable(value: StoredObject | Unservable): value is Unservable {
  return 'unservable' in value
}

/**
 * Reads a stored value. @param scratch optional memory for the object's bytes, for a caller that moves them before it
 * reads the next value; without it, they get separate memory.
 */
export type Ingest = (keyValue: KeyValue, scratch?: Scratch) => StoredObject | Unservable
