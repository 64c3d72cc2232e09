/**
 * Measures when the certificates that this server presents expire. Each file is reread when it changes. As in the code
 * that uses the file, the last readable content is in force. Authorities are left out, because a bundle may
 * legitimately contain an expired one.
 */
import { loadKubeconfig } from '../auth/kubeconfig.js'
import { parseCertificates } from '../auth/peer-certificate.js'
import { readKubeconfigFiles } from '../auth/watched-credentials.js'
import { WatchedFiles } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { Clock } from '../../support/clock.js'
import { silentLogger } from '../../support/log.js'
import type { Pem } from '../../support/tls-client-options.js'

/** This interval is long, because certificates last for days, and the code that uses them checks more often. */
const LOOK_MS = 10_000

interface Held {
  /** Who sees the certificate: the value of the label `use`. */
  readonly use: string
  readonly file: string | null
  /** Whether the file is a kubeconfig, which contains the certificate or names its file. */
  readonly isKubeconfig?: boolean
}

/** @returns a function that stops measuring. @throws Error for a file that cannot be read. */
export function followCertificateExpiry(config: Config, clock: Clock, metrics: Metrics): () => void {
  const held: readonly Held[] = [
    { use: 'clients', file: config.tlsCertFile },
    { use: 'etcd', file: config.etcdCertfile },
    { use: 'nats', file: config.natsCertfile },
    { use: 'passthrough', file: config.proxyClientCertFile },
    { use: 'upstream', file: config.kubeconfig, isKubeconfig: true },
    { use: 'authentication', file: config.authenticationKubeconfig, isKubeconfig: true },
    { use: 'authorization', file: config.authorizationKubeconfig, isKubeconfig: true },
  ]
  const followed = held.flatMap(({ use, file, isKubeconfig = false }) => {
    if (file === null) return []
    const watched = new WatchedFiles<number | null>(
      {
        paths: [file],
        clock,
        logger: silentLogger,
        intervalMs: LOOK_MS,
        ...(isKubeconfig ? { readFile: readKubeconfigFiles } : {}),
      },
      (content) => (isKubeconfig ? endOf(loadKubeconfig(file).cert) : endOf(content)),
    )
    const report = (endsAtMs: number | null): void => {
      if (endsAtMs !== null) metrics.process.certificateEnds(use, file, endsAtMs / 1_000)
    }
    watched.onChange(report)
    report(watched.value)
    return [watched]
  })
  return () => {
    for (const watched of followed) watched.close()
  }
}

/**
 * Returns the first expiry in a chain, in milliseconds since the epoch, because without one of its certificates the
 * others prove nothing.
 */
function endOf(pem: Pem | undefined): number | null {
  if (pem === undefined) return null
  const text = typeof pem === 'string' ? pem : Buffer.from(pem).toString()
  return Math.min(...parseCertificates(text).map(({ validTo }) => Date.parse(validTo)))
}
