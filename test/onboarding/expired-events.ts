/**
 * Kubernetes' own API server gives the Events of some seconds one lease, so that they expire together, at one revision.
 * A server that reads it (`--upstream`) sends each deletion to its watchers, and no watch ends.
 */
import t from 'tap'
import { create } from '../clients/support/api-server.js'
import { startApiServer, writeKubeconfig } from '../reference/control-plane.js'
import { buildKubernetes } from '../reference/programs.js'
import { startEtcd } from '../support/etcd-process.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { startInformer } from './informer.js'

/** The API server reuses a lease for a twentieth of its time. */
const TTL_SECONDS = 40
const EVENTS = 200

void t.test('Events that expire together all disappear, and no watch ends', async (t) => {
  const etcd = await startEtcd(t)
  const apiServer = await startApiServer(t, etcd.url, buildKubernetes('kube-apiserver'), [
    `--event-ttl=${TTL_SECONDS}s`,
  ])
  const server = await startServer(t, {
    flags: [
      '--port=0',
      `--upstream=https://127.0.0.1:${apiServer.server.port}`,
      `--kubeconfig=${writeKubeconfig(apiServer)}`,
    ],
  })
  let lists = 0
  const refused: number[] = []
  const informer = startInformer(t, `${server.url}/api/v1/events`, {
    onList: () => lists++,
    onRefused: (status) => refused.push(status),
  })
  await informer.whenSynced()
  const path = '/api/v1/namespaces/default/events'
  const involvedObject = { kind: 'Namespace', name: 'default', namespace: 'default' }
  const made = Array.from({ length: EVENTS }, async (_, i) => {
    await create(apiServer, path, { metadata: { name: `e${i}` }, involvedObject, reason: 'Test', message: 'test' })
  })
  await Promise.all(made)
  const held = (): readonly string[] => {
    const names = informer.store.list().map(({ metadata }) => metadata.name)
    return names.filter((name) => /^e\d/.test(name))
  }
  await until(() => held().length === EVENTS, 'it holds all')
  await until(
    () => held().length === 0,
    () => `all are gone, instead of ${held().length} left: ${server.log().split('\n').slice(-4).join('\n')}`,
    2_000 * TTL_SECONDS,
  )
  t.equal(lists, 1, 'it has listed once')
  t.same(refused, [])
})
