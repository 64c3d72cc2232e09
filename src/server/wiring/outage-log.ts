/** Logs one line when the upstream goes down and one when it is back, however many resources come from it. */
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'

export interface OutageLogOptions {
  /** The reasons of all disconnected resources. */
  readonly reasons: () => readonly string[]
  readonly clock: Clock
  readonly logger: Logger
}

const LOOK_MS = 500

export class OutageLog {
  readonly #options: OutageLogOptions
  #timer: Timer | null = null
  #sinceMs: number | null = null

  constructor(options: OutageLogOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer = this.#options.clock.setTimer(LOOK_MS, () => {
      this.#look()
      this.start()
    })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #look(): void {
    const { clock, logger, reasons } = this.#options
    const away = reasons()
    if (away.length > 0 && this.#sinceMs === null) {
      this.#sinceMs = clock.monotonic()
      logger.warn({ resources: away.length, reason: away[0] }, 'upstream is away; serving from the cache')
    } else if (away.length === 0 && this.#sinceMs !== null) {
      logger.info({ seconds: (clock.monotonic() - this.#sinceMs) / 1000 }, 'upstream is back')
      this.#sinceMs = null
    }
  }
}
