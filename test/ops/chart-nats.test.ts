/** The NATS of a release: its Secrets and sizes, and three servers started as rendered. */
import { readFileSync } from 'node:fs'
import { connect } from 'nats'
import t from 'tap'
import { createAuthority } from '../support/certificates.js'
import { startEtcd } from '../support/etcd-process.js'
import { modeValues, RELEASE, renderChart, type Values } from './support/chart.js'
import { plain, startMode } from './support/chart-mode.js'
import { startFleetNats } from './support/chart-nats.js'
import type { KubernetesObject } from './support/kubernetes-objects.js'
import { secretOf } from './support/machine.js'

const MODES = modeValues()
const open = { etcdServers: ['http://etcd:2379'], insecureBindAny: true }
const FLEET = { ...RELEASE, Name: 'fleet' }
const pem = (path: string): string => readFileSync(path, 'utf8')

const isData = ({ kind }: KubernetesObject): boolean => kind === 'Secret'

void t.test('credentials and certificates are created once, and kept over upgrades', async (t) => {
  const values = { config: open, nats: { enabled: true } }
  const first = renderChart(values).objects
  const again = renderChart(values, { cluster: first }).objects
  t.same(again.filter(isData), first.filter(isData))
  t.notSame(renderChart(values).objects.filter(isData), first.filter(isData), 'another release has others')
  const old = first.map((object) =>
    object.metadata.name === 'try-distributary-nats-auth'
      ? { ...object, data: { password: (object['data'] as Record<string, string>)['password'] } }
      : object,
  )
  const upgraded = secretOf({ objects: renderChart(values, { cluster: old }).objects }, 'try-distributary-nats-auth')
  t.equal(upgraded['password'], secretOf({ objects: first }, 'try-distributary-nats-auth')['password'])
  t.match(upgraded['edge-password'], /^p\w{39}$/, 'what a newer chart needs is added')
})

void t.test('the sizes fit the disk, and each stream has three replicas', async (t) => {
  for (const [nats, replicas, bytes] of [
    [{}, 3, '121MiB'],
    [{ storage: '100Gi' }, 3, '606MiB'],
    [{ replicas: 5 }, 3, '121MiB'],
    [{ replicas: 1, resourceCount: 200 }, 1, '46MiB'],
  ] as const) {
    const { objects } = renderChart({ config: open, nats: { enabled: true, ...nats } })
    const config = JSON.stringify(
      objects.find(({ kind, metadata }) => kind === 'ConfigMap' && !/nats/.test(metadata.name)),
    )
    t.match(config, `natsReplicas: ${replicas}`)
    t.match(config, `natsStreamBytes: ${bytes}`)
  }
})

void t.test('a signing key in a separate Secret reaches the server, with any NATS', async (t) => {
  const fleets: readonly Values[] = [
    { config: open, nats: { enabled: true } },
    { config: { ...open, natsServers: ['nats://nats:4222'] } },
  ]
  for (const fleet of fleets) {
    const { objects } = renderChart({ ...fleet, natsClient: { signingKeySecretName: 'fleet-key' } })
    const config = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && !/nats/.test(metadata.name))
    t.match(JSON.stringify(config), 'natsSigningKeyFile: /etc/distributary/nats/signing-key')
    const items = [{ key: 'signing-key', path: 'signing-key' }]
    const deployment = objects.find(({ kind }) => kind === 'Deployment')
    t.match(JSON.stringify(deployment), JSON.stringify({ secret: { name: 'fleet-key', items } }))
  }
})

void t.test('a NATS with existing Secrets serves candidates', async (t) => {
  const authority = createAuthority(t)
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const reader = authority.client('reader')
  const secrets = {
    'etcd-client': { 'ca.crt': pem(authority.ca), 'tls.crt': pem(reader.cert), 'tls.key': pem(reader.key) },
    'nats-auth': { password: 'p1', 'edge-password': 'p2', 'route-password': 'p3' },
    'nats-tls': { 'ca.crt': pem(authority.ca), 'tls.crt': pem(server.cert), 'tls.key': pem(server.key) },
  }
  const { objects } = renderChart(MODES.get('nats-secrets')!, { release: FLEET })
  const { nats } = await startFleetNats(t, objects, secrets)
  const { url } = await startMode(
    t,
    'nats-secrets',
    { secrets },
    { ...plain, etcdServers: [etcd.url], natsServers: nats.urls },
    FLEET,
  )
  t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
})

void t.test('passwords are required without TLS too', async (t) => {
  const values: Values = { config: open, nats: { enabled: true, tls: { enabled: false } } }
  const { objects } = renderChart(values, { release: FLEET })
  const { nats, secrets } = await startFleetNats(t, objects)
  await t.rejects(connect({ servers: nats.urls[0]!, reconnect: false }), /Authorization/)
  const pass = secrets['fleet-distributary-nats-auth']!['password']!
  const connection = await connect({ servers: nats.urls[0]!, user: 'distributary', pass, reconnect: false })
  await connection.close()
})
