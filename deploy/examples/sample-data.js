/**
 * Writes sample data to an etcd through its JSON gateway: pods on three nodes, and a shop's flags. Then it makes one change a
 * second until it is stopped. For a first look only, never for an etcd in use.
 *
 *   ETCD_URL=http://127.0.0.1:2379 node deploy/examples/sample-data.js
 *
 * CHANGES: how many changes before it ends. Default: no end.
 */
import { setTimeout as delay } from 'node:timers/promises'

const url = process.env.ETCD_URL ?? 'http://127.0.0.1:2379'
const changes = Number(process.env.CHANGES ?? Infinity)
const nodes = ['node-1', 'node-2', 'node-3']
const apps = ['cart', 'catalog', 'checkout', 'search']
const created = new Date().toISOString()

const base64 = (text) => Buffer.from(text).toString('base64')

async function put(key, value) {
  const body = JSON.stringify({ key: base64(key), value: base64(JSON.stringify(value)) })
  const response = await fetch(`${url}/v3/kv/put`, { method: 'POST', body })
  if (!response.ok) throw new Error(`etcd answered ${response.status}: ${await response.text()}`)
}

const object = (apiVersion, kind, metadata, rest) => ({
  apiVersion,
  kind,
  metadata: { ...metadata, uid: `sample-${kind}-${metadata.name}`.toLowerCase(), creationTimestamp: created },
  ...rest,
})

const pod = (app, i, restartCount = 0) => {
  const name = `${app}-${i}`
  const image = `example.org/${app}:1.${restartCount}.0`
  return object(
    'v1',
    'Pod',
    { name, namespace: 'shop', labels: { app } },
    {
      spec: { nodeName: nodes[i % nodes.length], containers: [{ name: app, image }] },
      status: {
        phase: 'Running',
        podIP: `10.0.${apps.indexOf(app)}.${i + 1}`,
        containerStatuses: [
          {
            name: app,
            image,
            imageID: '',
            ready: true,
            restartCount,
            state: { running: { startedAt: new Date().toISOString() } },
          },
        ],
      },
    },
  )
}

for (const name of ['default', 'shop']) {
  await put(`/registry/namespaces/${name}`, object('v1', 'Namespace', { name }, { status: { phase: 'Active' } }))
}
for (const name of nodes) {
  const conditions = [{ type: 'Ready', status: 'True' }]
  await put(`/registry/minions/${name}`, object('v1', 'Node', { name }, { status: { conditions } }))
}
for (const app of apps) for (let i = 0; i < 3; i++) await put(`/registry/pods/shop/${app}-${i}`, pod(app, i))
for (const app of apps) await put(`/config/flags/${app}`, { enabled: true, share: 100 })
process.stdout.write('the sample data is there\n')

for (let n = 1; n <= changes; n++) {
  if (changes === Infinity) await delay(1_000)
  const app = apps[n % apps.length]
  if (n % 3 === 0) await put(`/config/flags/${app}`, { enabled: n % 2 === 0, share: (n * 7) % 101 })
  else await put(`/registry/pods/shop/${app}-${n % 3}`, pod(app, n % 3, n))
}
