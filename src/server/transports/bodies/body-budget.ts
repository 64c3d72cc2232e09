/**
 * Counts the bytes of all bodies being sent. Below the limit a body keeps all its pieces, so that others can share it.
 * Above the limit no new body begins, and the current bodies drop the pieces that all their readers have taken.
 */
import { TooManyRequestsError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'

export interface BodyBudgetOptions {
  readonly maxBytes: number
  /** How long a new body may wait for room. */
  readonly maxWaitMs: number
  readonly clock: Clock
  /** Called for each 429. */
  readonly onRejected: () => void
}

export class BodyBudget {
  readonly #waiting = new Set<() => void>()
  #bytes = 0
  #maxBytes: number

  constructor(private readonly options: BodyBudgetOptions) {
    this.#maxBytes = options.maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  get isSpent(): boolean {
    return this.#bytes >= this.#maxBytes
  }

  /** If the limit is lowered, current bodies continue, and no new body begins until their total is below the limit. */
  setMaxBytes(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.wake()
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  remove(bytes: number): void {
    this.#bytes -= bytes
    if (bytes > 0) this.wake()
  }

  /** Makes all waiting requests check again. */
  wake(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const look of waiting) look()
  }

  /** Resolves when bytes have been released. At most the requests in progress wait here. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve))
  }

  /** Waits until a new body may begin. @throws TooManyRequestsError; the signal's reason when it aborts. */
  async enter(signal: AbortSignal): Promise<void> {
    const { clock, maxWaitMs, onRejected } = this.options
    const untilMs = clock.monotonic() + maxWaitMs
    while (this.isSpent) {
      if (clock.monotonic() >= untilMs) {
        onRejected()
        throw new TooManyRequestsError('too many bytes of lists are being sent', 1)
      }
      await this.#changeOr(signal, untilMs - clock.monotonic())
      signal.throwIfAborted()
    }
  }

  async #changeOr(signal: AbortSignal, ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        timer.cancel()
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        resolve()
      }
      const timer = this.options.clock.setTimer(ms, done)
      signal.addEventListener('abort', done, { once: true })
      this.#waiting.add(done)
    })
  }
}
