/**
 * Reads protobuf's wire format in place, with a cursor over bytes. It costs a fraction of a general decoder, because it
 * creates no object per field. Every read takes the end of the enclosing message, so a length inside a message cannot
 * reach past that end. 64-bit values are read as two halves, because a BigInt per field would take most of a decoder's
 * time. Groups (wire types 3 and 4) are rejected, because no message of Kubernetes or etcd has ever had one.
 *
 * Source: protobuf.dev, "Encoding".
 */
export const VARINT = 0
export const FIXED64 = 1
export const LENGTH = 2
export const FIXED32 = 5

/** Field numbers are 29 bits. */
const MAX_TAG = 0xffffffff

/** What is wrong with the bytes. `truncated`: a length points past the end. `malformed`: the encoding is invalid. */
export type WireFault = 'truncated' | 'malformed'

export abstract class ProtobufReader {
  bytes: Buffer = Buffer.alloc(0)
  pos = 0
  /** The upper half of the last varint or fixed64 read; the lower half is what the read returned. */
  high = 0

  /** Creates the error. @param at the offset of the byte where the fault was found. */
  protected abstract fault(kind: WireFault, message: string, at: number): Error

  /** Returns a tag, which consists of the field number (`tag >>> 3`) and the wire type (`tag & 7`). */
  readTag(end: number): number {
    const first = this.pos < end ? this.bytes[this.pos]! : 0x80
    if (first < 0x80) {
      if (first < 8) throw this.fault('malformed', 'a field has number 0', this.pos)
      this.pos++
      return first
    }
    const start = this.pos
    const tag = this.readVarint(end)
    if (this.high !== 0 || tag > MAX_TAG || tag < 8) {
      throw this.fault('malformed', 'a field number is out of range', start)
    }
    return tag
  }

  /** Returns the lower 32 bits, unsigned, and stores the upper bits in `high`. */
  readVarint(end: number): number {
    const bytes = this.bytes
    let pos = this.pos
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (pos >= end) throw this.fault('truncated', 'the value ends inside a number', pos)
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
    throw this.fault('malformed', 'a number is longer than ten bytes', this.pos)
  }

  /** Reads a length and checks that this many bytes follow. They end at `pos + length`. */
  readLength(end: number): number {
    const bytes = this.bytes
    const first = this.pos < end ? bytes[this.pos]! : 0x80
    const start = this.pos
    let length = first
    if (first < 0x80) this.pos++
    else {
      length = this.readVarint(end)
      if (this.high !== 0) throw this.fault('truncated', 'a length is beyond any value', start)
    }
    if (length > end - this.pos) {
      throw this.fault('truncated', `a length of ${length} bytes, but only ${end - this.pos} are left`, start)
    }
    return length
  }

  readFixed32(end: number): number {
    if (end - this.pos < 4) throw this.fault('truncated', 'the value ends inside a number', this.pos)
    const value = this.bytes.readUInt32LE(this.pos)
    this.pos += 4
    return value
  }

  /** Returns the lower half, and stores the upper half in `high`. */
  readFixed64(end: number): number {
    if (end - this.pos < 8) throw this.fault('truncated', 'the value ends inside a number', this.pos)
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
    else throw this.fault('malformed', `wire type ${wireType} is not one of protobuf's`, this.pos)
  }

  /** Returns the text between two offsets; bytes that are not UTF-8 become U+FFFD. */
  text(start: number, end: number): string {
    return this.bytes.toString('utf8', start, end)
  }
}
