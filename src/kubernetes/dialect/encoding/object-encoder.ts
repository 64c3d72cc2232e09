/**
 * Writes objects in one negotiated form: in a watch, in a list, or alone. The broadcast groups watchers by `key`, and
 * the list cache uses `key` in its own keys, so two encoders with equal keys must write equal bytes.
 */
import type { BodyEncoder } from '../../../engine/model/body-encoder.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { Scratch } from '../../../support/scratch.js'
import type { Status } from '../../model/status.js'
import type { ListMetadata } from '../../codec/protobuf/encode.js'

/** A list as JSON text, in pieces: the head, the items with commas between them, and `LIST_TAIL`. */
export interface ListInPieces {
  head(metadata: ListMetadata): Buffer
  /**
   * Returns null for an unreadable object, which is omitted and has been counted and logged.
   * @param scratch optional memory for the bytes.
   */
  item(object: StoredObject, scratch?: Scratch): Buffer | null
}

/** Writes a list that begins with its length. A null asks for another turn of the event loop. */
export type WholeList = (metadata: ListMetadata, objects: readonly StoredObject[]) => Iterable<Buffer | null>

export interface ObjectEncoder extends BodyEncoder {
  status(status: Status): Buffer
  readonly list: ListInPieces | WholeList
  /** The objects' order in a list, by this number and then by key. Default: by key. */
  readonly place?: (object: StoredObject) => number
  /** Writes one object as the whole response. Returns null for an unreadable object, as for an item of a list. */
  single(object: StoredObject): Buffer | null
}

export interface JsonObjectEncoder extends ObjectEncoder {
  readonly list: ListInPieces
}
