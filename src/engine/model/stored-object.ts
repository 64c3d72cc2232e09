/**
 * One object version as the cache keeps it: its encoded bytes, where the resourceVersion goes, and nothing parsed but
 * the few facts that selectors in use need. A tree per object would cost several times its bytes and all of the garbage
 * collector's time.
 */
import type { Scratch } from '../../support/scratch.js'
import type { Key, KeyValue } from './event.js'
import type { Revision } from './revision.js'

export class StoredObject {
  /**
   * The facts that selectors in use read. Only `engine/broadcast/fact-registry.ts` sets them, and it checks that they are
   * still valid.
   */
  facts: object | null = null
  /** The rules of a definition, or the schema, that its bytes satisfy as they are, kept by `kubernetes/codec/object-views.ts` alone. */
  conformsTo: object | null = null
  /** The number of its bytes. */
  readonly size: number
  /** What its bytes lie in, and where: a view of them for each object would take as much memory as all else of it. */
  private memory: Buffer
  private offset = 0
  /** Where the name begins in the key; the name itself where it stands there in another form. */
  private readonly named: string | number

  constructor(
    readonly key: Key,
    readonly namespace: string,
    name: string,
    readonly createRevision: Revision,
    readonly modRevision: Revision,
    readonly version: number,
    readonly leaseId: string,
    readonly encoding: 'json' | 'protobuf',
    /** What the bytes say they are; '' when they do not. Shared strings: many objects have the same. */
    readonly apiVersion: string,
    readonly kind: string,
    bytes: Buffer,
    /** `json` only: offset just after the `{` of `metadata`, where `"resourceVersion":"N"` goes in. */
    readonly metadataOffset: number,
  ) {
    this.memory = bytes
    this.size = bytes.length
    this.named = key.endsWith(name) ? key.length - name.length : name
  }

  get name(): string {
    const { named } = this
    return typeof named === 'number' ? this.key.slice(named) : named
  }

  /**
   * `json`: one compact JSON object without `metadata.resourceVersion`. `protobuf`: the `k8s\0` envelope as stored.
   * Its own memory, or a slice of a slab that it shares with others of one list: never a slice of a message. Each call may
   * make a new view, so take it once.
   */
  get bytes(): Buffer {
    const { memory, offset, size } = this
    return memory.length === size ? memory : memory.subarray(offset, offset + size)
  }

  /** The memory that holds its bytes, which others may share. */
  get buffer(): ArrayBufferLike {
    return this.memory.buffer
  }

  /** Copies its bytes into other memory, and lets go of those. Who has taken them before keeps them. */
  moveTo(memory: Buffer, at: number): void {
    this.memory.copy(memory, at, this.offset, this.offset + this.size)
    this.memory = memory
    this.offset = at
  }
}

/**
 * A value that cannot be served: encrypted at rest, in an unknown encoding, over the size limit, a stray key. Counted,
 * logged once, never silent.
 */
export interface Unservable {
  readonly unservable: string
  /**
   * Set for an object of Kubernetes': a list without it would be taken for all there is, and a watch would report it
   * deleted, so nothing of the resource is served while it is there. `encrypted`: the key is the API server's.
   */
  readonly withholds?: 'encrypted' | 'unreadable'
}

export function isUnservable(value: StoredObject | Unservable): value is Unservable {
  return 'unservable' in value
}

/**
 * Reads a stored value. @param scratch where the bytes of the object may be put, for a caller that moves them before it reads
 * the next; without it, they have memory of their own.
 */
export type Ingest = (keyValue: KeyValue, scratch?: Scratch) => StoredObject | Unservable
