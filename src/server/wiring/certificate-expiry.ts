/**
 * Measures when the certificates end that this server shows to others. Each file is looked at again when it changes,
 * and like its users this keeps to the last content that could be read. Authorities are left out: a bundle of them may
 * well hold one that has ended.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { loadKubeconfig } from '../auth/kubeconfig.js'
import { readKubeconfigFiles } from '../auth/watched-credentials.js'
import { WatchedFiles } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { Clock } from '../../support/clock.js'
import { silentLogger } from '../../support/log.js'

/** A certificate lives for days, and its users look more often. */
const LOOK_MS = 10_000

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

interface Held {
  /** Whom it is shown to: the value of the label `use`. */
  readonly use: string
  readonly file: string | null
  /** Its file is a kubeconfig, with the certificate in it or beside it. */
  readonly isKubeconfig?: boolean
}

/** @returns a function that ends it. @throws Error for a file that cannot be read. */
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
        readFile: isKubeconfig ? readKubeconfigFiles : readFileSync,
      },
      (content) => (isKubeconfig ? endOf(loadKubeconfig(file).cert) : endOf(content)),
    )
    const tell = (endsAtMs: number | null): void => {
      if (endsAtMs !== null) metrics.process.certificateEnds(use, file, endsAtMs / 1_000)
    }
    watched.onChange(tell)
    tell(watched.value)
    return [watched]
  })
  return () => {
    for (const watched of followed) watched.close()
  }
}

/**
 * The first end in a chain, in milliseconds since the epoch: without one of its certificates the others prove nothing.
 */
function endOf(pem: string | Buffer | undefined): number | null {
  if (pem === undefined) return null
  const certificates = pem.toString().match(PEM) ?? []
  if (certificates.length === 0) throw new Error('there is no certificate in it')
  return Math.min(...certificates.map((one) => Date.parse(new X509Certificate(one).validTo)))
}
