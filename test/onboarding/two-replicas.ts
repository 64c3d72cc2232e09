/**
 * Kubernetes' own API server is killed and restarted while client-go's informers and its leader election use two
 * replicas behind one address; then again, and etcd too, at the moment at which one of the replicas is killed. The
 * lease is held and nothing is missed; no other request gets 401, 403, 404 or an empty list, and each 429 or 503 has
 * Retry-After.
 */
import t from 'tap'
import { followThrough } from '../clients/support/client-go.js'
import { fromEtcd, fromUpstream, jointRestartsOf, restartOf, type Source, startReplicas } from './replicas.js'

/** client-go gives a lease up when it cannot renew it for ten seconds, no matter who does not answer. */
const LEASE_MS = 8_000

/** With `expire`, watches end with 410, and each informer begins again once, or not if nothing happened in between. */
const sources: readonly { readonly name: string; readonly source: Source; readonly relists: number }[] = [
  { name: '--upstream, --on-gap=coalesce', source: fromUpstream('coalesce'), relists: 0 },
  { name: '--upstream, --on-gap=expire', source: fromUpstream('expire'), relists: 1 },
  { name: 'etcd', source: fromEtcd, relists: 0 },
]

for (const { name, source, relists } of sources) {
  for (const watchList of [true, false]) {
    void t.test(`${name}, ${watchList ? 'WatchList' : 'list and watch'}`, async (t) => {
      const replicas = await startReplicas(t, source)
      const object = '/apis/coordination.k8s.io/v1/namespaces/default/leases/held'
      const disruptions = [restartOf(t, replicas, object), ...jointRestartsOf(t, replicas, object)]
      await followThrough(t, replicas.stage, disruptions, {
        watchList,
        relists,
        mayLose: () => disruptions.some(({ awayMs }) => awayMs > LEASE_MS),
      })
    })
  }
}
