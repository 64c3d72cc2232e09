/**
 * A clock that stands still until a test advances it, or that advances a little with each reading, as a real one does
 * within one turn; timers run in the order of their due times.
 */
import type { Clock, Timer } from '../../src/support/clock.js'

interface VirtualTimer {
  readonly dueMs: number
  readonly order: number
  readonly callback: () => void
}

export class VirtualClock implements Clock {
  readonly #timers = new Set<VirtualTimer>()
  #elapsedMs = 0
  #jumpedMs = 0
  #order = 0

  /**
   * @param startMs the initial `now()`. Default: 2026-01-01T00:00:00Z.
   * @param readMs how much it advances with each reading. Default: 0.
   */
  constructor(
    readonly startMs = Date.UTC(2026, 0, 1),
    readonly readMs = 0,
  ) {}

  now(): number {
    return this.startMs + this.#jumpedMs + this.monotonic()
  }

  /** Sets the time of day forward, or back if negative. No time passes. */
  jump(ms: number): void {
    this.#jumpedMs += ms
  }

  monotonic(): number {
    const elapsedMs = this.#elapsedMs
    this.#elapsedMs += this.readMs
    return elapsedMs
  }

  /** The number of pending timers. */
  get pending(): number {
    return this.#timers.size
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const timer: VirtualTimer = { dueMs: this.#elapsedMs + Math.max(0, delayMs), order: this.#order++, callback }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  /**
   * Runs every timer that falls due, including those set while it runs; nothing else of the event loop runs in between.
   */
  advance(ms: number): void {
    const untilMs = this.#elapsedMs + ms
    for (let timer = this.#nextDue(untilMs); timer !== null; timer = this.#nextDue(untilMs)) {
      this.#timers.delete(timer)
      this.#elapsedMs = Math.max(this.#elapsedMs, timer.dueMs)
      timer.callback()
    }
    this.#elapsedMs = Math.max(this.#elapsedMs, untilMs)
  }

  /**
   * As `advance`, but in steps, with a turn of the event loop after each, so that what a timer started can continue.
   */
  async advanceInTurns(ms: number, stepMs: number): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      this.advance(Math.min(stepMs, left))
      await nextTurn()
    }
  }

  #nextDue(untilMs: number): VirtualTimer | null {
    let next: VirtualTimer | null = null
    for (const timer of this.#timers) {
      if (timer.dueMs > untilMs) continue
      if (next === null || timer.dueMs < next.dueMs || (timer.dueMs === next.dueMs && timer.order < next.order)) {
        next = timer
      }
    }
    return next
  }
}

/** Resolves in a later turn of the event loop, after every microtask and `setImmediate` of this one. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
}
