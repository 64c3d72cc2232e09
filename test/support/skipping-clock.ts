/**
 * Real time that a test can skip ahead: for tests that span hours with real sockets, which a virtual clock cannot
 * drive. Timers run when they are due by real or skipped time, whichever comes first.
 */
import { type Clock, systemClock, type Timer } from '../../src/support/clock.js'
import { pause } from './until.js'

interface SkippingTimer {
  readonly dueMs: number
  readonly callback: () => void
  real: Timer | null
}

export class SkippingClock implements Clock {
  readonly #timers = new Set<SkippingTimer>()
  #skippedMs = 0

  now(): number {
    return systemClock.now() + this.#skippedMs
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#skippedMs
  }

  /** The number of pending timers. */
  get pending(): number {
    return this.#timers.size
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const timer: SkippingTimer = { dueMs: this.monotonic() + delayMs, callback, real: null }
    timer.real = systemClock.setTimer(delayMs, () => this.#run(timer))
    this.#timers.add(timer)
    return {
      cancel: () => {
        timer.real?.cancel()
        this.#timers.delete(timer)
      },
    }
  }

  /** Skips `ms` in steps, with a little real time after each, so that sockets can respond. */
  async skip(ms: number, stepMs: number): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      this.#skippedMs += Math.min(left, stepMs)
      const nowMs = this.monotonic()
      const due = [...this.#timers].filter(({ dueMs }) => dueMs <= nowMs).sort((a, b) => a.dueMs - b.dueMs)
      for (const timer of due) this.#run(timer)
      await pause(2)
    }
  }

  #run(timer: SkippingTimer): void {
    if (!this.#timers.delete(timer)) return
    timer.real?.cancel()
    timer.callback()
  }
}
