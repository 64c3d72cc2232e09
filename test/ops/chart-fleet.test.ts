/**
 * A fleet as the chart installs it: three NATS servers and candidates of the release "fleet", and an edge of another
 * release with the Secrets of the first.
 */
import { readFileSync } from 'node:fs'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from 'nats'
import t from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { silentLogger } from '../../src/support/log.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { createAuthority } from '../support/certificates.js'
import { startEtcd } from '../support/etcd-process.js'
import { modeValues, RELEASE, renderChart } from './support/chart.js'
import { plain, startMode } from './support/chart-mode.js'
import { startFleetNats } from './support/chart-nats.js'

const FLEET = { ...RELEASE, Name: 'fleet' }
const pem = (path: string): string => readFileSync(path, 'utf8')

void t.test('candidates and edges share a NATS that accepts no other client', async (t) => {
  const authority = createAuthority(t)
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const reader = authority.client('reader')
  const keys = { 'ca.crt': pem(authority.ca), 'tls.crt': pem(reader.cert), 'tls.key': pem(reader.key) }
  const candidate = renderChart(modeValues().get('candidate')!, { release: FLEET }).objects
  const { nats, secrets } = await startFleetNats(t, candidate, { 'etcd-client': keys })
  const auth = secrets['fleet-distributary-nats-auth']!
  const ca = secrets['fleet-distributary-nats-tls']!['ca.crt']!
  const user = (name: string, pass: string): Promise<NatsConnection> =>
    connect({ servers: nats.urls[0]!, user: name, pass, tls: { ca }, reconnect: false, timeout: 10_000 })

  await t.test('a client without the password or the authority is rejected', async (t) => {
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
  await startMode(t, 'candidate', { secrets }, { ...plain, etcdServers, natsServers }, FLEET)
  const edge = await startMode(t, 'edge', { secrets }, { ...plain, natsServers })

  await t.test('an edge has etcd’s state and receives its changes', async (t) => {
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

  await t.test('an edge’s password does not allow writing to a stream', async (t) => {
    const connection = await user('edge', auth['edge-password']!)
    t.teardown(() => connection.close())
    const js = jetstream(connection, { timeout: 1_000 })
    const [stream] = (await (await jetstreamManager(connection)).streams.names().next()).filter((name) =>
      name.includes('configmaps'),
    )
    t.ok(stream)
    const { subjects } = (await (await jetstreamManager(connection)).streams.info(stream!)).config
    await t.rejects(js.publish(subjects[0]!, Buffer.from('{}')), 'an event')
    const manager = await jetstreamManager(connection, { timeout: 1_000 })
    await t.rejects(manager.streams.purge(stream!), 'the end of a stream')
    await t.rejects(manager.streams.delete(stream!))
    const kv = jetstream(connection, { timeout: 1_000 })
    await t.rejects(kv.publish('$KV.DISTRIBUTARY_default.lease.x', Buffer.from('{}')), 'a lease')
    await t.rejects(kv.publish('$O.DISTRIBUTARY_default.C.x', Buffer.from('{}')), 'a snapshot')
  })
})
