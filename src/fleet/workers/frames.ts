/**
 * The bytes between primary and workers: frames of `length (4) | type (1) | body`, little endian. Both ends are the same
 * build of the same program, so there is no versioning; a frame that does not make sense is a bug and ends the link.
 */
import { type Key } from '../../model/event.js'

/** A whole batch is one frame; etcd's largest transaction is far below. Beyond it the stream is out of step. */
const MAX_FRAME_BYTES = 256 * 1024 * 1024
const LENGTH_BYTES = 4

export class FrameWriter {
  #buffer: Buffer
  #at = LENGTH_BYTES

  /** @param expectedBytes of the body; it grows when that was too little. */
  constructor(type: number, expectedBytes = 60) {
    this.#buffer = Buffer.allocUnsafeSlow(LENGTH_BYTES + 1 + expectedBytes)
    this.byte(type)
  }

  byte(value: number): this {
    this.#reserve(1)
    this.#buffer[this.#at++] = value
    return this
  }

  count(value: number): this {
    this.#reserve(4)
    this.#at = this.#buffer.writeUInt32LE(value, this.#at)
    return this
  }

  /** Revisions and versions: whole up to 2^53. */
  number(value: number): this {
    this.#reserve(8)
    this.#at = this.#buffer.writeDoubleLE(value, this.#at)
    return this
  }

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'utf8'))
  }

  /** A binary string: one byte a unit. */
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

  done(): Buffer {
    this.#buffer.writeUInt32LE(this.#at - LENGTH_BYTES, 0)
    return this.#buffer.subarray(0, this.#at)
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#at + bytes, this.#buffer.length * 2))
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
  }
}

/** Reads what a `FrameWriter` wrote, in the same order. @throws RangeError beyond the end. */
export class FrameReader {
  readonly type: number
  #at = 1

  constructor(readonly frame: Buffer) {
    this.type = frame.readUInt8(0)
  }

  byte(): number {
    return this.frame.readUInt8(this.#at++)
  }

  count(): number {
    const value = this.frame.readUInt32LE(this.#at)
    this.#at += 4
    return value
  }

  number(): number {
    const value = this.frame.readDoubleLE(this.#at)
    this.#at += 8
    return value
  }

  text(): string {
    return this.bytes().toString('utf8')
  }

  key(): Key {
    return this.bytes().toString('latin1') as Key
  }

  /** A slice of the frame. */
  bytes(): Buffer {
    const length = this.count()
    const end = this.#at + length
    if (end > this.frame.length) throw new RangeError(`${length} bytes are more than the frame has left`)
    const value = this.frame.subarray(this.#at, end)
    this.#at = end
    return value
  }
}

/** Chunks of a socket, as frames: those within one chunk are slices of it, others are put together in a buffer of their own. */
export class FrameSplitter {
  readonly #length = Buffer.alloc(LENGTH_BYTES)
  #lengthFilled = 0
  #frame: Buffer | null = null
  #frameFilled = 0

  /** @throws RangeError when the length of a frame is impossible. */
  push(chunk: Buffer, onFrame: (frame: Buffer) => void): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#frame === null) {
        const copied = chunk.copy(this.#length, this.#lengthFilled, at, at + LENGTH_BYTES - this.#lengthFilled)
        this.#lengthFilled += copied
        at += copied
        if (this.#lengthFilled < LENGTH_BYTES) return
        this.#lengthFilled = 0
        const length = this.#length.readUInt32LE(0)
        if (length === 0 || length > MAX_FRAME_BYTES) throw new RangeError(`a frame of ${length} bytes`)
        if (at + length <= chunk.length) {
          at += length
          onFrame(chunk.subarray(at - length, at))
          continue
        }
        this.#frame = Buffer.allocUnsafeSlow(length)
        this.#frameFilled = 0
      }
      const copied = chunk.copy(this.#frame, this.#frameFilled, at)
      this.#frameFilled += copied
      at += copied
      if (this.#frameFilled < this.#frame.length) return
      const frame = this.#frame
      this.#frame = null
      onFrame(frame)
    }
  }
}
