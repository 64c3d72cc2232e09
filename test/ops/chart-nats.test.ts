/**
 * The NATS that a release brings, started as it is rendered: three servers that know each other, clients that need a
 * password and TLS, and the modes of a fleet on top of it. An edge is another release, with the Secrets of the first.
 */
import { readFileSync } from 'node:fs'
import { connect, type NatsConnection } from 'nats'
import t, { type Test } from 'tap'
import { connectEtcd } from '../../src/upstream/etcd/etcd-upstream.js'
import { keyFromText } from '../../src/model/event.js'
import { silentLogger } from '../../src/support/log.js'
import { createAuthority } from '../support/certificates.js'
import { startEtcd } from '../support/etcd-process.js'
import { modeValues, RELEASE, renderChart, type Values } from './support/chart.js'
import { type ChartNats, startChartNats } from './support/chart-nats.js'
import type { KubernetesObject } from './support/kubernetes-objects.js'
import { placeContainer, readdress, type Secrets, secretOf } from './support/machine.js'
import { startServerProcess } from './support/server-process.js'

const MODES = modeValues()
const open = { etcdServers: ['http://etcd:2379'], insecureBindAny: true }
const FLEET = { ...RELEASE, Name: 'fleet' }
const pem = (path: string): string => readFileSync(path, 'utf8')

const isData = ({ kind }: KubernetesObject): boolean => kind === 'Secret'

void t.test('credentials and certificates are made once, and kept over upgrades', async (t) => {
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
  t.match(upgraded['edge-password'], /^p\w{39}$/, 'what a newer chart needs besides is added')
})

void t.test('the sizes fit the disk, and each stream has three replicas', async (t) => {
  for (const [nats, replicas, bytes] of [
    [{}, 3, '128MiB'],
    [{ storage: '100Gi' }, 3, '640MiB'],
    [{ replicas: 5 }, 3, '128MiB'],
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

interface Fleet {
  readonly nats: ChartNats
  readonly secrets: Secrets
}

async function startFleetNats(t: Test, objects: readonly KubernetesObject[], secrets: Secrets = {}): Promise<Fleet> {
  const nats = await startChartNats(t, 'fleet-distributary-nats', 3, { objects, secrets })
  const made = objects.filter(isData).map(({ metadata }) => [metadata.name, secretOf({ objects }, metadata.name)])
  return { nats, secrets: { ...secrets, ...Object.fromEntries(made) } }
}

/** The server of a release, when it is ready. */
async function startMode(t: Test, objects: readonly KubernetesObject[], secrets: Secrets, addresses: object) {
  const replace = (text: string): string =>
    text.includes('bindAddress:') ? readdress(text, { bindAddress: '127.0.0.1', port: 0, ...addresses }) : text
  const { args, environment } = placeContainer(t, 'distributary', { objects, secrets, replace })
  return startServerProcess(t, { args, environment })
}

void t.test('candidates and edges over a NATS that lets nobody else in', async (t) => {
  const authority = createAuthority(t)
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const reader = authority.client('reader')
  const keys = { 'ca.crt': pem(authority.ca), 'tls.crt': pem(reader.cert), 'tls.key': pem(reader.key) }
  const candidate = renderChart(MODES.get('candidate')!, { release: FLEET }).objects
  const { nats, secrets } = await startFleetNats(t, candidate, { 'etcd-client': keys })
  const auth = secrets['fleet-distributary-nats-auth']!
  const ca = secrets['fleet-distributary-nats-tls']!['ca.crt']!
  const user = (name: string, pass: string): Promise<NatsConnection> =>
    connect({ servers: nats.urls[0]!, user: name, pass, tls: { ca }, reconnect: false, timeout: 10_000 })

  await t.test('who has no password, or does not know the authority, stays out', async (t) => {
    await t.rejects(connect({ servers: nats.urls[0]!, tls: { ca }, reconnect: false }), /Authorization/)
    await t.rejects(user('distributary', auth['edge-password']!), /Authorization/)
    await t.rejects(
      connect({ servers: nats.urls[0]!, user: 'distributary', pass: auth['password']!, reconnect: false }),
      /certificate/i,
    )
  })

  const etcdServers = [etcd.url]
  const natsServers = nats.urls
  const writer = connectEtcd({
    endpoints: etcdServers,
    tls: { ca: Buffer.from(pem(authority.ca)), cert: Buffer.from(pem(reader.cert)), key: Buffer.from(pem(reader.key)) },
    logger: silentLogger,
  })
  t.teardown(() => writer.close())
  const put = (name: string): Promise<unknown> => {
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'a' }, data: {} }
    const key = keyFromText(`/registry/configmaps/a/${name}`)
    return writer.write([], [{ type: 'put', key, value: Buffer.from(JSON.stringify(object)) }])
  }
  await put('before')
  await startMode(t, candidate, secrets, { etcdServers, natsServers })
  const edgeObjects = renderChart(MODES.get('edge')!).objects
  const edge = await startMode(t, edgeObjects, secrets, { natsServers })

  await t.test('an edge has what etcd has, and is told what is new', async (t) => {
    await put('after')
    const list = (await (await fetch(`${edge.url}/api/v1/namespaces/a/configmaps`)).json()) as {
      items: { metadata: { name: string } }[]
    }
    t.same(
      list.items.map(({ metadata }) => metadata.name),
      ['after', 'before'],
      'a consistent read goes to the publisher',
    )
  })

  await t.test('each stream has three replicas', async (t) => {
    const { account_details: accounts } = (await nats.monitor('/jsz?streams=true&config=true&accounts=true')) as {
      account_details: { stream_detail: { name: string; config: { num_replicas: number; max_bytes: number } }[] }[]
    }
    const streams = accounts.flatMap((account) => account.stream_detail)
    t.ok(streams.length > 50, `${streams.length} streams`)
    for (const { name, config } of streams) t.equal(config.num_replicas, 3, name)
    const reserved = streams.reduce((sum, { config }) => sum + Math.max(0, config.max_bytes), 0)
    t.ok(reserved < 20 * 2 ** 30 * 0.5, 'and they leave room for the snapshots')
  })

  await t.test('an edge’s password forges nothing', async (t) => {
    const connection = await user('edge', auth['edge-password']!)
    t.teardown(() => connection.close())
    const js = connection.jetstream({ timeout: 1_000 })
    const [stream] = (await (await connection.jetstreamManager()).streams.names().next()).filter((name) =>
      name.includes('configmaps'),
    )
    t.ok(stream)
    const { subjects } = (await (await connection.jetstreamManager()).streams.info(stream!)).config
    await t.rejects(js.publish(subjects[0]!, Buffer.from('{}')), 'an event')
    const manager = await connection.jetstreamManager({ timeout: 1_000 })
    await t.rejects(manager.streams.purge(stream!), 'the end of a stream')
    await t.rejects(manager.streams.delete(stream!))
    const kv = connection.jetstream({ timeout: 1_000 })
    await t.rejects(kv.publish('$KV.DISTRIBUTARY_default.lease.x', Buffer.from('{}')), 'a lease')
    await t.rejects(kv.publish('$O.DISTRIBUTARY_default.C.x', Buffer.from('{}')), 'a snapshot')
  })
})

void t.test('origin: a NATS whose Secrets were there before', async (t) => {
  const authority = createAuthority(t)
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const reader = authority.client('reader')
  const secrets = {
    'etcd-client': { 'ca.crt': pem(authority.ca), 'tls.crt': pem(reader.cert), 'tls.key': pem(reader.key) },
    'nats-auth': { password: 'p1', 'edge-password': 'p2', 'route-password': 'p3' },
    'nats-tls': { 'ca.crt': pem(authority.ca), 'tls.crt': pem(server.cert), 'tls.key': pem(server.key) },
  }
  const { objects } = renderChart(MODES.get('origin')!, { release: FLEET })
  const { nats } = await startFleetNats(t, objects, secrets)
  const { url } = await startMode(t, objects, secrets, { etcdServers: [etcd.url], natsServers: nats.urls })
  t.equal((await fetch(`${url}/api/v1/pods`)).status, 501, 'it publishes, and serves nobody')
})

void t.test('without TLS passwords are needed all the same', async (t) => {
  const values: Values = { config: open, nats: { enabled: true, tls: { enabled: false } } }
  const { objects } = renderChart(values, { release: FLEET })
  const { nats, secrets } = await startFleetNats(t, objects)
  await t.rejects(connect({ servers: nats.urls[0]!, reconnect: false }), /Authorization/)
  const pass = secrets['fleet-distributary-nats-auth']!['password']!
  const connection = await connect({ servers: nats.urls[0]!, user: 'distributary', pass, reconnect: false })
  await connection.close()
})
