/**
 * Checks the runtime, Node or Bun. Everything is tested on Node. Bun runs the same package and serves watches, without
 * the features that docs/guide/runtimes.md lists. On Bun the server logs a warning, and rejects options that cannot work
 * there.
 */
import type { Config } from '../config/load.js'
import { ConfigError } from '../config/config-error.js'
import type { Logger } from '../../support/log.js'

/** @throws ConfigError for options that cannot work under Bun. @param bun the version of Bun; undefined under Node. */
export function checkRuntime(config: Pick<Config, 'workers'>, logger: Logger, bun = process.versions['bun']): void {
  if (bun === undefined) return
  if (config.workers > 1) {
    throw new ConfigError([
      `--workers=${config.workers} needs Node: Bun ${bun} gives a worker no socket to its primary`,
    ])
  }
  logger.warn({ bun }, 'Bun is an experimental runtime: docs/guide/runtimes.md says what it lacks')
}
