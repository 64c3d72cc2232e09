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

  /** @param result where the history begins now; `none` if none could be read; `stopped` if the feed was stopped. */
  end(result: Revision | 'none' | 'stopped', logger: Logger): void {
    this.#running--
    if (result === 'none') this.#failed++
    else if (result !== 'stopped') {
      this.#resources++
      this.#resumableAfter = Math.max(this.#resumableAfter, result)
    }
    if (this.#running > 0 || this.#resources + this.#failed === 0) return
    const reached = this.#resources === 0 ? {} : { resumableAfter: this.#resumableAfter }
    const fields = { resources: this.#resources, ...reached, withoutHistory: this.#failed }
    logger.info(fields, 'history from before the start')
    this.#resources = this.#failed = this.#resumableAfter = 0
  }
}
