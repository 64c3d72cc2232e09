/** Tests a publisher whose NATS answers late or never, as when its object store hangs. */
import t, { type Test } from 'tap'
import type { FeedSink } from '../../../src/engine/model/feed-sink.js'
import { Envelope } from '../../../src/fleet/stream/signed-envelope.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { decodePart, encodeMessage, joinParts, type Message } from '../../../src/fleet/stream/message.js'
import type { Broker, Bucket } from '../../../src/fleet/broker.js'
import { type SnapshotEntry, SnapshotStore } from '../../../src/fleet/stream/snapshot-store.js'
import { Publisher, type PublisherOptions } from '../../../src/fleet/stream/publisher.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { batch, put } from '../../support/objects.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { Feed } from '../../../src/engine/feed/feed.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import { type PublisherStatus, readPublisherStatus } from '../../../src/fleet/stream/publisher-status.js'
import { CountingMetrics, feedOptions } from '../../engine/feed/harness.js'
import { FleetCounts, things, unsigned } from '../nats-harness.js'

const MIB = 2 ** 20
const names = namesOf('test', things)
const limits = { replicas: 1, maxBytes: MIB, maxAgeMs: 60_000 }

const never = (): Promise<never> => new Promise(() => {})
/** No upload is ever answered. */
const silentBucket = { putObject: never, kvGet: async () => null } as unknown as Bucket

/** A client whose writes are never answered. */
function silentNats(): Broker {
  const client = {
    maxPayloadBytes: MIB,
    ensureStream: async () => limits,
    streamState: async () => null,
    openWriter: () => ({ write: never, close: () => {} }),
    respond: () => ({ close: () => {} }),
    publish: () => {},
  }
  return client as unknown as Broker
}

/** A feed that watches, and delivers nothing. */
const feed = {
  status: { state: 'watching', revision: null, reason: null },
  clusterId: '1',
  trustsProgress: true,
  start: () => {},
  stop: async () => {},
  requestProgress: () => {},
  ageMs: 0,
  confirm: async () => {},
} as const

function publisherOf(
  t: Test,
  client: Broker,
  options: Pick<PublisherOptions, 'onEnd'> & Partial<PublisherOptions>,
): Publisher {
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  return new Publisher({
    client,
    names,
    envelope: unsigned,
    store: new SnapshotStore(silentBucket, names, unsigned),
    prefix: things.etcdPrefix,
    upstream,
    openFeed: () => feed,
    limits,
    clock,
    random: seededRandom(1),
    logger: silentLogger,
    metrics: new FleetCounts(),
    snapshotMessages: 1_000,
    snapshotBytes: MIB,
    knownEpoch: () => 0,
    ...options,
  })
}

void t.test('a publisher whose NATS accepts no message ends its session at 64 MiB, and frees its queue', async (t) => {
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
  t.equal(metrics.queuedBytes, 0)
  await publisher.stop()
})

void t.test('a publisher that is stopped while it starts answers no request afterwards', async (t) => {
  const revision = toRevision(5)
  const header = { epoch: 1, previous: revision, revision, settled: revision, sentAt: 0 }
  const [end] = encodeMessage(
    { ...header, kind: 'progress', isSynced: true, trustsProgress: true, clusterId: '1' },
    MIB,
  )
  let acknowledge!: () => void
  let claims!: () => void
  const claimed = new Promise<void>((resolve) => (claims = resolve))
  let responders = 0
  const client = {
    maxPayloadBytes: MIB,
    ensureStream: async () => limits,
    publish: () => {},
    streamState: async () => ({ first: 1, last: 1 }),
    message: async () => end,
    openWriter: () => ({
      write: (_part: Buffer, expected: number) => {
        claims()
        return new Promise((resolve) => (acknowledge = () => resolve(expected + 1)))
      },
      close: () => {},
    }),
    respond: () => {
      responders++
      return { close: () => responders-- }
    },
  } as unknown as Broker
  const publisher = publisherOf(t, client, { onEnd: (reason) => t.fail(reason) })
  const starting = publisher.start()
  await claimed
  const stopping = publisher.stop()
  acknowledge()
  await Promise.all([starting, stopping])
  t.equal(responders, 0)
})

void t.test('a snapshot is as old as the previous publisher’s last message, until etcd has answered', async (t) => {
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream({ clock })
  t.teardown(() => upstream.close())
  upstream.commit([{ type: 'put', key: keyFromText('/registry/things/a'), value: Buffer.from('a') }])
  const revision = toRevision(upstream.revision)
  const sentAt = clock.now() - 30_000
  const stamp = { previous: revision, revision, settled: revision, isSynced: true, trustsProgress: true }
  const [end] = encodeMessage({ ...stamp, kind: 'progress', epoch: 1, sentAt, clusterId: '1' }, MIB)
  const taken: (number | undefined)[] = []
  const client = {
    maxPayloadBytes: MIB,
    ensureStream: async () => limits,
    publish: () => {},
    streamState: async () => ({ first: 1, last: 1 }),
    message: async () => end,
    openWriter: () => ({ write: async (_part: Buffer, expected: number) => expected + 1, close: () => {} }),
    respond: () => ({ close: () => {} }),
  } as unknown as Broker
  const bucket = {
    kvGet: async () => null,
    putObject: async () => {},
    kvUpdate: async (key: string, value: Buffer) => {
      const entries = JSON.parse(unsigned.open('index', key, value)!.toString()) as { takenAt?: number }[]
      taken.push(entries.at(-1)?.takenAt)
    },
  } as unknown as Bucket
  let sink!: FeedSink
  const following: { ageMs: number | null } & Omit<typeof feed, 'ageMs'> = { ...feed, ageMs: null }
  let keysChanged = (): void => {}
  const keys = {
    value: [],
    onChange: (listener: () => void) => {
      keysChanged = listener
      return () => {}
    },
  }
  const envelope = new Envelope({ keys, subject: 'log', clock, logger: silentLogger, onRefused: () => {} })
  const publisher = publisherOf(t, client, {
    clock,
    upstream,
    envelope,
    store: new SnapshotStore(bucket, names, envelope),
    openFeed: (opened) => {
      sink = opened
      return following
    },
    onEnd: (reason) => t.fail(reason),
  })
  await publisher.start()
  keysChanged()
  await clock.advanceInTurns(2_000, 20)
  t.same(taken, [sentAt], 'etcd answers, and yet the feed has not caught up')
  following.ageMs = 0
  sink.synced()
  await clock.advanceInTurns(3_000, 20)
  const heardMs = clock.now()
  keysChanged()
  await clock.advanceInTurns(100, 20)
  t.equal(taken.length, 2)
  t.ok(taken[1]! <= heardMs && taken[1]! > heardMs - 1_500, `${heardMs - taken[1]!} ms before`)
  await publisher.stop()
})

void t.test('what a publisher writes while it catches up is as old as what it continues after', async (t) => {
  const clock = new VirtualClock()
  const revision = toRevision(5)
  const continuedAt = clock.now() - 3_600_000
  const stamp = { previous: revision, revision, settled: revision, isSynced: true, trustsProgress: true }
  const [end] = encodeMessage({ ...stamp, kind: 'progress', epoch: 1, sentAt: continuedAt, clusterId: '1' }, MIB)
  const ages: string[] = []
  const client = {
    ...silentNats(),
    streamState: async () => ({ first: 1, last: 1, created: '' }),
    message: async () => end,
    openWriter: () => ({
      write: async (part: Buffer, expected: number) => {
        const { kind, sentAt } = joinParts([decodePart(part)])
        ages.push(`${kind} ${Math.round((clock.now() - sentAt) / 10_000) * 10} s`)
        return expected + 1
      },
      close: () => {},
    }),
  } as unknown as Broker
  const bucket = { putObject: async () => {}, kvGet: async () => null, kvUpdate: async () => {} } as unknown as Bucket
  const following: { ageMs: number | null } & Omit<typeof feed, 'ageMs'> = { ...feed, ageMs: null }
  let sink!: FeedSink
  const publisher = publisherOf(t, client, {
    clock,
    store: new SnapshotStore(bucket, names, unsigned),
    openFeed: (opened) => {
      sink = opened
      return following
    },
    onEnd: (reason) => t.fail(reason),
  })
  t.teardown(() => publisher.stop())
  await publisher.start()
  const write = async (at: number): Promise<void> => {
    sink.apply([batch(at, put('a', `${at}`, at))])
    await clock.advanceInTurns(100, 50)
  }
  await write(6)
  sink.replace(toRevision(7), 'gap').commit()
  await clock.advanceInTurns(30_000, 500)
  await write(8)
  following.ageMs = 0
  sink.synced()
  await clock.advanceInTurns(2_000, 50)
  await write(9)
  t.same(ages, [
    'claim 3600 s',
    'batches 3600 s',
    'state 0 s',
    'batches 30 s',
    // The mark after which reads may be answered.
    'progress 30 s',
    'batches 0 s',
  ])
})

void t.test('every mark has the whole fingerprint, because a quiet stream may contain only marks', async (t) => {
  const written: Message[] = []
  const client = {
    ...silentNats(),
    openWriter: () => ({
      write: async (part: Buffer, expected: number) => {
        written.push(joinParts([decodePart(part)]))
        return expected + 1
      },
      close: () => {},
    }),
  } as unknown as Broker
  let sink!: FeedSink
  const bucket = { putObject: async () => {}, kvGet: async () => null, kvUpdate: async () => {} } as unknown as Bucket
  const publisher = publisherOf(t, client, {
    store: new SnapshotStore(bucket, names, unsigned),
    openFeed: (opened) => {
      sink = opened
      return feed
    },
    onEnd: (reason) => t.fail(reason),
  })
  await publisher.start()
  const keyValue = {
    key: keyFromText('/registry/things/a'),
    value: Buffer.from('a'),
    createRevision: toRevision(2),
    modRevision: toRevision(2),
    version: 1,
    leaseId: '0',
  }
  const list = sink.replace(toRevision(2), 'initial')
  list.add([keyValue])
  list.commit()
  sink.synced()
  sink.progress(toRevision(3))
  await until(() => written.length === 3, 'three marks')
  const { key, modRevision } = keyValue
  const fingerprint = { puts: [{ key, modRevision }], keyCount: 1 }
  t.match(written, [
    { kind: 'state', fingerprint },
    { kind: 'progress', isSynced: true, fingerprint },
    { kind: 'progress', revision: 3, fingerprint },
  ])
  await publisher.stop()
})

/** A publisher that sends its statuses to the test. */
function reportingPublisher(
  t: Test,
  openFeed: (sink: FeedSink, clock: VirtualClock) => ReturnType<PublisherOptions['openFeed']>,
) {
  const clock = new VirtualClock()
  const troubles: PublisherStatus['trouble'][] = []
  const client = {
    ...silentNats(),
    publish: (_subject: string, data: Buffer) =>
      void troubles.push(readPublisherStatus(unsigned.open('status', '', data)!)!.trouble),
  } as unknown as Broker
  let sink!: FeedSink
  const publisher = publisherOf(t, client, {
    clock,
    openFeed: (opened) => openFeed((sink = opened), clock),
    onEnd: (reason) => t.fail(reason),
  })
  t.teardown(() => publisher.stop())
  return { clock, troubles, sink, publisher }
}

void t.test('a publisher that begins with a list reports a refusal only once it has lasted', async (t) => {
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  upstream.failReads(new UpstreamError('permission-denied', 'no'))
  const { clock, troubles, publisher } = reportingPublisher(
    t,
    (sink, clock) => new Feed(feedOptions(clock, { upstream, sink, metrics: new CountingMetrics() })),
  )
  await publisher.start()
  await clock.advanceInTurns(10_000, 100)
  const reason = 'permission-denied: no'
  t.same(troubles.at(-1), { reason, isRefusal: false })
  t.same(
    troubles.filter((trouble) => trouble?.isRefusal),
    [],
  )
  await clock.advanceInTurns(21_000, 100)
  t.same(troubles.at(-1), { reason, isRefusal: true })
})

void t.test('a refusal ends with the first sign of the source, and outlasts an outage', async (t) => {
  const { clock, troubles, sink, publisher } = reportingPublisher(t, () => feed)
  await publisher.start()
  const reason = 'permission-denied: no'
  const key = keyFromText('/registry/things/a')
  const signs = {
    batches: () => sink.apply([{ revision: toRevision(5), events: [{ type: 'delete', key }] }]),
    progress: () => sink.progress(toRevision(6)),
  }
  for (const [name, sign] of Object.entries(signs)) {
    sink.refused(reason, true)
    t.same(troubles.at(-1), { reason, isRefusal: true }, `before ${name}`)
    sink.disconnected('away')
    t.same(troubles.at(-1), { reason: 'away', isRefusal: true }, 'a replica that starts now opens no watches')
    sign()
    await clock.advanceInTurns(2_000, 100)
    t.same(troubles.at(-1), { reason: 'away', isRefusal: false }, `${name}, but etcd has more`)
  }
  sink.refused(reason, true)
  sink.synced()
  await clock.advanceInTurns(2_000, 100)
  t.equal(troubles.at(-1), null)
  sink.disconnected('away')
  t.same(troubles.at(-1), { reason: 'away', isRefusal: false })
})

const MINUTE_MS = 60_000
const AGE_MS = 60 * MINUTE_MS

/** A client whose stream discards each message after an hour, and a store for its snapshots. */
function forgetfulNats(clock: VirtualClock) {
  const written: { readonly atMs: number; readonly message: Message }[] = []
  let index: Buffer | null = null
  let uploads = 0
  const kept = (): Message[] =>
    written.filter(({ atMs }) => clock.monotonic() - atMs < AGE_MS).map(({ message }) => message)
  const first = (): number => written.length - kept().length + 1
  const client = {
    ...silentNats(),
    ensureStream: async () => ({ maxBytes: MIB, maxAgeMs: AGE_MS }),
    streamState: async () => ({ first: first(), last: written.length, created: '' }),
    openWriter: () => ({
      write: async (part: Buffer) => {
        written.push({ atMs: clock.monotonic(), message: joinParts([decodePart(part)]) })
        return written.length
      },
      close: () => {},
    }),
  } as unknown as Broker
  const bucket = {
    putObject: async () => void uploads++,
    deleteObject: async () => {},
    kvGet: async () => (index === null ? null : { value: index, revision: 1 }),
    kvUpdate: async (_key: string, value: Buffer) => void (index = value),
  } as unknown as Bucket
  return {
    client,
    store: new SnapshotStore(bucket, names, unsigned),
    kept,
    get uploads() {
      return uploads
    },
    /** Says what a replica or publisher that starts now would lack. */
    lacks(): string[] {
      const opened = index === null ? null : unsigned.open('index', names.indexKey, index)
      const entries = JSON.parse(opened?.toString() ?? '[]') as SnapshotEntry[]
      const canStart = entries.some(({ sequence }) => sequence + 1 >= first())
      const canContinue = kept().some(({ fingerprint }) => fingerprint !== undefined)
      return [...(canStart ? [] : ['a snapshot']), ...(canContinue ? [] : ['a fingerprint'])]
    },
  }
}

/** Starts a publisher on such a stream, whose feed has caught up. */
async function longPublisher(t: Test, options: Partial<PublisherOptions> = {}) {
  const clock = new VirtualClock()
  const nats = forgetfulNats(clock)
  const upstream = createEmbeddedUpstream({ clock })
  t.teardown(() => upstream.close())
  const key = keyFromText('/registry/things/a')
  upstream.commit([{ type: 'put', key, value: Buffer.from('a') }])
  const following: { ageMs: number | null } & Omit<typeof feed, 'ageMs'> = { ...feed }
  let sink!: FeedSink
  const publisher = publisherOf(t, nats.client, {
    clock,
    upstream,
    store: nats.store,
    openFeed: (opened) => {
      sink = opened
      return following
    },
    limits: { ...limits, maxAgeMs: AGE_MS },
    onEnd: (reason) => t.fail(reason),
    ...options,
  })
  t.teardown(() => publisher.stop())
  await publisher.start()
  sink.replace(toRevision(upstream.revision), 'initial').commit()
  sink.synced()
  const lacked: string[] = []
  const live = async (minutes: number, each: (minute: number) => void = () => {}): Promise<void> => {
    for (let minute = 1; minute <= minutes; minute++) {
      await clock.advanceInTurns(MINUTE_MS, 5_000)
      lacked.push(...nats.lacks().map((what) => `${what} in minute ${minute}`))
      each(minute)
    }
  }
  return { clock, nats, upstream, key, following, sink, lacked, live }
}

const DAY = { ...limits, maxAgeMs: 24 * AGE_MS }
for (const [what, everyMinutes, isWrite, options] of [
  ['nothing but progress, every ten minutes', 10, false, {}],
  ['few writes', 14, true, {}],
  ['nothing at all', Infinity, false, {}],
  ['nothing at all, and its stream was created with a lower age', Infinity, false, { limits: DAY }],
] as const) {
  void t.test(`a stream always leads from a snapshot, and has a fingerprint, with ${what}`, async (t) => {
    const { nats, upstream, key, sink, lacked, live } = await longPublisher(t, options)
    await live(8 * 60, (minute) => {
      if (minute % everyMinutes !== 0) return
      const written = isWrite ? key : keyFromText('/registry/others/a')
      upstream.commit([{ type: 'put', key: written, value: Buffer.from('a') }])
      const at = upstream.revision
      if (isWrite) sink.apply([batch(at, put('a', `${at}`, at))])
      else sink.progress(toRevision(at))
    })
    t.same(lacked, [])
    t.ok(nats.uploads <= 18, `${nats.uploads} snapshots in eight hours`)
  })
}

void t.test('an outage of etcd longer than the stream’s age leaves a message, which says how old it is', async (t) => {
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_fields: object, message: string) => void warnings.push(message) }
  const { clock, nats, upstream, following, sink, live } = await longPublisher(t, { logger })
  await live(60)
  const awayAt = clock.now()
  following.ageMs = null
  upstream.failReads(new UpstreamError('unavailable', 'away'))
  sink.disconnected('away')
  await live(4 * 60, (minute) => {
    const last = nats.kept().at(-1)
    if (last?.fingerprint === undefined) t.fail(`nothing to continue after in minute ${minute}`)
    else if (minute > 60) t.ok(last.sentAt <= awayAt && last.sentAt > awayAt - 10_000)
  })
  t.same(warnings, ['snapshot failed; retrying'], 'logged once')
  upstream.failReads(null)
  following.ageMs = 0
  sink.synced()
  await live(1)
  await live(1)
  t.same(nats.lacks(), [], 'and then a snapshot is taken')
})
