/** A fleet over a real nats-server, with the in-process etcd where etcd's own behaviour does not matter. */
import { jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect } from 'nats'
import t from 'tap'
import { namesOf } from '../../src/fleet/stream/names.js'
import { NatsClient } from '../../src/fleet/nats/nats-client.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { UpstreamError } from '../../src/engine/upstream/upstream.js'
import { systemClock } from '../../src/support/clock.js'
import { until } from '../support/until.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { startNats } from '../support/nats-process.js'
import {
  CountedUpstream,
  type Replica,
  startReplica,
  startReplicas,
  stateOf,
  stateOfUpstream,
  things,
} from './nats-harness.js'

/** Waits until every replica has everything and is ready. */
async function caughtUp(etcd: CountedUpstream, replicas: readonly Replica[]): Promise<void> {
  const last = etcd.embedded.revision
  await until(
    () => replicas.every(({ sink }) => sink.isSynced && sink.revision >= last),
    `all at ${last}: ${replicas.map(({ sink }) => `${sink.revision}${sink.isSynced ? '' : ' unsynced'}`).join(', ')}`,
  )
}

void t.test('four replicas share one watch, and each has every batch whole and once', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  for (let i = 0; i < 20; i++) etcd.put(`old-${i}`)
  const servers = [nats.url]
  const options = { servers, upstream: etcd.upstream }
  const replicas = [0, 1].map(() => startReplica(t, options))
  for (let i = 0; i < 2; i++) replicas.push(startReplica(t, { ...options, role: 'edge' }))
  await until(() => replicas.every(({ sink }) => sink.isSynced), 'all are ready')
  for (let i = 0; i < 300; i++) {
    if (i % 10 === 0) etcd.commit({ a: `${i}`, b: `${i}`, [`old-${i % 20}`]: i % 20 === 0 ? null : 'x' })
    else etcd.put(`n-${i % 50}`)
  }
  await caughtUp(etcd, replicas)
  // On a busy machine another replica may take over.
  await until(() => etcd.watches === 1, 'etcd has one watch')
  await until(() => replicas.filter(({ isPublishing }) => isPublishing).length === 1, 'one publishes')
  const parts = (): string =>
    replicas
      .map(({ feed }) => String(feed.status.part))
      .toSorted((a, b) => a.localeCompare(b))
      .join()
  await until(
    () => parts() === 'follows,follows,follows,publishes',
    () => `the status page shows it: ${parts()}`,
  )
  const expected = await stateOfUpstream(etcd.upstream)
  for (const { sink, metrics } of replicas) {
    t.same(stateOf(sink), expected)
    t.equal(metrics.broke, 0)
    t.same(sink.batches.find(({ events }) => events.length === 3)?.events.length, 3, 'a revision stays together')
  }
})

void t.test('replicas that leave out different fields share no stream', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const stripping = { ...things, stripped: ['metadata.managedFields'] }
  const whole = startReplica(t, options)
  await until(() => whole.sink.isSynced && whole.isPublishing, 'the first publishes')
  const edge = startReplicas(t, { ...options, role: 'edge', resources: [stripping] })[0]!
  const stripped = startReplicas(t, { ...options, resources: [stripping] })[0]!
  await until(() => stripped.isPublishing && edge.sink.isSynced, 'the other publishes, for the edge like it')
  await until(() => whole.isPublishing, 'the first goes on')
  etcd.put('b')
  await caughtUp(etcd, [whole, stripped, edge])
  t.equal(etcd.watches, 2)
  t.not(namesOf('c', stripping).stream, namesOf('c', things).stream)
  t.equal(namesOf('c', { ...things, stripped: [] }).stream, namesOf('c', things).stream)
})

void t.test('when the publisher goes, another continues exactly after the last published revision', async (t) => {
  const nats = await startNats(t)
  const proxy = await startFaultProxy({ targetPort: nats.port })
  t.teardown(() => proxy.close())
  const etcd = new CountedUpstream()
  etcd.put('a')
  const first = startReplica(t, { servers: [`nats://127.0.0.1:${proxy.port}`], upstream: etcd.upstream })
  await until(() => first.sink.isSynced && first.isPublishing, 'the first publishes')
  const others = [0, 1].map(() => startReplica(t, { servers: [nats.url], upstream: etcd.upstream }))
  const edge = startReplica(t, { servers: [nats.url], upstream: etcd.upstream, role: 'edge' })
  await caughtUp(etcd, [...others, edge])
  for (let i = 0; i < 50; i++) etcd.put(`k${i}`)
  proxy.stall('to-server')
  for (let i = 50; i < 100; i++) etcd.put(`k${i}`)
  await until(() => others.some(({ isPublishing }) => isPublishing), 'another is elected')
  for (let i = 100; i < 150; i++) etcd.put(`k${i}`)
  await caughtUp(etcd, [...others, edge])
  proxy.release('to-server')
  for (let i = 150; i < 200; i++) etcd.put(`k${i}`)
  await caughtUp(etcd, [first, ...others, edge])
  await until(() => etcd.watches === 1, 'one watch again')
  for (const { sink, metrics } of [first, ...others, edge]) {
    t.equal(sink.of('replace').length, 1, 'nobody lost history')
    t.equal(sink.batches.length, 200, 'each revision once')
    t.equal(metrics.broke, 0)
  }
})

/** Ways in which a stream may end before another publisher takes over, each with the number of marks at its end. */
const streamEnds = { batches: 0, 'one mark': 1, 'many marks': 20 }
for (const [name, marks] of Object.entries(streamEnds)) {
  void t.test(`a history that differs in an older key is detected by the next publisher, after ${name}`, async (t) => {
    const nats = await startNats(t)
    const etcd = new CountedUpstream()
    const options = { servers: [nats.url], upstream: etcd.upstream }
    const first = startReplica(t, options)
    await until(() => first.sink.isSynced && first.isPublishing, 'the first publishes')
    const edge = startReplica(t, { ...options, role: 'edge' })
    await caughtUp(etcd, [first, edge])
    const backup = etcd.embedded.snapshot()
    const write = async (value: string): Promise<void> => {
      etcd.put('a', value)
      for (let i = 0; i < 5; i++) etcd.put('b', `${i}`)
      for (let i = 0; i < marks; i++) {
        etcd.embedded.commit([{ type: 'put', key: keyFromText('/registry/others/a'), value: Buffer.from(`${i}`) }])
        if (first.isPublishing) edge.freshness.requestProgress()
        if (first.isPublishing) await until(() => edge.sink.revision >= etcd.embedded.revision, 'a mark')
      }
    }
    await write('1')
    await caughtUp(etcd, [first, edge])
    await first.stop()
    etcd.embedded.restore(backup, { clusterId: (await etcd.upstream.status()).clusterId })
    await write('2')
    const second = startReplica(t, options)
    await until(() => second.isPublishing && second.sink.isSynced, 'the second publishes')
    await until(() => edge.sink.of('replace').length === 2, 'the edge receives a new state')
    t.match(edge.sink.of('replace')[1], /history-changed/)
    await caughtUp(etcd, [second, edge])
    t.same(stateOf(edge.sink), await stateOfUpstream(etcd.upstream))
  })
}

void t.test(
  'a replica that continues from etcd while NATS is unreachable detects a difference in an older key',
  async (t) => {
    const nats = await startNats(t)
    const etcd = new CountedUpstream()
    const options = { servers: [nats.url], upstream: etcd.upstream }
    const publisher = startReplica(t, options)
    await until(() => publisher.sink.isSynced && publisher.isPublishing, 'one publishes')
    const bypass = startReplica(t, { ...options, fallbackAfterMs: 1_000 })
    await caughtUp(etcd, [publisher, bypass])
    const backup = etcd.embedded.snapshot()
    etcd.put('a', '1')
    etcd.put('b', '1')
    await caughtUp(etcd, [publisher, bypass])
    await nats.kill()
    etcd.embedded.restore(backup, { clusterId: (await etcd.upstream.status()).clusterId })
    etcd.put('a', '2')
    etcd.put('b', '1')
    // On a busy machine a lease may have been lost before, which does not matter here.
    await until(() => /history-changed/.test(bypass.sink.of('replace').at(-1) ?? ''), 'it lists again')
    t.same(stateOf(bypass.sink), await stateOfUpstream(etcd.upstream))
  },
)

void t.test('the stream accepts only one of two simultaneous publishers, and the chain stays intact', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const one = startReplica(t, options)
  await until(() => one.isPublishing && one.sink.isSynced, 'one publishes')
  // The lease is repeatedly taken from the publisher, so for a while each candidate believes that it holds it.
  const other = startReplica(t, options)
  const edge = startReplica(t, { ...options, role: 'edge' })
  await caughtUp(etcd, [one, other, edge])
  const client = await NatsClient.connect({ servers: [nats.url], name: 'thief' }, systemClock)
  t.teardown(() => client.close())
  const { bucket, leaseKey } = namesOf('test', things)
  const leases = client.bucket(bucket, { replicas: 1, blobAgeMs: 3_600_000 })
  for (let round = 0; round < 4; round++) {
    const lease = await leases.kvGet(leaseKey)
    await leases.kvUpdate(leaseKey, Buffer.alloc(0), lease?.revision ?? 0).catch(() => {})
    for (let i = 0; i < 50; i++) {
      etcd.put(`r${round}-${i}`)
      if (i % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 30))
    }
  }
  await caughtUp(etcd, [one, other, edge])
  for (const { sink, metrics } of [one, other, edge]) {
    t.equal(sink.batches.length, 200, 'each revision once')
    t.equal(sink.of('replace').length, 1)
    t.equal(metrics.broke, 0)
  }
})

void t.test('a batch larger than a message arrives whole', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const publisher = startReplica(t, options)
  const edge = startReplica(t, { ...options, role: 'edge' })
  await until(() => publisher.sink.isSynced && edge.sink.isSynced, 'ready')
  const large = Buffer.alloc(700_000, 'x')
  etcd.commit({ a: large, b: large, c: large, d: 'small' })
  etcd.put('after')
  await caughtUp(etcd, [publisher, edge])
  t.equal(edge.sink.batches[0]?.events.length, 4)
  t.same(stateOf(edge.sink), await stateOfUpstream(etcd.upstream))
  const late = startReplica(t, { ...options, role: 'edge' })
  await caughtUp(etcd, [late])
  t.same(stateOf(late.sink), await stateOfUpstream(etcd.upstream))
})

void t.test(
  'a brand-new edge holds history from before it started; consistent reads go through the publisher',
  async (t) => {
    const nats = await startNats(t)
    const etcd = new CountedUpstream()
    etcd.put('a')
    const options = { servers: [nats.url], upstream: etcd.upstream, snapshotMessages: 6 }
    const publisher = startReplica(t, options)
    await until(() => publisher.sink.isSynced, 'ready')
    for (let i = 0; i < 100; i++) {
      etcd.put(`k${i % 10}`)
      if (i % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await until(() => {
      if (publisher.metrics.snapshots >= 2) return true
      // On a slow machine many writes share one message.
      etcd.put('k0')
      return false
    }, 'snapshots at a pace')
    await caughtUp(etcd, [publisher])
    const unreachable = new CountedUpstream()
    const edge = startReplica(t, { ...options, upstream: unreachable.upstream, role: 'edge' })
    await caughtUp(etcd, [edge])
    t.ok(edge.sink.batches.length >= 90, `${edge.sink.batches.length} revisions to resume at`)
    t.equal(unreachable.watches, 0)
    // A write under another prefix advances etcd's revision, which an edge learns only from a progress mark.
    etcd.embedded.commit([{ type: 'put', key: '/registry/other/x' as never, value: Buffer.from('x') }])
    const now = etcd.embedded.revision
    t.equal(await edge.freshness.currentRevision(), now)
    t.ok(edge.freshness.trustsProgress)
    await until(() => {
      edge.freshness.requestProgress()
      return edge.sink.revision >= now
    }, 'a progress mark at or after it')
    const state = await edge.freshness.readState(now)
    t.equal(state.keyValues.length, 11, 'exact reads too')
    t.equal((await edge.freshness.readKey('/registry/things/a' as never))?.value.toString(), 'v1')
  },
)

void t.test('replicas report that NATS is unreachable, and catch up on their own when it is back', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const plain = startReplica(t, options)
  const edge = startReplica(t, { ...options, role: 'edge' })
  const bypass = startReplica(t, { ...options, fallbackAfterMs: 1_000 })
  await caughtUp(etcd, [plain, edge, bypass])
  await nats.kill()
  for (let i = 0; i < 30; i++) etcd.put(`k${i}`)
  await until(() => edge.sink.reason !== null && plain.sink.reason !== null, 'both report that NATS is unreachable')
  await until(() => bypass.sink.revision >= etcd.embedded.revision, 'one continues from etcd itself')
  t.equal(edge.sink.revision, 2, 'the edge serves what it has')
  await nats.restart()
  for (let i = 30; i < 60; i++) etcd.put(`k${i}`)
  await caughtUp(etcd, [plain, edge, bypass])
  await until(() => [plain, edge, bypass].every(({ sink }) => sink.reason === null), 'and that it is back')
  for (let i = 60; i < 70; i++) etcd.put(`k${i}`)
  await caughtUp(etcd, [plain, edge, bypass])
  await until(() => etcd.watches === 1, 'one watch again')
  for (const { sink } of [plain, edge, bypass]) {
    // On a slow machine the fallback is faster than NATS at the start, and then both begin.
    t.same([...new Set(sink.of('replace'))], ['2 initial'], 'nobody lost history')
    t.equal(sink.batches.length, 70)
  }
})

void t.test('a candidate continues from etcd while no publisher sends its status, although NATS is up', async (t) => {
  const nats = await startNats(t)
  const proxy = await startFaultProxy({ targetPort: nats.port })
  t.teardown(() => proxy.close())
  const etcd = new CountedUpstream()
  etcd.put('a')
  // Nobody takes the lease over in the meantime.
  const options = { upstream: etcd.upstream, leaseMs: 120_000 }
  const publisher = startReplica(t, { ...options, servers: [`nats://127.0.0.1:${proxy.port}`] })
  await until(() => publisher.isPublishing && publisher.sink.isSynced, 'one publishes')
  const candidate = startReplica(t, { ...options, servers: [nats.url], fallbackAfterMs: 1_000 })
  const edge = startReplica(t, { ...options, servers: [nats.url], role: 'edge', fallbackAfterMs: 1_000 })
  await caughtUp(etcd, [publisher, candidate, edge])
  proxy.stall()
  etcd.put('unpublished')
  await until(() => candidate.sink.revision >= etcd.embedded.revision, 'the candidate has it from etcd')
  t.equal(candidate.feed.status.part, 'direct')
  await until(() => edge.sink.reason !== null, 'an edge, which has no route to etcd, reports that it is old')
  t.ok(edge.sink.revision < etcd.embedded.revision)
  for (let i = 0; i < 20; i++) etcd.put(`k${i}`)
  proxy.release()
  proxy.cut()
  await until(() => candidate.feed.status.part === 'follows', 'it follows the stream again')
  for (let i = 20; i < 40; i++) etcd.put(`k${i}`)
  await caughtUp(etcd, [publisher, candidate, edge])
  await until(() => etcd.watches === 1, 'one watch again')
  for (const { sink } of [publisher, candidate, edge]) {
    t.equal(sink.batches.length, 41, 'each revision once')
    t.equal(sink.of('replace').length, 1, 'nobody lost history')
  }
})

void t.test('a source that refuses the publisher refuses every replica, until it allows the watch again', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const replicas = [startReplica(t, options), startReplica(t, { ...options, role: 'edge' })]
  await caughtUp(etcd, replicas)
  const denied = new UpstreamError('permission-denied', 'no')
  etcd.embedded.failWatches(denied)
  etcd.embedded.cutWatches(denied)
  await until(() => replicas.every(({ sink }) => sink.of('refused').length > 0), 'every replica learns that')
  etcd.put('b')
  etcd.embedded.failWatches(null)
  await caughtUp(etcd, replicas)
  await until(() => replicas.every(({ sink }) => sink.reason === null), 'and that it is over')
  for (const { sink } of replicas) t.equal(sink.of('replace').length, 1, 'nobody lost history')
})

void t.test('a compaction past the end of the stream is a gap at every replica, never a hole', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const first = startReplica(t, options)
  const edge = startReplica(t, { ...options, role: 'edge' })
  await caughtUp(etcd, [first, edge])
  await first.stop()
  for (let i = 0; i < 20; i++) etcd.put(`k${i % 3}`)
  etcd.embedded.compact(etcd.embedded.revision)
  etcd.put('after')
  const second = startReplica(t, options)
  await caughtUp(etcd, [second, edge])
  t.match(edge.sink.of('replace').at(-1), /gap$/)
  t.same(stateOf(edge.sink), await stateOfUpstream(etcd.upstream))
})

void t.test('a consistency check of an edge compares it with etcd through the publisher, and repairs it', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  for (let i = 0; i < 30; i++) etcd.put(`k${i}`)
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const publisher = startReplica(t, options)
  const edge = startReplica(t, { ...options, role: 'edge', upstream: new CountedUpstream().upstream })
  await caughtUp(etcd, [publisher, edge])
  for (const { feed } of [publisher, edge])
    t.match(await feed.checkConsistency!(), { kind: 'equal', keys: 30, values: 20 })
  for (const [key] of [...edge.sink.state].slice(0, 2)) edge.sink.state.delete(key)
  t.match(await edge.feed.checkConsistency!(), { kind: 'different', differences: 2 })
  const expected = await stateOfUpstream(etcd.upstream)
  await until(() => edge.sink.state.size === 30 && edge.sink.isSynced, 'it has taken a snapshot')
  t.same(stateOf(edge.sink), expected)
  t.match(await edge.feed.checkConsistency!(), { kind: 'equal' })
  await publisher.stop()
  t.match(await edge.feed.checkConsistency!(), { kind: 'skipped', reason: /the publisher/ })
})

void t.test(
  'leases and the snapshot index are read from the leader, whichever release created their bucket',
  async (t) => {
    const password = 'p'
    const nats = await startNats(t, {
      config: `authorization { users: [
      { user: admin, password: ${password} }
      { user: us, password: ${password}, permissions: { publish: { deny: "$JS.API.DIRECT.>" } } }
    ] }`,
    })
    const connectAs = async (name: string): Promise<NatsClient> => {
      const user = { name, password: () => password }
      const client = await NatsClient.connect({ servers: [nats.url], name, user }, systemClock)
      t.teardown(() => client.close())
      return client
    }
    const admin = await connect({ servers: nats.url, user: 'admin', pass: password })
    t.teardown(() => admin.close())
    // An earlier release created the bucket like this: any replica of it may answer.
    const kv = await new Kvm(admin).create('old', { allow_direct: true })
    t.ok((await (await jetstreamManager(admin)).streams.info('KV_old')).config.allow_direct)
    await kv.put('lease.a', 'x')
    const client = await connectAs('us')
    for (const name of ['old', 'new']) {
      const bucket = client.bucket(name, { replicas: 1, blobAgeMs: 3_600_000 })
      const before = (await bucket.kvGet('lease.a'))?.revision ?? 0
      const revision = await bucket.kvUpdate('lease.a', Buffer.from('y'), before)
      t.match(await bucket.kvGet('lease.a'), { value: Buffer.from('y'), revision })
      t.equal(await bucket.kvGet('lease.b'), null)
    }
  },
)

void t.test('consistent reads of a quiet resource share their marks, and make no snapshot due', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const options = { servers: [nats.url], upstream: etcd.upstream, snapshotMessages: 3 }
  const publisher = startReplica(t, options)
  const edge = startReplica(t, { ...options, role: 'edge' })
  await caughtUp(etcd, [publisher, edge])
  const before = { messages: publisher.metrics.publishedMessages, snapshots: publisher.metrics.snapshots }
  const startedMs = performance.now()
  const marks = (): number => publisher.metrics.publishedMessages - before.messages
  // More than needed for three snapshots.
  for (let i = 0; i < 200 || marks() <= 10; i++) {
    etcd.embedded.commit([{ type: 'put', key: keyFromText(`/registry/others/${i}`), value: Buffer.from('x') }])
    edge.freshness.requestProgress()
    await new Promise((resolve) => setTimeout(resolve, 4))
  }
  edge.freshness.requestProgress()
  await until(() => edge.sink.revision >= etcd.embedded.revision, 'the edge is at the last revision')
  const atMost = (performance.now() - startedMs) / 50 + 2
  t.ok(marks() <= atMost, `${marks()} marks, at most ${atMost}`)
  t.ok(
    publisher.metrics.snapshots - before.snapshots <= 1,
    'none but one that a replica may have asked for before the first was listed',
  )
})
