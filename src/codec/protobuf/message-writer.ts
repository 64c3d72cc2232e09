/** Builds small protobuf messages from their fields: Status, ListMeta, bookmarks. It is not for the hot path. */
import { FIXED64, LENGTH, VARINT, varintLength, writeVarint } from './wire.js'

export class MessageWriter {
  private readonly parts: Buffer[] = []

  /** Empty strings are written too, as Go writes members that are not pointers. */
  text(fieldNumber: number, text: string): this {
    return this.bytes(fieldNumber, Buffer.from(text, 'utf8'))
  }

  /** @param value a safe integer; a negative one takes ten bytes, as protobuf writes it. */
  integer(fieldNumber: number, value: number): this {
    if (value < 0) return this.negative(fieldNumber, value)
    const tag = (fieldNumber << 3) | VARINT
    const out = Buffer.allocUnsafe(varintLength(tag) + varintLength(value))
    writeVarint(value, out, writeVarint(tag, out, 0))
    this.parts.push(out)
    return this
  }

  private negative(fieldNumber: number, value: number): this {
    const out = Buffer.alloc(11)
    out[0] = (fieldNumber << 3) | VARINT
    let rest = BigInt.asUintN(64, BigInt(value))
    for (let at = 1; at <= 10; at++) {
      out[at] = Number(rest & 0x7fn) | (at < 10 ? 0x80 : 0)
      rest >>= 7n
    }
    this.parts.push(out)
    return this
  }

  double(fieldNumber: number, value: number): this {
    const out = Buffer.allocUnsafe(varintLength((fieldNumber << 3) | FIXED64) + 8)
    out.writeDoubleLE(value, writeVarint((fieldNumber << 3) | FIXED64, out, 0))
    this.parts.push(out)
    return this
  }

  message(fieldNumber: number, message: MessageWriter): this {
    return this.bytes(fieldNumber, message.finish())
  }

  bytes(fieldNumber: number, bytes: Buffer): this {
    const tag = (fieldNumber << 3) | LENGTH
    const header = Buffer.allocUnsafe(varintLength(tag) + varintLength(bytes.length))
    writeVarint(bytes.length, header, writeVarint(tag, header, 0))
    this.parts.push(header, bytes)
    return this
  }

  finish(): Buffer {
    return Buffer.concat(this.parts)
  }
}
