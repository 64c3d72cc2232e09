/** Tests when a snapshot is taken, over an object store that answers when the test says so. */
import t from 'tap'
import { namesOf } from '../../../src/fleet/nats/names.js'
import type { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { SnapshotTaker } from '../../../src/fleet/nats/snapshot-taker.js'
import { toRevision } from '../../../src/model/revision.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { createEmbeddedUpstream } from '../../../src/upstream/embedded/embedded-upstream.js'
import { until } from '../../support/until.js'
import { FleetCounts, things, unsigned } from '../nats-harness.js'

void t.test('a snapshot that is asked for while another is taken is taken after it', async (t) => {
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  const uploads: (() => void)[] = []
  const buckets = {
    putObject: () => new Promise<void>((resolve) => uploads.push(resolve)),
    kvGet: async () => null,
    kvUpdate: async () => {},
    sweepObjects: async () => 0,
  }
  const at = upstream.revision
  const taker = new SnapshotTaker({
    client: { buckets, streamState: async () => null } as unknown as NatsClient,
    names: namesOf('test', things),
    envelope: unsigned,
    limits: { replicas: 1, maxBytes: 2 ** 20, maxAgeMs: 60_000 },
    prefix: things.etcdPrefix,
    upstream,
    clock: systemClock,
    logger: silentLogger,
    metrics: new FleetCounts(),
    snapshotMessages: 1_000,
    snapshotBytes: 2 ** 20,
    place: () => ({
      revision: at,
      settled: toRevision(at),
      sequence: 1,
      epoch: 1,
      clusterId: '1',
      isSynced: true,
      trustsProgress: true,
    }),
  })
  taker.request()
  await until(() => uploads.length === 1, 'the first is taken')
  taker.request()
  taker.request()
  uploads[0]!()
  await until(() => uploads.length === 2, 'and then one more, although nothing was written')
  uploads[1]!()
  await taker.stop()
  t.equal(uploads.length, 2)
})
