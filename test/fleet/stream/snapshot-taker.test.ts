/** For which requests a publisher takes a snapshot, over a real nats-server. */
import t from 'tap'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { SnapshotStore, SnapshotWriter } from '../../../src/fleet/stream/snapshot-store.js'
import { SnapshotTaker } from '../../../src/fleet/stream/snapshot-taker.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { startNats } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
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
    limits,
    prefix: things.etcdPrefix,
    upstream: etcd.upstream,
    clock: systemClock,
    logger: silentLogger,
    metrics,
    snapshotMessages: 1_000,
    snapshotBytes: 2 ** 20,
    place: () => at,
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
