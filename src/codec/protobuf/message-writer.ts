/** Builds small protobuf messages from their fields: Status, ListMeta, bookmarks. It is not for the hot path. */
import { VARINT, varintLength, writeHeader, writeVarint } from './wire.js'

export class MessageWriter {
  private readonly parts: Buffer[] = []

  /** Empty strings are written too, as Go writes members that are not pointers. */
  text(fieldNumber: number, text: string): this {
    return this.bytes(fieldNumber, Buffer.from(text, 'utf8'))
  }

  /** @param value an integer from 0 to 2^53. */
  integer(fieldNumber: number, value: number): this {
    const out = Buffer.allocUnsafe(1 + varintLength(value))
    out[0] = (fieldNumber << 3) | VARINT
    writeVarint(value, out, 1)
    this.parts.push(out)
    return this
  }

  message(fieldNumber: number, message: MessageWriter): this {
    return this.bytes(fieldNumber, message.finish())
  }

  bytes(fieldNumber: number, bytes: Buffer): this {
    const header = Buffer.allocUnsafe(1 + varintLength(bytes.length))
    writeHeader(fieldNumber, bytes.length, header, 0)
    this.parts.push(header, bytes)
    return this
  }

  finish(): Buffer {
    return Buffer.concat(this.parts)
  }
}
