/**
 * The files with which this server authenticates to etcd: authorities, certificate, key, password. They are reread when
 * they change, and adopted only if usable: a half-written or broken file leaves the previous ones in force.
 */
import { WatchedFiles } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import type { Clock } from '../../support/clock.js'
import { assertUsable } from '../../support/https-agent.js'
import type { Logger } from '../../support/log.js'
import type { EtcdCredentials } from '../../engine/upstream/etcd/etcd-upstream.js'
import type { EtcdTls } from '../../engine/upstream/etcd/grpc-connection.js'
import { errorMessage } from '../../support/error-message.js'

/** @throws Error for an unusable file. */
export function watchEtcdCredentials(config: Config, clock: Clock, logger: Logger): WatchedFiles<EtcdCredentials> {
  const { etcdCafile, etcdCertfile, etcdKeyfile, etcdPasswordFile, etcdUsername } = config
  const files = [etcdCafile, etcdCertfile, etcdKeyfile, etcdPasswordFile]
  const paths = files.filter((path) => path !== null)
  return new WatchedFiles<EtcdCredentials>({ paths, clock, logger }, (...contents) => {
    const [ca, cert, key, password] = files.map((path) => (path === null ? undefined : contents.shift()))
    const tls = {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    }
    check(tls)
    const secret = password?.toString('utf8').replace(/\r?\n$/, '') ?? config.etcdPassword ?? ''
    return { tls, ...(etcdUsername === null ? {} : { user: { name: etcdUsername, password: secret } }) }
  })
}

function check(tls: EtcdTls): void {
  try {
    assertUsable(tls)
  } catch (error) {
    const reason = errorMessage(error)
    throw new Error(`--etcd-cafile, --etcd-certfile or --etcd-keyfile cannot be used: ${reason}`, { cause: error })
  }
}
