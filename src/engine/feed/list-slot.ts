/**
 * The slot in which a feed lists and replays: etcd serves only a few of them at once. The feed returns it when it
 * starts watching, or when its replay has held up the next feed for too long.
 */
import type { Clock, Timer } from '../../support/clock.js'
import type { Semaphore } from '../../support/semaphore.js'

/** A replay that takes longer stops holding up the next feed. */
const REPLAY_MS = 30_000

export class ListSlot {
  readonly #slots: Semaphore
  readonly #clock: Clock
  readonly #isAwaited: () => boolean
  #giveBack: (() => void) | null = null
  #timer: Timer | null = null

  /** @param isAwaited whether a client waits for the resource: its feed goes first. */
  constructor(slots: Semaphore, clock: Clock, isAwaited: () => boolean) {
    this.#slots = slots
    this.#clock = clock
    this.#isAwaited = isAwaited
  }

  /** Waits for a slot, unless the feed has one. @throws the reason of the signal. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#giveBack !== null) return
    const giveBack = await this.#slots.acquire(signal, this.#isAwaited)
    if (signal.aborted) {
      giveBack()
      throw signal.reason
    }
    this.#giveBack = giveBack
  }

  /** Called when a replay begins: the slot is kept for a limited time from now on. */
  limit(): void {
    this.#timer ??= this.#clock.setTimer(REPLAY_MS, () => this.release())
  }

  release(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#giveBack?.()
    this.#giveBack = null
  }
}
