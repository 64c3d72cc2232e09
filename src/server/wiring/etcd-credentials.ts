/**
 * The files with which this server authenticates to etcd: authorities, certificate, key, password. The files are reread
 * when they change. New content is adopted only if it is usable, so after a half-written or broken file the previous
 * content stays in force.
 */
import { watchCredentials } from '../auth/watched-credentials.js'
import type { WatchedFiles } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import type { FileMetrics } from '../metrics/process-metrics.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { EtcdCredentials } from '../../engine/upstream/etcd/etcd-upstream.js'

/** @throws Error for an unusable file. */
export function watchEtcdCredentials(
  config: Config,
  clock: Clock,
  logger: Logger,
  metrics?: FileMetrics,
): WatchedFiles<EtcdCredentials> {
  const { etcdCafile: ca, etcdCertfile: cert, etcdKeyfile: key, etcdPasswordFile, etcdUsername: name } = config
  return watchCredentials<EtcdCredentials>(
    { ca, cert, key, password: etcdPasswordFile },
    '--etcd-cafile, --etcd-certfile or --etcd-keyfile',
    { clock, logger, metrics },
    ({ password = '', ...tls }) => ({ tls, ...(name === null ? {} : { user: { name, password } }) }),
  )
}
