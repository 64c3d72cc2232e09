/** The metrics of etcd's own API. The methods are those of the protocol, and `other` for any other path. */
import { counter, inProgress, type Recorders } from '../engine/model/metric.js'

export type WatchSource = 'cache' | 'etcd' | 'history' | 'none'

export const ETCD_API_METRICS = {
  requestEnded: counter<[method: string, code: string]>(
    'etcd_api_requests_total',
    "Requests of etcd's own API answered, streams included, by method and gRPC status code.",
    'method',
    'code',
  ),
  forwarded: counter<[method: string]>(
    'etcd_api_forwarded_total',
    "Requests of etcd's own API that were forwarded to etcd, because the cache does not have the answer or because they write.",
    'method',
  ),
  streams: inProgress<[method: string]>(
    'etcd_api_streams',
    "Open streams of etcd's own API: watch, lease-keep-alive.",
    'method',
  ),
  watches: inProgress<[source: WatchSource]>(
    'etcd_api_watches',
    "Watches of etcd's own API by the source of their events: cache; etcd, a separate watch on etcd, for keys outside the caches; history, a watch on etcd shared until the cache can continue; none, while waiting for a revision.",
    'source',
  ),
}
export type EtcdApiMetrics = Recorders<typeof ETCD_API_METRICS>
