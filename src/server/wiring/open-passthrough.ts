/** Opens the servers to which this server forwards requests, as configured with `--passthrough` or `--apiservice`. */
import { watchCredentials } from '../auth/watched-credentials.js'
import { ApiServices } from '../transports/passthrough/api-services.js'
import { Passthrough, type PassthroughOptions } from '../transports/passthrough/passthrough.js'
import type { ServerDeps } from './server-deps.js'

/** Returns null without `--passthrough`. @throws Error for a certificate that cannot be read. */
export function openPassthrough(deps: ServerDeps, semaphores: PassthroughOptions['semaphores']): Passthrough | null {
  const { passthrough: url } = deps.config
  if (url === null) return null
  const passthrough = new Passthrough({
    url,
    name: 'the API server',
    onResponse: recorderOf(deps, 'passthrough'),
    ...sharedOptions(deps, semaphores),
  })
  deps.closing.add(() => passthrough.close())
  return passthrough
}

/**
 * Returns null with `--passthrough`, because the API server there has its own aggregated APIs.
 *
 * @throws Error for a certificate that cannot be read.
 */
export function openApiServices(deps: ServerDeps, semaphores: PassthroughOptions['semaphores']): ApiServices | null {
  const { config, clock, random, logger } = deps
  if (config.passthrough !== null) return null
  const addresses = config.apiservice.map(({ group, version, url }) => ({
    group,
    version,
    passthrough: new Passthrough({
      url,
      name: `the server of ${group}/${version}`,
      onResponse: recorderOf(deps, `${version}.${group}`),
      ...sharedOptions(deps, semaphores),
      keepsTokens: true,
      unreachableStatus: 503,
    }),
  }))
  return new ApiServices({ addresses, clock, random, logger })
}

function recorderOf({ metrics }: ServerDeps, server: string): (code: number, seconds: number) => void {
  return (code, seconds) => {
    metrics.requests.passed(server, String(code))
    metrics.requests.passedSeconds(server, seconds)
  }
}

const FILES = '--passthrough-cafile, --proxy-client-cert-file or --proxy-client-key-file'

/**
 * Returns the options that all servers behind this one have in common. Each call watches the files again, for one
 * server.
 */
function sharedOptions(
  { config, clock, logger, metrics }: ServerDeps,
  semaphores: PassthroughOptions['semaphores'],
): Pick<PassthroughOptions, 'credentials' | 'semaphores' | 'responseTimeoutMs' | 'stripHeaders' | 'clock'> {
  const { passthroughCafile: ca, proxyClientCertFile: cert, proxyClientKeyFile: key } = config
  return {
    credentials: watchCredentials({ ca, cert, key }, FILES, { clock, logger, metrics: metrics.process }),
    semaphores,
    responseTimeoutMs: config.requestTimeout,
    stripHeaders: config.passthroughStripHeaders,
    clock,
  }
}
