/**
 * Writes and reads numbers, strings, keys and values as big-endian bytes, for messages in NATS and for frames between a
 * primary and its workers.
 */
import type { Key } from '../engine/model/event.js'

export class ByteWriter {
  #buffer: Buffer
  #view: DataView
  #at = 0

  /** @param expectedBytes the initial size of the buffer, which grows as needed. */
  constructor(expectedBytes = 1_024) {
    this.#buffer = Buffer.allocUnsafeSlow(expectedBytes)
    this.#view = viewOf(this.#buffer)
  }

  get length(): number {
    return this.#at
  }

  byte(value: number): this {
    this.#reserve(1)
    this.#buffer[this.#at++] = value
    return this
  }

  /** Writes a whole number below 2^32. */
  count(value: number): this {
    this.#reserve(4)
    this.#view.setUint32(this.#at, value)
    this.#at += 4
    return this
  }

  /** Writes a revision, a version or a time as a double, so whole numbers are exact up to 2^53. */
  number(value: number): this {
    this.#reserve(8)
    this.#view.setFloat64(this.#at, value)
    this.#at += 8
    return this
  }

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'utf8'))
  }

  /** Writes a binary string: each of its UTF-16 code units is one byte. */
  key(value: string): this {
    this.count(value.length)
    this.#reserve(value.length)
    this.#at += this.#buffer.write(value, this.#at, 'latin1')
    return this
  }

  bytes(value: Buffer): this {
    this.count(value.length)
    this.#reserve(value.length)
    this.#at += value.copy(this.#buffer, this.#at)
    return this
  }

  /** Returns everything written, as a slice of the buffer. Nothing may be written after this call. */
  done(): Buffer {
    return this.#buffer.subarray(0, this.#at)
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#at + bytes, this.#buffer.length * 2))
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
    this.#view = viewOf(larger)
  }
}

/** Reads what a `ByteWriter` wrote, in the same order. @throws RangeError past the end. */
export class ByteReader {
  readonly #copies: boolean
  readonly #view: DataView
  #at = 0

  /**
   * @param values `copied` if slices would keep a large message in memory; `sliced` if the caller copies the values
   * that it keeps.
   */
  constructor(
    private readonly buffer: Buffer,
    values: 'copied' | 'sliced',
  ) {
    this.#view = viewOf(buffer)
    this.#copies = values === 'copied'
  }

  get isAtEnd(): boolean {
    return this.#at >= this.buffer.length
  }

  byte(): number {
    return this.#view.getUint8(this.#move(1))
  }

  count(): number {
    return this.#view.getUint32(this.#move(4))
  }

  number(): number {
    return this.#view.getFloat64(this.#move(8))
  }

  text(): string {
    const length = this.count()
    const at = this.#move(length)
    return this.buffer.toString('utf8', at, at + length)
  }

  key(): Key {
    const length = this.count()
    const at = this.#move(length)
    return this.buffer.toString('latin1', at, at + length) as Key
  }

  bytes(): Buffer {
    const length = this.count()
    const at = this.#move(length)
    const slice = this.buffer.subarray(at, at + length)
    return this.#copies ? Buffer.from(slice) : slice
  }

  #move(bytes: number): number {
    const at = this.#at
    const left = this.buffer.length - at
    if (bytes > left) throw new RangeError(`${bytes} bytes needed, but only ${left} left`)
    this.#at = at + bytes
    return at
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}
