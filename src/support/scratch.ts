/**
 * Temporary memory for bytes that the caller will soon copy. A slice of a reused buffer is cheaper than a new buffer.
 */

export class Scratch {
  #slab: Buffer | null = null
  #used = 0

  /** @param bytes the size of the reused buffer. */
  constructor(private readonly bytes: number) {}

  /** Returns uninitialized memory: a slice of the reused buffer, or a separate buffer once the reused one is full. */
  take(length: number): Buffer {
    if (this.#used + length > this.bytes) return Buffer.allocUnsafeSlow(length)
    this.#slab ??= Buffer.allocUnsafeSlow(this.bytes)
    const start = this.#used
    this.#used += length
    return this.#slab.subarray(start, this.#used)
  }

  /** Makes the whole buffer available again. Slices taken before must not be used any more. */
  reset(): void {
    this.#used = 0
  }
}
