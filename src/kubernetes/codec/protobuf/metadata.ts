/**
 * Reads the metadata of an object stored as protobuf, without its spec and status. A resource that only protobuf
 * clients watch, and without field selectors, needs nothing more. All kinds of Kubernetes have ObjectMeta as field 1,
 * so no schema is needed.
 */
import { CodecError } from './codec-error.js'
import { type Envelope, openEnvelope } from './envelope.js'
import { formatTime } from './scalars.js'
import { LENGTH, VARINT, WireReader } from './wire.js'

export interface ObjectMetadata {
  readonly name: string
  /** The namespace is '' for a cluster-scoped object. */
  readonly namespace: string
  readonly uid: string
  readonly labels: ReadonlyMap<string, string>
  readonly annotations: ReadonlyMap<string, string>
  /** RFC 3339; null if the object is not being deleted. */
  readonly deletionTimestamp: string | null
  /** The stored text, which is '' in etcd. */
  readonly resourceVersion: string
}

/** The place of the object's ObjectMeta in `envelope.bytes`; null without one. The last of several wins. */
export interface MetadataPlace {
  /** Offset of the field's tag. */
  readonly tagAt: number
  readonly start: number
  readonly end: number
}

export const METADATA_TAG = (1 << 3) | LENGTH
const NO_TEXTS: ReadonlyMap<string, string> = new Map()
const reader = new WireReader()

/** @throws CodecError when the envelope or the metadata cannot be read. Other fields are only skipped. */
export function readMetadata(value: Buffer): ObjectMetadata {
  const envelope = openEnvelope(value)
  const place = findMetadata(envelope)
  let name = ''
  let namespace = ''
  let uid = ''
  let labels: Map<string, string> | null = null
  let annotations: Map<string, string> | null = null
  let deletionTimestamp: string | null = null
  let resourceVersion = ''
  reader.bytes = value
  reader.pos = place?.start ?? 0
  const end = place?.end ?? 0
  while (reader.pos < end) {
    const tag = reader.readTag(end)
    const number = tag >>> 3
    const wireType = tag & 7
    const expected = number === 7 || number === 10 ? VARINT : number <= 12 ? LENGTH : wireType
    if (wireType !== expected) {
      throw new CodecError(
        'wire-type',
        `metadata field ${number} has wire type ${wireType}, not ${expected}`,
        reader.pos,
      )
    }
    if (wireType !== LENGTH) {
      reader.skip(wireType, end)
      continue
    }
    const length = reader.readLength(end)
    const start = reader.pos
    const stop = start + length
    if (number === 1) name = reader.text(start, stop)
    else if (number === 3) namespace = reader.text(start, stop)
    else if (number === 5) uid = reader.text(start, stop)
    else if (number === 6) resourceVersion = reader.text(start, stop)
    else if (number === 9) deletionTimestamp = readTime(stop)
    else if (number === 11) readEntry((labels ??= new Map()), stop)
    else if (number === 12) readEntry((annotations ??= new Map()), stop)
    reader.pos = stop
  }
  return {
    name,
    namespace,
    uid,
    labels: labels ?? NO_TEXTS,
    annotations: annotations ?? NO_TEXTS,
    deletionTimestamp,
    resourceVersion,
  }
}

export function findMetadata(envelope: Envelope): MetadataPlace | null {
  const { rawStart, rawEnd } = envelope
  let place: MetadataPlace | null = null
  reader.bytes = envelope.bytes
  reader.pos = rawStart
  while (reader.pos < rawEnd) {
    const tagAt = reader.pos
    const tag = reader.readTag(rawEnd)
    if (tag !== METADATA_TAG) {
      if (tag >>> 3 === 1) throw new CodecError('wire-type', `metadata has wire type ${tag & 7}`, tagAt)
      reader.skip(tag & 7, rawEnd)
      continue
    }
    const length = reader.readLength(rawEnd)
    place = { tagAt, start: reader.pos, end: reader.pos + length }
    reader.pos += length
  }
  return place
}

function readTime(end: number): string | null {
  let seconds = 0
  const isEmpty = reader.pos === end
  while (reader.pos < end) {
    const tag = reader.readTag(end)
    if (tag !== 0x08) {
      reader.skip(tag & 7, end)
      continue
    }
    const low = reader.readVarint(end)
    seconds = (reader.high | 0) * 4_294_967_296 + low
  }
  return isEmpty ? null : formatTime(seconds)
}

function readEntry(into: Map<string, string>, end: number): void {
  let key = ''
  let value = ''
  while (reader.pos < end) {
    const tag = reader.readTag(end)
    if (tag !== 0x0a && tag !== 0x12) {
      reader.skip(tag & 7, end)
      continue
    }
    const length = reader.readLength(end)
    const text = reader.text(reader.pos, reader.pos + length)
    if (tag === 0x0a) key = text
    else value = text
    reader.pos += length
  }
  into.set(key, value)
}
