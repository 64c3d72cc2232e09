/**
 * The slot that a feed takes to list or to compare histories, because etcd should serve only a few such reads at once.
 * A replay needs no slot. All feeds replay the same range of revisions, each for its own prefix, so together they
 * replay each event once, and etcd reads the range once for hundreds of waiting watches.
 */
import type { Semaphore } from '../../support/semaphore.js'

export class ListSlot {
  readonly #slots: Semaphore
  readonly #isAwaited: () => boolean
  #giveBack: (() => void) | null = null

  /** @param isAwaited whether a client waits for the resource; if so, its feed goes first. */
  constructor(slots: Semaphore, isAwaited: () => boolean) {
    this.#slots = slots
    this.#isAwaited = isAwaited
  }

  /** Waits for a slot unless the feed already has one. @throws the signal's reason. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#giveBack !== null) return
    const giveBack = await this.#slots.acquire(signal, this.#isAwaited)
    if (signal.aborted) {
      giveBack()
      throw signal.reason
    }
    this.#giveBack = giveBack
  }

  release(): void {
    this.#giveBack?.()
    this.#giveBack = null
  }
}
