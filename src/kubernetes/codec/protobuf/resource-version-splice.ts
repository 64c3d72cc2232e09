/**
 * Inserts the resourceVersion into a stored protobuf object: ObjectMeta's field 6 is written at wire level, and the
 * lengths around it (metadata and the raw message) are adjusted. Every other byte stays as stored, so fields unknown
 * to our schemas reach the client untouched. Decoding and re-encoding was rejected because it loses such fields and
 * costs more.
 *
 *     k8s\0 │ typeMeta │ raw { … metadata { …before │ 6: resourceVersion │ after… } …rest } │ the rest of the envelope
 */
import { CodecError } from './codec-error.js'
import { type Envelope, MAGIC, openEnvelope } from './envelope.js'
import { findMetadata } from './metadata.js'
import { LENGTH, WireReader, fieldLength, varintLength, writeHeader } from './wire.js'

const RESOURCE_VERSION_NUMBER = 6

/** Offsets into the stored value of the pieces of an object that are the same for every resourceVersion. */
export interface StoredObject {
  readonly bytes: Buffer
  readonly apiVersion: string
  readonly kind: string
  readonly rawStart: number
  readonly rawEnd: number
  /** The tag of metadata; equal to rawStart when there is none. */
  readonly metadataTagAt: number
  readonly metadataEnd: number
  /** The runs of metadata's bytes before and after its resourceVersion, as pairs of offsets. */
  readonly before: readonly number[]
  readonly after: readonly number[]
  readonly keptLength: number
}

const reader = new WireReader()

/** Analyses a stored value in a few µs. @throws CodecError when envelope or metadata cannot be read. */
export function openStored(value: Buffer): StoredObject {
  return locate(openEnvelope(value))
}

function locate(envelope: Envelope): StoredObject {
  const { bytes, rawStart, rawEnd } = envelope
  const place = findMetadata(envelope) ?? { tagAt: rawStart, start: rawStart, end: rawStart }
  const before: number[] = []
  const after: number[] = []
  let keptLength = 0
  reader.bytes = bytes
  reader.pos = place.start
  // Fields stay in the order of their numbers: those up to the old resourceVersion, or up to number 6, go before the
  // new one.
  let into = before
  let runStart = place.start
  const closeRun = (runEnd: number): void => {
    if (runEnd > runStart) into.push(runStart, runEnd)
    keptLength += runEnd - runStart
    runStart = runEnd
  }
  while (reader.pos < place.end) {
    const tagAt = reader.pos
    const tag = reader.readTag(place.end)
    const number = tag >>> 3
    if (into === before && number >= RESOURCE_VERSION_NUMBER) {
      closeRun(tagAt)
      into = after
    }
    reader.skip(tag & 7, place.end)
    if (number !== RESOURCE_VERSION_NUMBER) continue
    if ((tag & 7) !== LENGTH) throw new CodecError('wire-type', `resourceVersion has wire type ${tag & 7}`, tagAt)
    closeRun(tagAt)
    runStart = reader.pos
  }
  closeRun(place.end)
  return {
    bytes,
    apiVersion: envelope.apiVersion,
    kind: envelope.kind,
    rawStart,
    rawEnd,
    metadataTagAt: place.tagAt,
    metadataEnd: place.end,
    before,
    after,
    keptLength,
  }
}

/** Returns the length of the object's own message with this resourceVersion, without its envelope. */
export function rawLength(object: StoredObject, resourceVersion: string): number {
  const metadata = fieldLength(metadataLength(object, resourceVersion))
  return object.rawEnd - object.rawStart - (object.metadataEnd - object.metadataTagAt) + metadata
}

/** Writes `rawLength` bytes and returns the offset after them. */
export function writeRaw(object: StoredObject, resourceVersion: string, out: Buffer, offset: number): number {
  const { bytes } = object
  let pos = offset + bytes.copy(out, offset, object.rawStart, object.metadataTagAt)
  pos = writeMetadata(object, resourceVersion, out, pos)
  return pos + bytes.copy(out, pos, object.metadataEnd, object.rawEnd)
}

/** Returns the length of the object's metadata alone with this resourceVersion. */
export function metadataLength(object: StoredObject, resourceVersion: string): number {
  return object.keptLength + fieldLength(resourceVersion.length)
}

/** Writes the metadata as field 1, tag and length included. Returns the offset after it. */
export function writeMetadata(object: StoredObject, resourceVersion: string, out: Buffer, offset: number): number {
  const { bytes, before, after } = object
  let pos = writeHeader(1, metadataLength(object, resourceVersion), out, offset)
  for (let i = 0; i < before.length; i += 2) pos += bytes.copy(out, pos, before[i]!, before[i + 1]!)
  pos = writeHeader(RESOURCE_VERSION_NUMBER, resourceVersion.length, out, pos)
  pos += out.write(resourceVersion, pos, 'latin1')
  for (let i = 0; i < after.length; i += 2) pos += bytes.copy(out, pos, after[i]!, after[i + 1]!)
  return pos
}

/**
 * Returns the value as an API server serves it, in its own envelope.
 *
 * @param resourceVersion decimal digits.
 * @param apiVersion may differ from the stored one for kinds whose versions have the same message under two names.
 * @throws CodecError when envelope or metadata cannot be read.
 */
export function withResourceVersion(value: Buffer, resourceVersion: string, apiVersion?: string): Buffer {
  const object = openStored(value)
  return encodeEnvelope(
    apiVersion ?? object.apiVersion,
    object.kind,
    rawLength(object, resourceVersion),
    (out, offset) => writeRaw(object, resourceVersion, out, offset),
  )
}

/** The end of the envelope as API servers write it: empty content encoding and content type, both present. */
export const ENVELOPE_END = Buffer.from([0x1a, 0x00, 0x22, 0x00])

/** Returns the bytes before the object's own message: magic, typeMeta, and the tag and length of raw. */
export function envelopeStart(apiVersion: string, kind: string, length: number): Buffer {
  const versionLength = Buffer.byteLength(apiVersion, 'utf8')
  const kindLength = Buffer.byteLength(kind, 'utf8')
  const typeMetaLength = fieldLength(versionLength) + fieldLength(kindLength)
  const out = Buffer.allocUnsafe(MAGIC.length + fieldLength(typeMetaLength) + 1 + varintLength(length))
  let pos = MAGIC.copy(out, 0)
  pos = writeHeader(1, typeMetaLength, out, pos)
  pos = writeHeader(1, versionLength, out, pos)
  pos += out.write(apiVersion, pos, 'utf8')
  pos = writeHeader(2, kindLength, out, pos)
  pos += out.write(kind, pos, 'utf8')
  writeHeader(2, length, out, pos)
  return out
}

/** Returns a message in its envelope, in a separate buffer. */
export function enveloped(apiVersion: string, kind: string, raw: Buffer): Buffer {
  return encodeEnvelope(apiVersion, kind, raw.length, (out, offset) => offset + raw.copy(out, offset))
}

/** Like `enveloped`, for a message of `length` bytes that is written directly into the envelope's buffer. */
export function encodeEnvelope(
  apiVersion: string,
  kind: string,
  length: number,
  write: (out: Buffer, offset: number) => number,
): Buffer {
  const start = envelopeStart(apiVersion, kind, length)
  const out = Buffer.allocUnsafeSlow(start.length + length + ENVELOPE_END.length)
  start.copy(out, 0)
  const end = write(out, start.length)
  ENVELOPE_END.copy(out, end)
  return out
}
