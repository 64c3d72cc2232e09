/** Tests of a publisher whose NATS answers late or never, as when its object store hangs. */
import t, { type Test } from 'tap'
import type { FeedSink } from '../../../src/model/feed-sink.js'
import { EtcdPulse } from '../../../src/fleet/nats/etcd-pulse.js'
import { namesOf } from '../../../src/fleet/nats/names.js'
import { encodeMessage } from '../../../src/fleet/nats/message.js'
import type { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { Publisher, type PublisherOptions } from '../../../src/fleet/nats/publisher.js'
import { keyFromText } from '../../../src/model/event.js'
import { toRevision } from '../../../src/model/revision.js'
import { silentLogger } from '../../../src/support/log.js'
import { createEmbeddedUpstream } from '../../../src/upstream/embedded/embedded-upstream.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { FleetCounts, things, unsigned } from '../nats-harness.js'

const MIB = 2 ** 20

/** A client whose writes and uploads are never answered. */
function silentNats(): NatsClient {
  const never = (): Promise<never> => new Promise(() => {})
  const client = {
    maxPayloadBytes: MIB,
    ensureStream: async () => {},
    streamState: async () => null,
    openWriter: () => ({ write: never, close: () => {} }),
    respond: () => ({ close: () => {} }),
    publish: () => {},
    buckets: { putObject: never, kvGet: async () => null },
  }
  return client as unknown as NatsClient
}

/** A feed that watches, and says nothing. */
const feed = {
  status: { state: 'watching', revision: null, connectedSince: null, reason: null },
  clusterId: '1',
  trustsProgress: true,
  start: () => {},
  stop: async () => {},
  requestProgress: () => {},
} as const

function publisherOf(
  t: Test,
  client: NatsClient,
  options: Pick<PublisherOptions, 'onEnd'> & Partial<PublisherOptions>,
): Publisher {
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  return new Publisher({
    client,
    names: namesOf('test', things),
    envelope: unsigned,
    prefix: things.etcdPrefix,
    upstream,
    openFeed: () => feed,
    pulse: new EtcdPulse({ upstream, clock }),
    limits: { replicas: 1, maxBytes: MIB, maxAgeMs: 60_000 },
    clock,
    logger: silentLogger,
    metrics: new FleetCounts(),
    snapshotMessages: 1_000,
    snapshotBytes: MIB,
    ...options,
  })
}

void t.test('a publisher whose NATS takes nothing ends its session at 64 MiB, and keeps no byte', async (t) => {
  const metrics = new FleetCounts()
  const ends: string[] = []
  let sink!: FeedSink
  const publisher = publisherOf(t, silentNats(), {
    openFeed: (opened) => {
      sink = opened
      return feed
    },
    metrics,
    onEnd: (reason) => ends.push(reason),
  })
  await publisher.start()
  sink.replace(toRevision(1), 'initial').commit()
  const value = Buffer.alloc(MIB)
  const batch = (at: number) => {
    const revision = toRevision(at)
    const key = keyFromText('/registry/things/a')
    const keyValue = { key, value, createRevision: toRevision(2), modRevision: revision, version: at, leaseId: '0' }
    return { revision, events: [{ type: 'put' as const, keyValue }] }
  }
  for (let i = 0; i < 63; i++) sink.apply([batch(2 + i)])
  t.same(ends, [])
  t.ok(metrics.queuedBytes > 63 * MIB && metrics.queuedBytes <= 64 * MIB, `${metrics.queuedBytes} bytes wait`)
  sink.apply([batch(65)])
  t.match(ends, [/^more than 67108864 bytes wait to be published$/])
  t.equal(publisher.queuedBytes, 0)
  t.equal(metrics.queuedBytes, 0)
  await publisher.stop()
})

void t.test('a publisher that is stopped while it begins answers no question afterwards', async (t) => {
  const revision = toRevision(5)
  const header = { epoch: 1, previous: revision, revision, settled: revision, sentAt: 0 }
  const testimony = { newest: null, lastDelete: null }
  const [end] = encodeMessage(
    { ...header, kind: 'progress', testimony, isSynced: true, trustsProgress: true, clusterId: '1' },
    MIB,
  )
  let answersIndex!: (index: null) => void
  let asksIndex!: () => void
  const asked = new Promise<void>((resolve) => (asksIndex = resolve))
  let responders = 0
  const client = {
    maxPayloadBytes: MIB,
    ensureStream: async () => {},
    publish: () => {},
    streamState: async () => ({ first: 1, last: 1 }),
    message: async () => end,
    openWriter: () => ({ write: async (_part: Buffer, expected: number) => expected + 1, close: () => {} }),
    respond: () => {
      responders++
      return { close: () => responders-- }
    },
    buckets: {
      kvGet: () => {
        asksIndex()
        return new Promise((resolve) => (answersIndex = resolve))
      },
    },
  } as unknown as NatsClient
  const publisher = publisherOf(t, client, { onEnd: (reason) => t.fail(reason) })
  const starting = publisher.start()
  await asked
  const stopping = publisher.stop()
  answersIndex(null)
  await Promise.all([starting, stopping])
  t.equal(responders, 0)
})
