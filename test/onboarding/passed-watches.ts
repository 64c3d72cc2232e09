/**
 * Informers follow Secrets, which the replicas do not serve, so all their requests are forwarded to Kubernetes' own API
 * server. A rolling update of the replicas causes no list; a restart of the API server causes one, as it does without
 * distributary.
 */
import t from 'tap'
import { create } from '../clients/support/api-server.js'
import { until } from '../support/until.js'
import { startInformer } from './informer.js'
import { fromEtcd, restartOf, startReplicas } from './replicas.js'

const INFORMERS = 10

void t.test('informers whose watches are passed through rarely relist', async (t) => {
  const replicas = await startReplicas(t, fromEtcd)
  const { stage, apiServer } = replicas
  const secrets = '/api/v1/namespaces/default/secrets'
  await create(apiServer, secrets, { metadata: { name: 'first' } })
  const lists = Array.from({ length: INFORMERS }, () => 0)
  const refused: number[] = []
  const informers = lists.map((_, i) =>
    startInformer(t, `${stage.url}/api/v1/secrets`, {
      onList: () => lists[i]!++,
      onRefused: (status) => refused.push(status),
    }),
  )
  await Promise.all(informers.map(async (informer) => await informer.whenSynced()))
  const disruptions = [
    { name: 'update', disrupt: async () => await stage.update(), most: 1 },
    { name: 'kill-9', disrupt: async () => await stage.killOne(), most: 1 },
    { name: 'restart', disrupt: restartOf(t, replicas, `${secrets}/first`).disrupt, most: 2 },
    { name: 'second-update', disrupt: async () => await stage.update(), most: 2 },
  ]
  for (const { name, disrupt, most } of disruptions) {
    await disrupt(stage)
    await create(apiServer, secrets, { metadata: { name } })
    await until(
      () => informers.every(({ store }) => store.list().some(({ metadata }) => metadata?.name === name)),
      () => `all have the Secret ${name}: ${refused.join()}`,
      60_000,
    )
    t.ok(
      lists.every((count) => count <= most),
      `${name}: lists ${lists.join()}`,
    )
    const others = refused.splice(0)
    t.comment(`${name}: lists ${lists.join()}; refused with ${others.join()}`)
    t.notOk(
      others.some((status) => [401, 403, 404].includes(status)),
      'no 401, 403 or 404',
    )
  }
})
