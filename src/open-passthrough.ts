/** The server that answers what is not answered here, from the configuration: what `--passthrough` means. */
import { readFileSync } from 'node:fs'
import type { Config } from './config/load.js'
import type { Clock } from './support/clock.js'
import { Passthrough, type PassthroughOptions } from './transports/passthrough/passthrough.js'

/** null: nobody does. @throws Error for a certificate that cannot be read. */
export function openPassthrough(config: Config, clock: Clock, onRejected: () => void): Passthrough | null {
  const { passthrough: url, passthroughCafile } = config
  if (url === null) return null
  const ca = passthroughCafile === null ? {} : { ca: readFileSync(passthroughCafile) }
  return new Passthrough({ url, name: 'the API server', ...ca, ...sharedOptions(config, clock, onRejected) })
}

/** What holds wherever a request is passed on to. */
export function sharedOptions(
  { proxyClientCertFile, proxyClientKeyFile, passthroughMaxRequests, passthroughTimeout }: Config,
  clock: Clock,
  onRejected: () => void,
): Pick<PassthroughOptions, 'proxyCertificate' | 'maxRequests' | 'responseTimeoutMs' | 'clock' | 'onRejected'> {
  return {
    proxyCertificate:
      proxyClientCertFile === null || proxyClientKeyFile === null
        ? null
        : { cert: readFileSync(proxyClientCertFile), key: readFileSync(proxyClientKeyFile) },
    maxRequests: passthroughMaxRequests,
    responseTimeoutMs: passthroughTimeout,
    clock,
    onRejected,
  }
}
