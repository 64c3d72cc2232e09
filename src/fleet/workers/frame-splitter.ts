/** Finds the frames of a link in the chunks of its socket. */

/**
 * The bytes are out of step when a frame is empty, or longer than any batch: each batch is one frame, and etcd's largest
 * transaction is far below this.
 */
const MAX_FRAME_BYTES = 256 * 1024 * 1024
export const LENGTH_BYTES = 4

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
        const length = this.#length.readUInt32BE(0)
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
