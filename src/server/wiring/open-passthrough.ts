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
  const { config, metrics } = parts
  const { passthrough: url } = config
  if (url === null) return null
  const passthrough = new Passthrough({
    url,
    name: 'the API server',
    onAnswered: answeredBy(metrics, 'passthrough'),
    ...sharedOptions(parts),
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
export function openApiServices(parts: ApiServicesParts): ApiServices | null {
  const { config, clock, random, logger, metrics } = parts
  if (config.passthrough !== null) return null
  const addresses = config.apiservice.map(({ group, version, url }) => ({
    group,
    version,
    passthrough: new Passthrough({
      url,
      name: `the server of ${group}/${version}`,
      onAnswered: answeredBy(metrics, `${version}.${group}`),
      ...sharedOptions(parts),
      keepsTokens: true,
      awayIs: 503,
    }),
  }))
  return new ApiServices({ addresses, clock, random, logger })
}

function answeredBy(metrics: Metrics, server: string): (code: number, seconds: number) => void {
  return (code, seconds) => {
    metrics.requests.passed(server, String(code))
    metrics.requests.passedSeconds(server, seconds)
  }
}

const FILES = '--passthrough-cafile, --proxy-client-cert-file or --proxy-client-key-file'

/** The options of every server behind this one, each with files that it watches itself. */
function sharedOptions({
  config,
  clock,
  logger,
  metrics,
  semaphore,
}: PassthroughParts): Pick<
  PassthroughOptions,
  'credentials' | 'semaphore' | 'responseTimeoutMs' | 'stripHeaders' | 'clock'
> {
  const { passthroughCafile: ca, proxyClientCertFile: cert, proxyClientKeyFile: key } = config
  return {
    credentials: watchCredentials({ ca, cert, key }, FILES, { clock, logger, metrics: metrics.process }),
    semaphore,
    responseTimeoutMs: config.requestTimeout,
    stripHeaders: config.passthroughStripHeaders,
    clock,
  }
}
