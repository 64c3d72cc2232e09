/** What every stage of the server needs: the configuration, the clock, the logger and the like. */
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { StatusError } from '../../kubernetes/model/status.js'
import type { Ambient } from '../../support/ambient.js'
import type { Disposers } from './disposers.js'
import type { CurrentConfig } from './live-config.js'

export interface ServerDeps extends Ambient {
  readonly config: Config
  /** For options that may change while the server runs (`RELOADABLE`). */
  readonly live: CurrentConfig
  readonly metrics: Metrics
  /** Disposed with the process; each stage adds what it has opened. */
  readonly closing: Disposers
  /** Logs a bug in the server. The client sees only a 500. */
  readonly onInternalError: (error: StatusError) => void
}
