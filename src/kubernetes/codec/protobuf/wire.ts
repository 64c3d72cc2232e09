/**
 * Reads protobuf's wire format in place, with a cursor over bytes. Every read takes the end of the enclosing message,
 * so a length inside a message cannot reach past it. 64-bit values are read as two halves, because a BigInt per field
 * would take most of a decoder's time. Groups (wire types 3 and 4) are rejected: no Kubernetes message has ever had
 * one.
 *
 * Source: protobuf.dev, "Encoding".
 */
import { CodecError } from './codec-error.js'

export const VARINT = 0
export const FIXED64 = 1
export const LENGTH = 2
export const FIXED32 = 5

/** Field numbers are 29 bits. */
const MAX_TAG = 0xffffffff

export class WireReader {
  bytes: Buffer = Buffer.alloc(0)
  pos = 0
  /** The upper half of the last varint or fixed64 read; the lower half is what the read returned. */
  high = 0

  /** Returns number and wire type: `tag >>> 3`, `tag & 7`. */
  readTag(end: number): number {
    const first = this.pos < end ? this.bytes[this.pos]! : 0x80
    if (first < 0x80) {
      if (first < 8) throw new CodecError('malformed', 'a field has number 0', this.pos)
      this.pos++
      return first
    }
    const start = this.pos
    const tag = this.readVarint(end)
    if (this.high !== 0 || tag > MAX_TAG || tag < 8) {
      throw new CodecError('malformed', 'a field number is out of range', start)
    }
    return tag
  }

  /** Returns the lower 32 bits, unsigned; the upper ones are in `high`. */
  readVarint(end: number): number {
    const bytes = this.bytes
    let pos = this.pos
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (pos >= end) throw new CodecError('truncated', 'the value ends inside a number', pos)
      const byte = bytes[pos++]!
      const bits = byte & 0x7f
      if (shift < 28) low |= bits << shift
      else if (shift === 28) {
        low |= bits << 28
        high = bits >>> 4
      } else high |= bits << (shift - 32)
      if (byte < 0x80) {
        this.pos = pos
        this.high = high >>> 0
        return low >>> 0
      }
    }
    throw new CodecError('malformed', 'a number is longer than ten bytes', this.pos)
  }

  /** Reads a length and checks that as many bytes follow. They end at `pos + length`. */
  readLength(end: number): number {
    const bytes = this.bytes
    const first = this.pos < end ? bytes[this.pos]! : 0x80
    const start = this.pos
    let length = first
    if (first < 0x80) this.pos++
    else {
      length = this.readVarint(end)
      if (this.high !== 0) throw new CodecError('truncated', 'a length is beyond any value', start)
    }
    if (length > end - this.pos) {
      throw new CodecError('truncated', `a length of ${length} bytes, but only ${end - this.pos} are left`, start)
    }
    return length
  }

  readFixed32(end: number): number {
    if (end - this.pos < 4) throw new CodecError('truncated', 'the value ends inside a number', this.pos)
    const value = this.bytes.readUInt32LE(this.pos)
    this.pos += 4
    return value
  }

  /** Returns the lower half; the upper one is in `high`. */
  readFixed64(end: number): number {
    if (end - this.pos < 8) throw new CodecError('truncated', 'the value ends inside a number', this.pos)
    const value = this.bytes.readUInt32LE(this.pos)
    this.high = this.bytes.readUInt32LE(this.pos + 4)
    this.pos += 8
    return value
  }

  skip(wireType: number, end: number): void {
    if (wireType === LENGTH) {
      const length = this.readLength(end)
      this.pos += length
    } else if (wireType === VARINT) this.readVarint(end)
    else if (wireType === FIXED64) this.readFixed64(end)
    else if (wireType === FIXED32) this.readFixed32(end)
    else throw new CodecError('malformed', `wire type ${wireType} is not one of protobuf's`, this.pos)
  }

  /** Returns the text between two offsets; bytes that are not UTF-8 become U+FFFD. */
  text(start: number, end: number): string {
    return this.bytes.toString('utf8', start, end)
  }
}

/** Returns how many bytes a varint takes; `value` is a safe integer of at least 0. */
export function varintLength(value: number): number {
  let length = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) length++
  return length
}

/** Returns the offset after it. */
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

/** Returns the length of a field with a one-byte tag and a length prefix. */
export function fieldLength(contentLength: number): number {
  return 1 + varintLength(contentLength) + contentLength
}

/** Writes tag and length of a length-delimited field with a number below 16. The caller writes the content. */
export function writeHeader(fieldNumber: number, contentLength: number, out: Buffer, offset: number): number {
  out[offset] = (fieldNumber << 3) | LENGTH
  return writeVarint(contentLength, out, offset + 1)
}
