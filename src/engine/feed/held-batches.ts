/**
 * Holds the batches of a watch while the history is still being compared, which usually takes milliseconds. The buffer
 * is bounded and ordered, and remembers whether it had to drop batches.
 */
import type { Batch } from '../model/event.js'
import { MAX_HELD_BYTES } from '../model/limits.js'

/** The approximate memory of an event without its value: key, numbers, and the objects around them. */
const EVENT_BYTES = 256

export class HeldBatches {
  #batches: Batch[] = []
  #bytes = 0
  #isWhole = true

  /**
   * Adds batches until the bound is exceeded, and drops all later ones, so the held batches have no gap. At least one
   * batch is held.
   */
  add(batches: readonly Batch[]): void {
    for (const batch of batches) {
      this.#isWhole &&= this.#bytes <= MAX_HELD_BYTES
      if (!this.#isWhole) return
      this.#batches.push(batch)
      this.#bytes += sizeOf(batch)
    }
  }

  /** Empties the buffer. If it is not whole, the dropped batches must be requested again. */
  take(): { readonly batches: readonly Batch[]; readonly isWhole: boolean } {
    const taken = { batches: this.#batches, isWhole: this.#isWhole }
    this.#batches = []
    this.#bytes = 0
    this.#isWhole = true
    return taken
  }
}

/** Returns the approximate size in bytes. */
export function sizeOf(batch: Batch): number {
  let bytes = 0
  for (const event of batch.events) bytes += EVENT_BYTES + (event.type === 'put' ? event.keyValue.value.length : 0)
  return bytes
}
