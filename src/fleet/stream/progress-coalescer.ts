/**
 * Passes progress to a stream at a limited rate: only the newest of many, and only if it is new.
 *
 * Every consistent read of every replica asks for progress, and each answer would be a message: a busy edge would fill
 * the stream of a quiet resource and push its history out. The first progress after a pause is passed on at once, so
 * that a single read does not wait.
 */
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'

/** The time between two marks: at most twenty a second, and no read waits longer than this for its mark. */
const GAP_MS = 50

export class ProgressCoalescer {
  readonly #clock: Clock
  readonly #let: (revision: Revision) => void
  /** The revision already in the stream. */
  #told: Revision = ZERO_REVISION
  #waiting: Revision = ZERO_REVISION
  #toldMs = Number.NEGATIVE_INFINITY
  #timer: Timer | null = null

  constructor(clock: Clock, letThrough: (revision: Revision) => void) {
    this.#clock = clock
    this.#let = letThrough
  }

  offer(revision: Revision): void {
    if (revision <= this.#told || revision <= this.#waiting) return
    this.#waiting = revision
    if (this.#timer !== null) return
    const leftMs = this.#toldMs + GAP_MS - this.#clock.monotonic()
    if (leftMs <= 0) this.#release()
    else this.#timer = this.#clock.setTimer(leftMs, () => this.#release())
  }

  /** Called when events reach this revision, which makes progress up to it redundant. */
  reached(revision: Revision): void {
    if (revision > this.#told) this.#told = revision
  }

  /** Called when a whole state begins at this revision, which may be an earlier one. */
  reset(revision: Revision): void {
    this.stop()
    this.#told = revision
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#waiting = ZERO_REVISION
  }

  #release(): void {
    const revision = this.#waiting
    this.stop()
    if (revision <= this.#told) return
    this.#told = revision
    this.#toldMs = this.#clock.monotonic()
    this.#let(revision)
  }
}
