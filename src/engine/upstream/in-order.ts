/**
 * Runs each step immediately, unless an earlier step is still running. In that case the step waits, and steps run in
 * order.
 */
import { sourceTurns } from '../../support/turns.js'

/** A step returns a promise only if it takes time. A rejection is a programming error. */
export type Step = () => void | Promise<void>

export class InOrder {
  #waiting: Step[] = []
  #isBusy = false
  #isStopped = false
  readonly #onBusy: (isBusy: boolean) => void

  /** @param onBusy called when a step takes time, and when everything has been done. */
  constructor(onBusy: (isBusy: boolean) => void = () => {}) {
    this.#onBusy = onBusy
  }

  do(step: Step): void {
    if (this.#isStopped) return
    if (this.#isBusy) return void this.#waiting.push(step)
    const pending = step()
    if (pending !== undefined) void this.#drain(pending)
  }

  /** Drops all waiting steps and runs no more. */
  stop(): void {
    this.#isStopped = true
    this.#waiting = []
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  async #drain(pending: Promise<void>): Promise<void> {
    this.#isBusy = true
    this.#onBusy(true)
    await pending
    for (let step = this.#waiting.shift(); step !== undefined; step = this.#waiting.shift()) {
      if (sourceTurns.isOver) await sourceTurns.take()
      if (!this.#isStopped) await step()
    }
    this.#isBusy = false
    this.#onBusy(false)
  }
}
