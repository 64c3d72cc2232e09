/**
 * Detects that the other end of a connection has fallen silent.
 *
 * It counts its own ticks instead of measuring time, because between two ticks the event loop reads everything that has
 * arrived. A process that was held up (or a machine that slept) therefore sees one late tick, not silence.
 */
import type { Clock, Timer } from '../support/clock.js'

export interface SilenceOptions {
  readonly clock: Clock
  readonly tickMs: number
  /** The number of ticks without a call of `received` after which the other end counts as silent. */
  readonly ticks: number
  readonly onTick?: () => void
  /** Called once for each silence, with its length so far. */
  readonly onSilent: (silentMs: number) => void
}

export class Silence {
  #timer: Timer
  #ticks = 0
  #lastReceivedMs: number

  constructor(private readonly options: SilenceOptions) {
    this.#lastReceivedMs = options.clock.monotonic()
    this.#timer = this.#schedule()
  }

  received(): void {
    this.#ticks = 0
    this.#lastReceivedMs = this.options.clock.monotonic()
  }

  stop(): void {
    this.#timer.cancel()
  }

  #schedule(): Timer {
    return this.options.clock.setTimer(this.options.tickMs, () => this.#tick())
  }

  #tick(): void {
    const { clock, ticks, onTick, onSilent } = this.options
    this.#timer = this.#schedule()
    if (++this.#ticks === ticks) onSilent(clock.monotonic() - this.#lastReceivedMs)
    onTick?.()
  }
}
