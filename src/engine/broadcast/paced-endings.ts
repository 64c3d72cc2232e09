/**
 * Ends many watchers a few at a time, because their clients come back at once. All resources of a process share one
 * pace: a role that is taken away ends the watchers of dozens of resources.
 */
import type { Clock, Timer } from '../../support/clock.js'
import type { Cursor } from './cursor.js'

/** The time between two steps. */
export const ENDING_STEP_MS = 50
/** The watchers that a step ends. This makes 200 a second, as when the API server stops. */
export const ENDINGS_PER_STEP = 10

interface Wave {
  /** The watchers that are left. */
  readonly cursors: Iterator<Cursor>
  readonly end: (cursor: Cursor) => void
  readonly isWanted: () => boolean
}

export class PacedEndings {
  readonly #clock: Clock
  readonly #waves: Wave[] = []
  #timer: Timer | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Ends the watchers, after those of earlier calls.
   * @param isWanted asked again before each watcher; once it returns false, those that are left go on.
   */
  add(cursors: Iterable<Cursor>, end: (cursor: Cursor) => void, isWanted: () => boolean): void {
    this.#waves.push({ cursors: [...cursors].values(), end, isWanted })
    if (this.#timer === null) this.#step()
  }

  #step(): void {
    // Planned first, so that an error in one step does not stop the others.
    this.#timer = this.#clock.setTimer(ENDING_STEP_MS, () => this.#step())
    for (let left = ENDINGS_PER_STEP; left > 0;) {
      const [wave] = this.#waves
      if (wave === undefined) return this.#rest()
      const next = wave.isWanted() ? wave.cursors.next() : null
      if (next === null || next.done === true) this.#waves.shift()
      else if (next.value.state !== 'ended') {
        left--
        wave.end(next.value)
      }
    }
  }

  #rest(): void {
    this.#timer?.cancel()
    this.#timer = null
  }
}
