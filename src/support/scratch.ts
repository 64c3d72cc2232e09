/**
 * Temporary space for bytes that the caller will soon copy: a slice of a reused buffer is cheaper than a new buffer.
 */

export class Scratch {
  readonly #bytes: number
  #slab: Buffer | null = null
  #used = 0

  /** @param bytes the size of the reused buffer. */
  constructor(bytes: number) {
    this.#bytes = bytes
  }

  /** The content is arbitrary. Once the room is used up, returns a separate buffer. */
  take(length: number): Buffer {
    if (this.#used + length > this.#bytes) return Buffer.allocUnsafeSlow(length)
    this.#slab ??= Buffer.allocUnsafeSlow(this.#bytes)
    const start = this.#used
    this.#used += length
    return this.#slab.subarray(start, this.#used)
  }

  /** Frees everything that was taken. */
  reset(): void {
    this.#used = 0
  }
}
