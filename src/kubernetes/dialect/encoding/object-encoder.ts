/**
 * Writes objects in one negotiated form: in a watch, in a list, alone. The broadcast groups watchers by `key` and the
 * list cache uses it in its keys, so two encoders with equal keys must write equal bytes.
 */
import type { BodyEncoder } from '../../../engine/model/body-encoder.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { Scratch } from '../../../support/scratch.js'
import type { ListMetadata } from '../../codec/protobuf/encode.js'

export interface ObjectEncoder extends BodyEncoder {
  /** A list in pieces: `listHead`, items with `separator` between them, `listTail`. */
  listHead(metadata: ListMetadata): Buffer
  /**
   * Returns null for an unreadable object, which is omitted and has been counted and logged. @param scratch optional
   * memory for the bytes.
   */
  listItem(object: StoredObject, scratch?: Scratch): Buffer | null
  readonly separator: Buffer
  readonly listTail: Buffer
  /**
   * Writes a whole list, for encodings whose lists begin with their length. A null asks for another turn of the event
   * loop.
   */
  readonly list?: (metadata: ListMetadata, objects: readonly StoredObject[]) => Iterable<Buffer | null>
  /** A list is in the order of these numbers, and of the keys where they are equal. Default: that of the keys. */
  readonly place?: (object: StoredObject) => number
  /** Writes one object as the whole answer; null like `listItem`. */
  single(object: StoredObject): Buffer | null
}
