/**
 * Shows the progress of long work: a bar that is redrawn in place on a terminal, and a plain line from time to time
 * elsewhere.
 */
import type { Output } from './output.js'

export interface Step {
  /** The name of the work: `opening`. */
  readonly label: string
  readonly done: number
  readonly total: number
  /** Text after the bar: `1,234 events/s`. */
  readonly detail?: string
}

const BAR = 30
/** The time between two redraws, and between two plain lines. */
const REDRAW_MS = 100
const LINE_MS = 5_000

export class Progress {
  readonly #out: Output
  #lastAt = -Infinity
  #lastLabel = ''

  /** @param out stderr, so that a pipe gets nothing but the result. */
  constructor(out: Output) {
    this.#out = out
  }

  show({ label, done, total, detail = '' }: Step): void {
    const now = performance.now()
    const isEdge = label !== this.#lastLabel || done >= total
    const { isTerminal } = this.#out
    if (!isEdge && now - this.#lastAt < (isTerminal ? REDRAW_MS : LINE_MS)) return
    this.#lastAt = now
    this.#lastLabel = label
    const share = total === 0 ? 1 : Math.min(1, done / total)
    const text = `${label} ${Math.floor(share * 100)} %${detail === '' ? '' : `  ${detail}`}`
    if (!isTerminal) return void this.#out.line(text)
    const filled = Math.round(share * BAR)
    const bar = `[${'='.repeat(filled)}${' '.repeat(BAR - filled)}]`
    void this.#out.write(`\r${bar} ${text.slice(0, Math.max(10, this.#out.columns - BAR - 4))}\u001b[K`)
  }

  /** Clears the bar's line. */
  end(): void {
    if (this.#out.isTerminal && this.#lastLabel !== '') void this.#out.write('\r\u001b[K')
  }
}
