/**
 * Encodes what protobuf clients get in addition to the stored objects: lists, watch events, bookmarks, Statuses and
 * bare metadata. A Table has no protobuf form.
 *
 * A list is a sequence of chunks, so that its parts are copied from the store while the socket takes them. Protobuf
 * puts every length first, so the lengths are added up before the first chunk is built.
 *
 * Source: kubernetes/apimachinery, pkg/apis/meta/v1/generated.proto.
 */
import type { EventType } from '../../../engine/model/event-type.js'
import type { Status } from '../../model/status.js'
import { type JsonRecord, treeFrom } from '../json-tree.js'
import {
  encodeEnvelope,
  ENVELOPE_END,
  enveloped,
  envelopeStart,
  metadataLength,
  rawLength,
  type StoredObject,
  writeMetadata,
  writeRaw,
} from './resource-version-splice.js'
import { encodeListMeta, encodeObject } from './encode-object.js'
import { kubernetesSchema } from './schema.js'
import { fieldLength, lengthField, writeHeader } from './wire.js'

/** The `metadata` of a list of any kind. */
export interface ListMetadata {
  readonly resourceVersion: string
  readonly continue?: string
  readonly remainingItemCount?: number
  readonly shardInfo?: { readonly selector: string }
}

/** One item of a list: its own message without an envelope, since items of a list have none. */
export interface ListItem {
  readonly length: number
  /** Writes `length` bytes and returns the offset after them. */
  write(out: Buffer, offset: number): number
}

/** Every chunk of a list but the last is at least this large, so that each write to a socket is worth its cost. */
const CHUNK_BYTES = 64 * 1024

/** Creates a list item from a whole object. */
export function objectItem(object: StoredObject, resourceVersion: string): ListItem {
  const length = rawLength(object, resourceVersion)
  return { length, write: (out, offset) => writeRaw(object, resourceVersion, out, offset) }
}

/** Creates an item of a PartialObjectMetadataList from an object's metadata. */
export function metadataItem(object: StoredObject, resourceVersion: string): ListItem {
  const length = fieldLength(metadataLength(object, resourceVersion))
  return { length, write: (out, offset) => writeMetadata(object, resourceVersion, out, offset) }
}

/** Creates an item of a PartialObjectMetadataList from an object's encoded ObjectMeta. */
export function encodedMetadataItem(objectMeta: Buffer): ListItem {
  return {
    length: fieldLength(objectMeta.length),
    write: (out, offset) => {
      const start = writeHeader(1, objectMeta.length, out, offset)
      return start + objectMeta.copy(out, start)
    },
  }
}

/** Encodes one metadata-only object in its envelope. @param item of a PartialObjectMetadataList. */
export function encodePartialObjectMetadata(item: ListItem, apiVersion = 'meta.k8s.io/v1'): Buffer {
  return encodeEnvelope(apiVersion, 'PartialObjectMetadata', item.length, (out, offset) => item.write(out, offset))
}

/**
 * Encodes a list in its envelope, in chunks that together are the body. Nothing is written before the first chunk is
 * requested.
 *
 * @param items iterated twice: immediately for their lengths, and again for their bytes as the chunks are requested.
 */
export function encodeList(
  apiVersion: string,
  listKind: string,
  metadata: ListMetadata,
  items: readonly ListItem[],
): { readonly length: number; readonly chunks: Iterable<Buffer> } {
  // Only this list has the two fields swapped.
  const areItemsFirst = apiVersion === 'meta.k8s.io/v1beta1' && listKind === 'PartialObjectMetadataList'
  const listMeta = lengthField(areItemsFirst ? 2 : 1, encodeListMeta(metadata))
  let rawBytes = listMeta.length
  for (const item of items) rawBytes += fieldLength(item.length)
  const start = envelopeStart(apiVersion, listKind, rawBytes)
  const length = start.length + rawBytes + ENVELOPE_END.length
  const chunks = areItemsFirst
    ? listChunks(start, 1, items, Buffer.concat([listMeta, ENVELOPE_END]))
    : listChunks(Buffer.concat([start, listMeta]), 2, items, ENVELOPE_END)
  return { length, chunks }
}

function* listChunks(head: Buffer, itemNumber: number, items: readonly ListItem[], end: Buffer): Generator<Buffer> {
  let parts: ListItem[] = []
  let waiting = head.length
  let first: Buffer | null = head
  const flush = (tail: Buffer | null): Buffer => {
    const chunk = Buffer.allocUnsafe(waiting + (tail?.length ?? 0))
    let pos = first?.copy(chunk, 0) ?? 0
    for (const item of parts) pos = item.write(chunk, writeHeader(itemNumber, item.length, chunk, pos))
    tail?.copy(chunk, pos)
    first = null
    parts = []
    waiting = 0
    return chunk
  }
  for (const item of items) {
    parts.push(item)
    waiting += fieldLength(item.length)
    if (waiting >= CHUNK_BYTES) yield flush(null)
  }
  yield flush(end)
}

/**
 * Encodes one event of a watch: a bare meta/v1 WatchEvent around the enveloped object. Over HTTP the caller puts its
 * length before it, in four bytes, big-endian; over WebSocket it is one message.
 */
export function encodeWatchEvent(type: EventType, envelopedObject: Buffer): Buffer {
  const extensionLength = fieldLength(envelopedObject.length)
  const out = Buffer.allocUnsafeSlow(fieldLength(type.length) + fieldLength(extensionLength))
  let pos = writeHeader(1, type.length, out, 0)
  pos += out.write(type, pos, 'latin1')
  pos = writeHeader(2, extensionLength, out, pos)
  pos = writeHeader(1, envelopedObject.length, out, pos)
  envelopedObject.copy(out, pos)
  return out
}

/** The metadata of a bookmark's object. */
export interface BookmarkMetadata {
  readonly resourceVersion: string
  readonly annotations?: Readonly<Record<string, string>>
}

/** Encodes the metadata-only object of a BOOKMARK in its envelope. */
export function encodeBookmark(
  apiVersion: string,
  kind: string,
  { resourceVersion, annotations = {} }: BookmarkMetadata,
): Buffer {
  const entries = Object.entries(annotations).map(([key, value]) =>
    lengthField(12, Buffer.concat([lengthField(1, key), lengthField(2, value)])),
  )
  return enveloped(apiVersion, kind, lengthField(1, Buffer.concat([lengthField(6, resourceVersion), ...entries])))
}

export function encodeStatus(status: Status): Buffer {
  return encodeObject(treeFrom(status) as JsonRecord, kubernetesSchema())!
}
