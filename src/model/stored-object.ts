/**
 * One object version as the cache keeps it: its encoded bytes, where the resourceVersion goes, and nothing parsed but
 * the few facts that selectors in use need. A tree per object would cost several times its bytes and all of the garbage
 * collector's time.
 */
import type { Key } from './event.js'
import type { Revision } from './revision.js'

export class StoredObject {
  /**
   * The facts that selectors in use read. Only `broadcast/fact-registry.ts` sets them, and it checks that they are
   * still valid.
   */
  facts: object | null = null
  /** The rules of a definition that its bytes satisfy as they are, kept by `codec/object-views.ts` alone. */
  conformsTo: object | null = null

  constructor(
    readonly key: Key,
    readonly namespace: string,
    readonly name: string,
    readonly createRevision: Revision,
    readonly modRevision: Revision,
    readonly version: number,
    readonly leaseId: string,
    readonly encoding: 'json' | 'protobuf',
    /** What the bytes say they are; '' when they do not. Shared strings: many objects have the same. */
    readonly apiVersion: string,
    readonly kind: string,
    /**
     * `json`: one compact JSON object without `metadata.resourceVersion`. `protobuf`: the `k8s\0` envelope as stored.
     * Its own memory, or a slice of a slab that it shares with others of one list: never a slice of a message. Only
     * `cache/value-slabs.ts` sets it, to equal bytes elsewhere.
     */
    public bytes: Buffer,
    /** `json` only: offset just after the `{` of `metadata`, where `"resourceVersion":"N"` goes in. */
    readonly metadataOffset: number,
  ) {}
}

/**
 * A value that cannot be served: encrypted at rest, over the size limit, a stray key. Counted, logged once, never
 * silent.
 */
export interface Unservable {
  readonly unservable: string
  /** The encryption key is not ours. A list without this value would be wrong, whatever else can be read. */
  readonly isEncrypted?: true
}

export function isUnservable(value: StoredObject | Unservable): value is Unservable {
  return 'unservable' in value
}
