/**
 * Writes protobuf from the end to the beginning, as Go does. A message's length is known by the time its head is
 * written, so nothing is copied from level to level.
 */
import { FIXED64, LENGTH, VARINT, varintLength, writeVarint } from './wire.js'

/** Most messages fit into this. */
const SPARE_BYTES = 16 * 1024
/** The memory of a writer that has finished, for the next one. */
let spare: Buffer | null = null

const NOTHING = Buffer.alloc(0)

export class BackwardWriter {
  #bytes: Buffer
  #start = SPARE_BYTES

  constructor() {
    this.#bytes = spare ?? Buffer.allocUnsafeSlow(SPARE_BYTES)
    spare = null
  }

  /** The number of bytes written so far. */
  get length(): number {
    return this.#bytes.length - this.#start
  }

  /** Returns what was written. Nothing can be written afterwards. */
  finish(): Buffer {
    const written = this.#bytes.subarray(this.#start)
    if (this.#bytes.length !== SPARE_BYTES) return written
    spare = this.#bytes
    this.#bytes = NOTHING
    this.#start = 0
    return Buffer.from(written)
  }

  bytes(bytes: Uint8Array): void {
    this.#take(bytes.length)
    this.#bytes.set(bytes, this.#start)
  }

  text(text: string): void {
    this.#take(Buffer.byteLength(text))
    this.#bytes.write(text, this.#start)
  }

  /** @param value a safe integer of at least 0. */
  varint(value: number): void {
    this.#take(varintLength(value))
    writeVarint(value, this.#bytes, this.#start)
  }

  /** @param value any integer of 64 bits; a negative one takes ten bytes. */
  longVarint(value: bigint): void {
    let rest = BigInt.asUintN(64, value)
    const bytes: number[] = []
    for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
    this.bytes(Uint8Array.from([...bytes, Number(rest)]))
  }

  tag(fieldNumber: number, wireType: number): void {
    this.varint(fieldNumber * 8 + wireType)
  }

  /** Writes the head of a field whose content is everything written since `length` was `end`. */
  head(fieldNumber: number, end: number): void {
    this.varint(this.length - end)
    this.tag(fieldNumber, LENGTH)
  }

  /** Writes a field whose content is everything that `write` writes. */
  field(fieldNumber: number, write: () => void): void {
    const end = this.length
    write()
    this.head(fieldNumber, end)
  }

  textField(fieldNumber: number, text: string): void {
    const end = this.length
    this.text(text)
    this.head(fieldNumber, end)
  }

  /** @param value a safe integer, or a bigint. */
  integerField(fieldNumber: number, value: number | bigint): void {
    if (typeof value === 'number' && value >= 0) this.varint(value)
    else this.longVarint(BigInt(value))
    this.tag(fieldNumber, VARINT)
  }

  doubleField(fieldNumber: number, value: number): void {
    const bytes = Buffer.alloc(8)
    bytes.writeDoubleLE(value)
    this.bytes(bytes)
    this.tag(fieldNumber, FIXED64)
  }

  #take(bytes: number): void {
    if (bytes > this.#start) this.#grow(bytes)
    this.#start -= bytes
  }

  #grow(bytes: number): void {
    const { length } = this
    const larger = Buffer.allocUnsafe(2 * this.#bytes.length + bytes)
    this.#bytes.copy(larger, larger.length - length, this.#start)
    this.#bytes = larger
    this.#start = larger.length - length
  }
}
