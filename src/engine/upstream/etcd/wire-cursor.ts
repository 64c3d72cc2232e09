/**
 * Reads the fields of the two messages of etcd that carry keys and values. `control-messages.ts` decodes all other
 * messages.
 *
 * An int64 is read as a number and checked. If a number cannot represent it exactly, this is an error; the value is
 * never rounded.
 */
import { ProtobufReader, type WireFault } from '../../../support/protobuf-reader.js'
import { UpstreamError } from '../upstream.js'

const TWO_32 = 4_294_967_296

export class WireCursor extends ProtobufReader {
  constructor(bytes: Buffer) {
    super()
    this.bytes = bytes
  }

  /** Returns field number × 8 + wire type. */
  tag(): number {
    return this.readTag(this.bytes.length)
  }

  /** Reads a signed integer; all of etcd's integers are signed. @throws UpstreamError 'protocol' outside ±2^53. */
  int64(): number {
    const low = this.readVarint(this.bytes.length)
    const value = (this.high | 0) * TWO_32 + low
    if (!Number.isSafeInteger(value)) throw malformed(`etcd sent a number above 2^53: ${value}`)
    return value
  }

  /** Returns the exact decimal text of an int64 of any size. */
  int64Text(): string {
    const low = this.readVarint(this.bytes.length)
    return BigInt.asIntN(64, (BigInt(this.high) << 32n) | BigInt(low)).toString()
  }

  bool(): boolean {
    return this.readVarint(this.bytes.length) !== 0
  }

  /**
   * Reads the length of the following field and checks that the field ends within the message. The cursor is then at
   * the field's first byte.
   */
  length(): number {
    return this.readLength(this.bytes.length)
  }

  /** Returns the bytes of a length-delimited field as binary text. */
  latin1(): string {
    const length = this.length()
    this.pos += length
    return this.bytes.toString('latin1', this.pos - length, this.pos)
  }

  pass(tag: number): void {
    this.skip(tag & 7, this.bytes.length)
  }

  protected fault(_kind: WireFault, message: string): UpstreamError {
    return malformed(message)
  }
}

function malformed(what: string): UpstreamError {
  return new UpstreamError('protocol', `malformed message from etcd: ${what}`)
}
