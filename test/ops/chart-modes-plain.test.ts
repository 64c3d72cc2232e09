/** Chart modes without signing keys, started as rendered: see chart-modes.test.ts. */
import t from 'tap'
import { startEtcd } from '../support/etcd-process.js'
import { freePort } from '../support/free-port.js'
import { plain, startMode } from './support/chart-mode.js'

void t.test('the modes that read an etcd without TLS become ready, without any keys', async (t) => {
  const etcd = await startEtcd(t)
  const etcdServers = [etcd.url]

  await t.test('sidecar-plaintext serves', async (t) => {
    const metricsBindAddress = `127.0.0.1:${await freePort()}`
    const { url } = await startMode(t, 'sidecar-plaintext', {}, { ...plain, etcdServers, metricsBindAddress })
    t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
    t.equal((await fetch(`http://${metricsBindAddress}/metrics`)).status, 200)
  })

  await t.test('the mode with writes reads its own writes', async (t) => {
    const { url } = await startMode(t, 'writes', {}, { ...plain, etcdServers })
    const collection = `${url}/apis/distributary.io/v1/flags`
    const body = { apiVersion: 'distributary.io/v1', kind: 'Flag', metadata: { name: 'a' }, value: { on: true } }
    const response = await fetch(collection, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    t.equal(response.status, 201, await response.text())
    t.match(await (await fetch(`${collection}/a`)).json(), { metadata: { name: 'a' } })
  })

  await t.test('the upstream mode is fed by another server, without etcd', async (t) => {
    const { url: upstream } = await startMode(t, 'writes', {}, { ...plain, etcdServers })
    const kubeconfig = JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'up', cluster: { server: upstream } }],
      users: [{ name: 'us', user: {} }],
      contexts: [{ name: 'up', context: { cluster: 'up', user: 'us' } }],
      'current-context': 'up',
    })
    const { url } = await startMode(t, 'upstream', { secrets: { upstream: { kubeconfig } } }, { ...plain, upstream })
    t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
  })
})
