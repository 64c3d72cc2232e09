import type { Config } from '../../src/server/config/load.js'
import { Metrics } from '../../src/server/metrics/metrics.js'
import type { CurrentConfig } from '../../src/server/wiring/live-config.js'
import type { ProcessOptions } from '../../src/server/wiring/server-process.js'
import { systemClock } from '../../src/support/clock.js'
import { silentLogger } from '../../src/support/log.js'
import { systemRandom } from '../../src/support/random.js'

const version = '0.0.0-test'

/** Wraps the configuration of a server that is never reconfigured. */
export function fixedConfig(config: Config): CurrentConfig {
  return { current: config, onChange: () => {} }
}

/** What a server gets from its process, for one in a test. */
export function processParts(config: Config, logger = silentLogger): Omit<ProcessOptions, 'upstream'> {
  return {
    config,
    live: fixedConfig(config),
    clock: systemClock,
    random: systemRandom,
    logger,
    metrics: new Metrics(version),
    version,
  }
}
