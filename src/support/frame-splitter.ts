/**
 * Finds frames in the chunks of a stream. A frame consists of a head, which states the length, and the content. Content
 * within one chunk is returned as a slice of the chunk. Content that spans several chunks is copied once into separate
 * memory, for which there is room only when the second chunk comes: a reader that pauses the stream after the head needs
 * none.
 */
export class FrameSplitter {
  readonly #head: Buffer
  #headBytes = 0
  /** The content being assembled; null between frames, and within a head. */
  #content: Buffer | null = null
  #contentBytes = 0
  /** The beginning of a content that goes on in the next chunk; null if there is none. */
  #begun: { readonly length: number; readonly bytes: Buffer } | null = null

  /**
   * @param headBytes the size of every head.
   * @param lengthIn reads the length of the content from a whole head, and throws to end the stream.
   */
  constructor(
    private readonly headBytes: number,
    private readonly lengthIn: (head: Buffer, at: number) => number,
    private readonly onFrame: (content: Buffer) => void,
  ) {
    this.#head = Buffer.alloc(headBytes)
  }

  /** The bytes of an unfinished frame. */
  get pendingBytes(): number {
    if (this.#begun !== null) return this.headBytes + this.#begun.bytes.length
    return this.#headBytes + (this.#content === null ? 0 : this.headBytes + this.#contentBytes)
  }

  /** @throws whatever `lengthIn` or `onFrame` throws. */
  push(chunk: Buffer): void {
    const { headBytes } = this
    let at = 0
    if (this.#begun !== null) {
      const { length, bytes } = this.#begun
      this.#begun = null
      this.#content = Buffer.allocUnsafeSlow(length)
      this.#contentBytes = bytes.copy(this.#content)
    }
    while (at < chunk.length) {
      if (this.#content !== null) {
        at = this.#goOn(this.#content, chunk, at)
      } else if (this.#headBytes === 0 && chunk.length - at >= headBytes) {
        const length = this.lengthIn(chunk, at)
        at = this.#begin(length, chunk, at + headBytes)
      } else {
        this.#head[this.#headBytes++] = chunk[at++]!
        if (this.#headBytes < headBytes) continue
        this.#headBytes = 0
        at = this.#begin(this.lengthIn(this.#head, 0), chunk, at)
      }
    }
  }

  #begin(length: number, chunk: Buffer, at: number): number {
    if (chunk.length - at >= length) {
      this.onFrame(chunk.subarray(at, at + length))
      return at + length
    }
    this.#begun = { length, bytes: chunk.subarray(at) }
    return chunk.length
  }

  #goOn(content: Buffer, chunk: Buffer, at: number): number {
    const copied = chunk.copy(content, this.#contentBytes, at)
    this.#contentBytes += copied
    if (this.#contentBytes === content.length) {
      this.#content = null
      this.onFrame(content)
    }
    return at + copied
  }
}
