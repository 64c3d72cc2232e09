/**
 * The envelope around every object that an API server stores or sends as protobuf: four magic bytes, then the message
 * runtime.Unknown with the object's apiVersion and kind, and its own message as bytes. It is opened in place: the parts
 * are offsets into the value, so serving protobuf clients requires no copy.
 *
 *     k8s\0 | 1 typeMeta { 1 apiVersion, 2 kind } | 2 raw | 3 contentEncoding | 4 contentType
 *
 * Source: kubernetes/apimachinery, pkg/runtime/serializer/protobuf and pkg/runtime/generated.proto.
 */
import { CodecError } from './codec-error.js'
import { LENGTH, WireReader } from './wire.js'

export const MAGIC = Buffer.from('k8s\0', 'latin1')
export const PROTOBUF_CONTENT_TYPE = 'application/vnd.kubernetes.protobuf'

export interface Envelope {
  readonly apiVersion: string
  readonly kind: string
  /** The value from which the envelope was opened. */
  readonly bytes: Buffer
  /** Where the object's own message is in `bytes`. */
  readonly rawStart: number
  readonly rawEnd: number
  /** The content encoding. API servers write ''. */
  readonly contentEncoding: string
  /** The content type. API servers write '', which means protobuf. */
  readonly contentType: string
}

const reader = new WireReader()

export function isProtobuf(value: Buffer): boolean {
  return value.length >= 4 && value[0] === 0x6b && value[1] === 0x38 && value[2] === 0x73 && value[3] === 0
}

/**
 * @throws CodecError when the value is not an envelope, is cut off, or holds an object that is encoded in another
 * way.
 */
export function openEnvelope(value: Buffer): Envelope {
  if (!isProtobuf(value)) throw new CodecError('malformed', 'it does not start with k8s\\0', 0)
  let apiVersion = ''
  let kind = ''
  let rawStart = value.length
  let rawEnd = value.length
  let contentEncoding = ''
  let contentType = ''
  const end = value.length
  reader.bytes = value
  reader.pos = MAGIC.length
  while (reader.pos < end) {
    const tag = reader.readTag(end)
    const number = tag >>> 3
    if (number > 4) {
      reader.skip(tag & 7, end)
      continue
    }
    if ((tag & 7) !== LENGTH) {
      throw new CodecError('wire-type', `envelope field ${number} has wire type ${tag & 7}, not ${LENGTH}`, reader.pos)
    }
    const length = reader.readLength(end)
    const start = reader.pos
    const stop = start + length
    if (number === 1) {
      while (reader.pos < stop) {
        const inner = reader.readTag(stop)
        if (inner !== 0x0a && inner !== 0x12) {
          reader.skip(inner & 7, stop)
          continue
        }
        const size = reader.readLength(stop)
        if (inner === 0x0a) apiVersion = reader.text(reader.pos, reader.pos + size)
        else kind = reader.text(reader.pos, reader.pos + size)
        reader.pos += size
      }
    } else if (number === 2) {
      rawStart = start
      rawEnd = stop
    } else if (number === 3) contentEncoding = reader.text(start, stop)
    else contentType = reader.text(start, stop)
    reader.pos = stop
  }
  if (contentEncoding !== '') {
    throw new CodecError('unsupported', `content encoding ${JSON.stringify(contentEncoding.slice(0, 64))}`)
  }
  if (contentType !== '' && contentType !== PROTOBUF_CONTENT_TYPE) {
    throw new CodecError('unsupported', `content type ${JSON.stringify(contentType.slice(0, 64))} in an envelope`)
  }
  return { apiVersion, kind, bytes: value, rawStart, rawEnd, contentEncoding, contentType }
}

/** Returns the object's own message as a slice, which keeps the whole value in memory. */
export function rawOf(envelope: Envelope): Buffer {
  return envelope.bytes.subarray(envelope.rawStart, envelope.rawEnd)
}
