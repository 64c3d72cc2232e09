/** What a watch says while the history is still being compared, which takes milliseconds: bounded, in order, whole or not. */
import type { Batch } from '../model/event.js'

/** A comparison may take as long as a read may; what comes in that time may be anything. */
const MAX_HELD_BYTES = 64 * 1_048_576
/** Beside the value: key, numbers, and the objects around them. */
const EVENT_BYTES = 256

export class HeldBatches {
  #batches: Batch[] = []
  #bytes = 0
  #isWhole = true

  /** Beyond the bound the rest is let go, so what is held has no hole, and at least one batch is held. */
  add(batches: readonly Batch[]): void {
    for (const batch of batches) {
      this.#isWhole &&= this.#bytes <= MAX_HELD_BYTES
      if (!this.#isWhole) return
      this.#batches.push(batch)
      this.#bytes += sizeOf(batch)
    }
  }

  /** Empties it. Where it is not whole, what follows has to be asked for again. */
  take(): { readonly batches: readonly Batch[]; readonly isWhole: boolean } {
    const taken = { batches: this.#batches, isWhole: this.#isWhole }
    this.#batches = []
    this.#bytes = 0
    this.#isWhole = true
    return taken
  }
}

function sizeOf(batch: Batch): number {
  let bytes = 0
  for (const event of batch.events) bytes += EVENT_BYTES + (event.type === 'put' ? event.keyValue.value.length : 0)
  return bytes
}
