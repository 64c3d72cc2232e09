/**
 * Builds small protobuf messages from their fields: Status, ListMeta, bookmarks, metadata. The writer of the library
 * takes more than four times as long for the metadata of a pod.
 */
import { FIXED64, LENGTH, VARINT, varintLength, writeVarint } from './wire.js'

/** The 64 bits of a negative number, seven per byte. */
const NEGATIVE_BYTES = 10

export class MessageWriter {
  private readonly parts: Buffer[] = []

  /** Also writes empty strings, as Go writes members that are not pointers. */
  text(fieldNumber: number, text: string): this {
    return this.bytes(fieldNumber, Buffer.from(text, 'utf8'))
  }

  /** @param value a safe integer; a negative one takes ten bytes, as in protobuf. */
  integer(fieldNumber: number, value: number): this {
    if (value < 0) return this.negative(fieldNumber, value)
    const tag = tagOf(fieldNumber, VARINT)
    const out = Buffer.allocUnsafe(varintLength(tag) + varintLength(value))
    writeVarint(value, out, writeVarint(tag, out, 0))
    this.parts.push(out)
    return this
  }

  private negative(fieldNumber: number, value: number): this {
    const tag = tagOf(fieldNumber, VARINT)
    const out = Buffer.allocUnsafe(varintLength(tag) + NEGATIVE_BYTES)
    const start = writeVarint(tag, out, 0)
    let rest = BigInt.asUintN(64, BigInt(value))
    for (let at = 0; at < NEGATIVE_BYTES; at++) {
      out[start + at] = Number(rest & 0x7fn) | (at < NEGATIVE_BYTES - 1 ? 0x80 : 0)
      rest >>= 7n
    }
    this.parts.push(out)
    return this
  }

  double(fieldNumber: number, value: number): this {
    const tag = tagOf(fieldNumber, FIXED64)
    const out = Buffer.allocUnsafe(varintLength(tag) + 8)
    out.writeDoubleLE(value, writeVarint(tag, out, 0))
    this.parts.push(out)
    return this
  }

  message(fieldNumber: number, message: MessageWriter): this {
    return this.bytes(fieldNumber, message.finish())
  }

  bytes(fieldNumber: number, bytes: Buffer): this {
    const tag = tagOf(fieldNumber, LENGTH)
    const header = Buffer.allocUnsafe(varintLength(tag) + varintLength(bytes.length))
    writeVarint(bytes.length, header, writeVarint(tag, header, 0))
    this.parts.push(header, bytes)
    return this
  }

  finish(): Buffer {
    return Buffer.concat(this.parts)
  }
}

/** A field number has up to 29 bits, so the tag may exceed a signed 32-bit integer. */
function tagOf(fieldNumber: number, wireType: number): number {
  return fieldNumber * 8 + wireType
}
