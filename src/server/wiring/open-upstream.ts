/** Opens etcd or the in-process store, as configured. */
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import { systemClock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { startSampleCluster } from '../../engine/upstream/embedded/sample-cluster.js'
import { createEmbeddedUpstream } from '../../engine/upstream/embedded/embedded-upstream.js'
import { connectEtcd } from '../../engine/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import { watchEtcdCredentials } from './etcd-credentials.js'
import { noUpstream } from './nats-fleet.js'

/** @throws Error for an unusable file. */
export function openUpstream(config: Config, logger: Logger, metrics: Metrics): Upstream {
  if (config.embedded) {
    const upstream = createEmbeddedUpstream()
    startSampleCluster(upstream)
    return upstream
  }
  if (config.upstream !== null) return noUpstream('resources of --upstream are only read')
  if (config.etcdServers.length === 0) return noUpstream('an edge has no route to etcd (--nats-role=edge)')
  const credentials = watchEtcdCredentials(config, systemClock, logger)
  const followCredentials = credentials.onChange.bind(credentials)
  const shared = { followCredentials, logger, metrics: metrics.requests }
  return connectEtcd({ endpoints: config.etcdServers, ...credentials.value, ...shared })
}
