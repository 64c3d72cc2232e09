/**
 * The frames between the primary and its workers: `length (4) | type (1) | body`, little endian. Both ends are the same
 * build of the same program, so there is no versioning; an invalid frame is a bug and ends the link.
 */
import { ByteReader, ByteWriter } from '../byte-codec.js'

/**
 * A whole batch is one frame, and etcd's largest transaction is far below this: a longer frame means that the bytes are
 * out of step.
 */
const MAX_FRAME_BYTES = 256 * 1024 * 1024
const LENGTH_BYTES = 4

export class FrameWriter extends ByteWriter {
  /** @param expectedBytes the expected size of the body; the buffer grows as needed. */
  constructor(type: number, expectedBytes = 60) {
    super('little', LENGTH_BYTES + 1 + expectedBytes)
    // `done` fills in the length.
    this.count(0)
    this.byte(type)
  }

  override done(): Buffer {
    const frame = super.done()
    frame.writeUInt32LE(frame.length - LENGTH_BYTES, 0)
    return frame
  }
}

/** Reads the body of a frame. Values are slices of it: copy one to keep it, as `kubernetes/codec/ingest.ts` does. */
export class FrameReader extends ByteReader {
  readonly type: number

  constructor(frame: Buffer) {
    super(frame, 'little', 'sliced')
    this.type = this.byte()
  }
}

/** Splits the chunks of a socket into frames. A frame within one chunk is a slice of it; any other gets a separate buffer. */
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
