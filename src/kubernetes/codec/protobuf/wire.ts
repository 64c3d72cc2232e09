/** Reads and writes protobuf's wire format, for stored values and for responses made from them. */
import { FIXED32, FIXED64, LENGTH, ProtobufReader, VARINT, type WireFault } from '../../../support/protobuf-reader.js'
import { CodecError } from './codec-error.js'

export { FIXED32, FIXED64, LENGTH, VARINT } from '../../../support/protobuf-reader.js'

/** The scalar types, with their wire types. */
export const SCALAR_WIRE_TYPES = {
  string: LENGTH,
  bytes: LENGTH,
  bool: VARINT,
  int32: VARINT,
  int64: VARINT,
  uint32: VARINT,
  uint64: VARINT,
  sint32: VARINT,
  sint64: VARINT,
  fixed32: FIXED32,
  fixed64: FIXED64,
  sfixed32: FIXED32,
  sfixed64: FIXED64,
  float: FIXED32,
  double: FIXED64,
  enum: VARINT,
} as const

export class WireReader extends ProtobufReader {
  protected fault(kind: WireFault, message: string, at: number): CodecError {
    return new CodecError(kind, message, at)
  }
}

/** Returns how many bytes a varint takes; `value` is a safe integer of at least 0. */
export function varintLength(value: number): number {
  let length = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) length++
  return length
}

/** Returns the offset after the varint. */
export function writeVarint(value: number, out: Buffer, offset: number): number {
  let rest = value
  let pos = offset
  while (rest >= 0x80) {
    out[pos++] = (rest % 128) | 0x80
    rest = Math.floor(rest / 128)
  }
  out[pos++] = rest
  return pos
}

/** Returns a field with its length. */
export function lengthField(fieldNumber: number, content: Uint8Array | string): Buffer {
  const bytes = typeof content === 'string' ? Buffer.from(content, 'utf8') : content
  // A field number has up to 29 bits, so the tag may exceed a signed 32-bit integer.
  const tag = fieldNumber * 8 + LENGTH
  const header = Buffer.allocUnsafe(varintLength(tag) + varintLength(bytes.length))
  writeVarint(bytes.length, header, writeVarint(tag, header, 0))
  return Buffer.concat([header, bytes])
}

/** Returns the length of a field with a one-byte tag and a length prefix. */
export function fieldLength(contentLength: number): number {
  return 1 + varintLength(contentLength) + contentLength
}

/** Writes tag and length of a length-delimited field with a number below 16. The caller writes the content. */
export function writeHeader(fieldNumber: number, contentLength: number, out: Buffer, offset: number): number {
  out[offset] = (fieldNumber << 3) | LENGTH
  return writeVarint(contentLength, out, offset + 1)
}
