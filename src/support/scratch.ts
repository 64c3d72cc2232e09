/** Room for bytes that their user copies before long: a part of a buffer that is used again costs less than a buffer. */

export class Scratch {
  readonly #bytes: number
  #slab: Buffer | null = null
  #used = 0

  /** @param bytes of the buffer that is used again. */
  constructor(bytes: number) {
    this.#bytes = bytes
  }

  /** Its content is arbitrary. Once the room is used up, it is a separate buffer. */
  take(length: number): Buffer {
    if (this.#used + length > this.#bytes) return Buffer.allocUnsafeSlow(length)
    this.#slab ??= Buffer.allocUnsafeSlow(this.#bytes)
    const start = this.#used
    this.#used += length
    return this.#slab.subarray(start, this.#used)
  }

  /** Everything that was taken is no longer needed. */
  reset(): void {
    this.#used = 0
  }
}
