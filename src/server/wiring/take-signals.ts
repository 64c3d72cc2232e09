/**
 * Handles the signals of a process without workers, or of the primary, and defines what every process of a server gets
 * at its start.
 */
import closeWithGrace from 'close-with-grace'
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { Logger } from '../../support/log.js'
import { stopExitingOnSignals } from './early-signals.js'
import type { TraceExport } from './export-traces.js'
import type { LiveConfig } from './live-config.js'

export interface Started {
  readonly config: Config
  readonly live: LiveConfig
  readonly logger: Logger
  readonly version: string
  readonly metrics: Metrics
  readonly traces: TraceExport
}

export interface SignalHandlers {
  /** Called on SIGHUP, after the configuration was read again. */
  hangUp(): void
  checkConsistency(): Promise<unknown>
  /** Called on SIGTERM, on SIGINT and after a fatal error. */
  stop(): Promise<void>
  /** How much longer than the configuration allows `stop` may take, in milliseconds. */
  readonly moreMs: number
}

/**
 * Call this before the server listens. Without a listener, a signal kills the process and all its connections at once.
 */
export function takeSignals({ config, live, logger, traces }: Started, handlers: SignalHandlers): void {
  process.on('SIGHUP', () => {
    live.reload()
    handlers.hangUp()
  })
  process.on('SIGUSR2', () => {
    handlers.checkConsistency().catch((err: unknown) => logger.error({ err }, 'the consistency check failed'))
  })
  const skip: closeWithGrace.AllEvents[] = ['SIGHUP', 'SIGUSR2']
  const delay = config.shutdownDelayDuration + config.shutdownGracePeriod + handlers.moreMs
  closeWithGrace({ delay, logger: false, skip }, async ({ signal, err }) => {
    if (err !== undefined) logger.error({ err }, 'stopping after an error')
    else logger.info({ signal }, 'draining')
    live.close()
    await handlers.stop()
    await traces.stop()
    logger.info({}, 'stopped')
  })
  stopExitingOnSignals()
}
