/** The servers to which other requests are forwarded, from the configuration: `--passthrough`, or `--apiservice`. */
import { watchCredentials } from '../auth/watched-credentials.js'
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import { ApiServices } from '../transports/passthrough/api-services.js'
import { Passthrough, type PassthroughOptions } from '../transports/passthrough/passthrough.js'
import type { Basis } from './basis.js'

export interface PassthroughParts {
  readonly config: Config
  readonly clock: Clock
  readonly metrics: Metrics
  readonly logger: Logger
  readonly semaphore: IdentitySemaphore
}

/** Returns null without `--passthrough`. @throws Error for a certificate that cannot be read. */
export function openPassthrough(parts: PassthroughParts & Pick<Basis, 'closing'>): Passthrough | null {
  const { config, clock, metrics, logger, semaphore } = parts
  const { passthrough: url, passthroughCafile } = config
  if (url === null) return null
  const passthrough = new Passthrough({
    url,
    name: 'the API server',
    onAnswered: answeredBy(metrics, 'passthrough'),
    credentials: credentialsOf(config, passthroughCafile, clock, logger),
    ...sharedOptions(config, clock, semaphore),
  })
  parts.closing.add(() => passthrough.close())
  return passthrough
}

export interface ApiServicesParts extends PassthroughParts {
  readonly random: Random
}

/**
 * Returns null with `--passthrough`: an API server has its own.
 *
 * @throws Error for a certificate that cannot be read.
 */
export function openApiServices({
  config,
  clock,
  random,
  logger,
  metrics,
  semaphore,
}: ApiServicesParts): ApiServices | null {
  if (config.passthrough !== null) return null
  const shared = sharedOptions(config, clock, semaphore)
  const addresses = config.apiservice.map(({ group, version, url }) => ({
    group,
    version,
    passthrough: new Passthrough({
      url,
      name: `the server of ${group}/${version}`,
      onAnswered: answeredBy(metrics, `${version}.${group}`),
      credentials: credentialsOf(config, config.apiserviceCafile, clock, logger),
      ...shared,
      keepsTokens: true,
      awayIs: 503,
    }),
  }))
  return new ApiServices({ addresses, clock, random, logger })
}

function answeredBy(metrics: Metrics, server: string): (code: number, seconds: number) => void {
  return (code, seconds) => metrics.requests.passed(server, code, seconds)
}

function credentialsOf(
  config: Config,
  ca: string | null,
  clock: Clock,
  logger: Logger,
): PassthroughOptions['credentials'] {
  return watchCredentials({ ca, cert: config.proxyClientCertFile, key: config.proxyClientKeyFile }, { clock, logger })
}

/** The options shared by all servers behind this one. */
function sharedOptions(
  config: Config,
  clock: Clock,
  semaphore: IdentitySemaphore,
): Pick<PassthroughOptions, 'semaphore' | 'responseTimeoutMs' | 'stripHeaders' | 'clock'> {
  const { passthroughTimeout: responseTimeoutMs, passthroughStripHeaders: stripHeaders } = config
  return { semaphore, responseTimeoutMs, stripHeaders, clock }
}
