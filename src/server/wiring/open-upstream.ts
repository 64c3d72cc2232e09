/** Opens the etcds or the in-process store, as configured. */
import type { Config } from '../config/load.js'
import type { Metrics } from '../metrics/metrics.js'
import { systemClock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { startSampleCluster } from '../../sample/sample-cluster.js'
import { EmbeddedUpstream } from '../../engine/upstream/embedded/embedded-upstream.js'
import { connectEtcd } from '../../engine/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import type { OtherEtcd } from '../../kubernetes/dialect/other-etcds.js'
import { explainConnection } from '../../support/explain-connection.js'
import { watchEtcdCredentials } from './etcd-credentials.js'
import { noUpstream } from './nats-fleet.js'

const TLS_FLAGS = { ca: '--etcd-cafile', cert: '--etcd-certfile', key: '--etcd-keyfile' }

export interface OtherUpstream extends OtherEtcd {
  readonly upstream: Upstream
}

export interface Upstreams {
  readonly upstream: Upstream
  /** The etcds of the resources that are stored elsewhere. */
  readonly others: readonly OtherUpstream[]
}

/** @throws Error for an unusable file. */
export function openUpstreams(config: Config, logger: Logger, metrics: Metrics): Upstreams {
  if (config.embedded) {
    const upstream = new EmbeddedUpstream()
    startSampleCluster(upstream)
    return { upstream, others: [] }
  }
  if (config.upstream !== null) return { upstream: noUpstream('resources of --upstream are read-only'), others: [] }
  if (config.etcdServers.length === 0)
    return { upstream: noUpstream('an edge has no route to etcd (--nats-role=edge)'), others: [] }
  const credentials = watchEtcdCredentials(config, systemClock, logger, metrics.process)
  const explain = (reason: string, url: string): string => explainConnection(reason, url, TLS_FLAGS)
  const followCredentials = credentials.onChange.bind(credentials)
  const connect = (endpoints: readonly string[]): Upstream =>
    connectEtcd({ endpoints, ...credentials.value, followCredentials, explain, logger, metrics: metrics.upstream })
  return {
    upstream: connect(config.etcdServers),
    others: config.otherEtcds.map((etcd) => ({ ...etcd, upstream: connect(etcd.servers) })),
  }
}

export async function closeAll({ upstream, others }: Upstreams): Promise<void> {
  await Promise.all([upstream.close(), ...others.map((other) => other.upstream.close())])
}
