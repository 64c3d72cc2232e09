/** For which requests a publisher takes a snapshot, over a real nats-server; and how it retries. */
import t from 'tap'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import type { Bucket } from '../../../src/fleet/broker.js'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { SnapshotStore, SnapshotWriter } from '../../../src/fleet/stream/snapshot-store.js'
import { SnapshotTaker } from '../../../src/fleet/stream/snapshot-taker.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { startNats } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { CountedUpstream, FleetCounts, things, unsigned } from '../nats-harness.js'

void t.test('a snapshot request during a list uses its state; any other due snapshot is taken after it', async (t) => {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'taker' }, systemClock)
  t.teardown(() => client.close())
  const names = namesOf('test', things)
  const limits = { replicas: 1, maxBytes: 2 ** 20, maxAgeMs: 60_000 }
  await client.ensureStream(names.stream, names.log, limits)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const revision = toRevision(etcd.embedded.revision)
  const at = {
    revision,
    settled: revision,
    sequence: 0,
    epoch: 1,
    clusterId: '1',
    isSynced: true,
    trustsProgress: true,
  }
  const metrics = new FleetCounts()
  const bucket = client.bucket(names.bucket, { replicas: 1, blobAgeMs: 3_600_000 })
  const store = new SnapshotStore(bucket, names, unsigned)
  const snapshots = new SnapshotTaker({
    client,
    names,
    store,
    bounds: () => limits,
    prefix: things.etcdPrefix,
    upstream: etcd.upstream,
    clock: systemClock,
    random: seededRandom(1),
    logger: silentLogger,
    metrics,
    snapshotMessages: 1_000,
    snapshotBytes: 2 ** 20,
    place: () => at,
    requestProgress: () => {},
  })
  t.teardown(() => snapshots.stop())
  const listState = async (name: string, meanwhile: () => void): Promise<void> => {
    const state = new SnapshotWriter()
    await store.put(name, state)
    const listed = snapshots.publishState(name, state, at)
    meanwhile()
    t.equal(metrics.snapshots, 0, 'none beside the state')
    await listed
  }
  await listState(names.snapshot(1, revision, 1), () => snapshots.requestForSubscriber())
  await listState(names.snapshot(1, revision, 2), () => snapshots.request())
  await until(() => metrics.snapshots === 1, 'the one that no subscriber asked for is taken')
  snapshots.requestForSubscriber()
  await until(() => metrics.snapshots === 2, 'and so is one for a subscriber whom the listed state does not help')
})

void t.test(
  'a failed snapshot is retried ever less often, at a newer revision if etcd has compacted its own',
  async (t) => {
    const clock = new VirtualClock()
    const etcd = createEmbeddedUpstream({ clock })
    t.teardown(() => etcd.close())
    const write = (): void => {
      etcd.commit([{ type: 'put', key: keyFromText('/registry/things/a'), value: Buffer.from('a') }])
    }
    write()
    let revision = toRevision(etcd.revision)
    write()
    etcd.compact(toRevision(etcd.revision))
    let attempts = 0
    const metrics = new FleetCounts()
    const names = namesOf('test', things)
    const bucket = { putObject: async () => {}, kvGet: async () => null, kvUpdate: async () => {} } as unknown as Bucket
    const chain = { sequence: 1, epoch: 1, clusterId: '1', isSynced: true, trustsProgress: true }
    const snapshots = new SnapshotTaker({
      client: { streamState: async () => ({ first: 1, last: 1, created: '' }) },
      names,
      store: new SnapshotStore(bucket, names, unsigned),
      bounds: () => ({ maxBytes: 2 ** 20, maxAgeMs: 3_600_000 }),
      prefix: things.etcdPrefix,
      upstream: etcd,
      clock,
      random: seededRandom(1),
      logger: silentLogger,
      metrics,
      snapshotMessages: 1_000,
      snapshotBytes: 2 ** 20,
      place: () => ({ ...chain, revision, settled: revision }),
      requestProgress: () => void attempts++,
    })
    t.teardown(() => snapshots.stop())
    etcd.failReads(new UpstreamError('unavailable', 'away'))
    snapshots.request()
    await clock.advanceInTurns(30 * 60_000, 500)
    t.ok(attempts > 20 && attempts < 70, `${attempts} attempts in half an hour`)
    etcd.failReads(null)
    await clock.advanceInTurns(60_000, 500)
    t.equal(metrics.snapshots, 0, 'its revision is compacted')
    revision = toRevision(etcd.revision)
    await clock.advanceInTurns(60_000, 500)
    t.equal(metrics.snapshots, 1)
  },
)

void t.test('a publisher that was stopped lists no snapshot any more', async (t) => {
  const clock = new VirtualClock()
  const etcd = createEmbeddedUpstream({ clock })
  t.teardown(() => etcd.close())
  const names = namesOf('test', things)
  let updates = 0
  const bucket = { kvGet: async () => null, kvUpdate: async () => ++updates } as unknown as Bucket
  let answer = (): void => {}
  const snapshots = new SnapshotTaker({
    client: {
      streamState: () => new Promise((resolve) => (answer = () => resolve({ first: 1, last: 1, created: '' }))),
    },
    names,
    store: new SnapshotStore(bucket, names, unsigned),
    bounds: () => ({ maxBytes: 2 ** 20, maxAgeMs: 3_600_000 }),
    prefix: things.etcdPrefix,
    upstream: etcd,
    clock,
    random: seededRandom(1),
    logger: silentLogger,
    metrics: new FleetCounts(),
    snapshotMessages: 1_000,
    snapshotBytes: 2 ** 20,
    place: () => null,
    requestProgress: () => {},
  })
  const revision = toRevision(1)
  const rest = { clusterId: '1', isSynced: true, trustsProgress: true }
  const place = { sequence: 1, epoch: 1, revision, settled: revision, ...rest }
  const listed = snapshots.publishState(names.snapshot(1, 1, 1), new SnapshotWriter(), place)
  await snapshots.stop()
  answer()
  await t.rejects(listed)
  t.equal(updates, 0)
})
