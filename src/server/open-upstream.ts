/** What is read and written by its own protocol, from the configuration: etcd, or the in-process store. */
import { readFileSync } from 'node:fs'
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import type { Logger } from '../support/log.js'
import { startDemoCluster } from '../upstream/embedded/demo/demo-cluster.js'
import { createEmbeddedUpstream } from '../upstream/embedded/embedded-upstream.js'
import { connectEtcd } from '../upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../upstream/upstream.js'
import { noUpstream } from './nats-fleet.js'

/** @throws Error when a file cannot be read. */
export function openUpstream(config: Config, logger: Logger, metrics: Metrics): Upstream {
  if (config.embedded) {
    const upstream = createEmbeddedUpstream()
    startDemoCluster(upstream)
    return upstream
  }
  if (config.upstream !== null) return noUpstream('what comes by --upstream is only read')
  if (config.etcdServers.length === 0) return noUpstream('an edge has no route to etcd (--nats-role=edge)')
  const { etcdCafile, etcdCertfile, etcdKeyfile, etcdUsername } = config
  const user = etcdUsername === null ? {} : { user: { name: etcdUsername, password: etcdPassword(config) } }
  const tls = {
    ...(etcdCafile === null ? {} : { ca: readFileSync(etcdCafile) }),
    ...(etcdCertfile === null ? {} : { cert: readFileSync(etcdCertfile) }),
    ...(etcdKeyfile === null ? {} : { key: readFileSync(etcdKeyfile) }),
  }
  return connectEtcd({ endpoints: config.etcdServers, tls, ...user, logger, metrics: metrics.requests })
}

function etcdPassword({ etcdPasswordFile, etcdPassword: password }: Config): string {
  return etcdPasswordFile === null ? (password ?? '') : readFileSync(etcdPasswordFile, 'utf8').replace(/\r?\n$/, '')
}
