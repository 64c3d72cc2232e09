/**
 * Shared by the feeds of one source while they read back history from before the start: a few take turns, and one log
 * line reports all of them.
 */
import type { Revision } from '../model/revision.js'
import type { Logger } from '../../support/log.js'
import { Semaphore } from '../../support/semaphore.js'

const READS_AT_ONCE = 4

export class EarlierReads {
  readonly slots = new Semaphore(READS_AT_ONCE)
  #running = 0
  #resources = 0
  #failed = 0
  #resumableAfter = 0

  begin(): void {
    this.#running++
  }

  /** @param after where the history begins now; null if none could be read. */
  end(after: Revision | null, logger: Logger): void {
    this.#running--
    if (after === null) this.#failed++
    else {
      this.#resources++
      this.#resumableAfter = Math.max(this.#resumableAfter, after)
    }
    if (this.#running > 0) return
    const reached = this.#resources === 0 ? {} : { resumableAfter: this.#resumableAfter }
    const fields = { resources: this.#resources, ...reached, withoutHistory: this.#failed }
    logger.info(fields, 'history from before the start')
    this.#resources = this.#failed = this.#resumableAfter = 0
  }
}
