/** What every stage of the server needs: the configuration, the clock, the logger and the like. */
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { StatusError } from '../../engine/model/status.js'
import type { Clock } from '../../support/clock.js'
import type { Disposers } from '../../support/disposers.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { CurrentConfig } from './live-config.js'

export interface Basis {
  readonly config: Config
  /** For options that may change while the server runs (`RELOADABLE`). */
  readonly live: CurrentConfig
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** Disposed with the process; each stage adds what it has opened. */
  readonly closing: Disposers
  /** Logs a bug in the server. The client sees only a 500. */
  readonly onInternalError: (error: StatusError) => void
}
