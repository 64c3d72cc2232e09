/**
 * Kubernetes' own API server is killed and restarted while Patroni holds its lock through two replicas behind one
 * address, which pass its writes to that API server. PostgreSQL is the primary throughout.
 */
import t from 'tap'
import { create } from '../clients/support/api-server.js'
import { keepLock } from '../clients/support/patroni.js'
import { fromEtcd, fromUpstream, restartOf, startReplicas } from './replicas.js'

const POD = 'database'

for (const [name, source] of [
  ['--upstream', fromUpstream('coalesce')],
  ['etcd', fromEtcd],
] as const) {
  void t.test(name, async (t) => {
    const replicas = await startReplicas(t, source)
    await create(replicas.apiServer, '/api/v1/namespaces/default/pods', {
      metadata: { name: POD, labels: { application: 'patroni', 'cluster-name': 'demo' } },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    })
    // The API server starts in three seconds, and in fifteen on a busy machine.
    const restart = restartOf(t, replicas, '/api/v1/namespaces/default/configmaps/demo-leader')
    await keepLock(t, replicas.stage, [restart], { pod: POD, retrySeconds: 30 })
  })
}
