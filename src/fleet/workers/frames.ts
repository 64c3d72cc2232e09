/**
 * The bytes between primary and workers: frames of `length (4) | type (1) | body`, little endian. Both ends are the same
 * build of the same program, so there is no versioning; a frame that does not make sense is a bug and ends the link.
 */
import { ByteReader, ByteWriter } from '../byte-codec.js'

/** A whole batch is one frame; etcd's largest transaction is far below. Beyond it the stream is out of step. */
const MAX_FRAME_BYTES = 256 * 1024 * 1024
const LENGTH_BYTES = 4

export class FrameWriter extends ByteWriter {
  /** @param expectedBytes of the body; the buffer grows when this was too little. */
  constructor(type: number, expectedBytes = 60) {
    super('little', LENGTH_BYTES + 1 + expectedBytes)
    // The length, known at the end.
    this.count(0)
    this.byte(type)
  }

  override done(): Buffer {
    const frame = super.done()
    frame.writeUInt32LE(frame.length - LENGTH_BYTES, 0)
    return frame
  }
}

/** Reads the body of a frame. Values are slices of it: whoever keeps one copies it, as `codec/ingest.ts` does. */
export class FrameReader extends ByteReader {
  readonly type: number

  constructor(frame: Buffer) {
    super(frame, 'little', 'sliced')
    this.type = this.byte()
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
