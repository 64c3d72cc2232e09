/** Tests what a subscriber reports and does while etcd may feed its sink instead, over a broker played by the test. */
import t, { type Test } from 'tap'
import type { Broker, Bucket, FollowHandlers } from '../../../../src/fleet/broker.js'
import { encodeMessage, type Message } from '../../../../src/fleet/stream/message.js'
import { namesOf } from '../../../../src/fleet/stream/names.js'
import { toRevision } from '../../../../src/engine/model/revision.js'
import { PlacedSink } from '../../../../src/fleet/stream/placed-sink.js'
import { SnapshotStore, SnapshotWriter } from '../../../../src/fleet/stream/snapshot-store.js'
import { Subscriber } from '../../../../src/fleet/stream/subscriber.js'
import { silentLogger } from '../../../../src/support/log.js'
import { RecordingSink } from '../../../engine/feed/recording-sink.js'
import { batch, put } from '../../../support/objects.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { FleetCounts, things, unsigned } from '../../nats-harness.js'

const names = namesOf('test', things)
const STAY_MS = 20_000
const SNAPSHOT = names.snapshot(1, 5, 0)

/** A stream of three messages with a snapshot behind the last. */
function subscribe(t: Test) {
  const clock = new VirtualClock()
  const world = {
    hasFresh: false,
    reads: 0,
    snapshot: (): Promise<Buffer | null> => whole(),
    readsIndex: (): Promise<void> => Promise.resolve(),
    deliver: (_sequence: number, _data: Buffer): void => {},
    aways: [] as string[],
    last: 3,
    /** The first message that was asked for. */
    followed: 0,
    index: [{ name: SNAPSHOT, revision: 5, settled: 5, sequence: 3, epoch: 1, clusterId: '1', keys: 0 }],
  }
  const whole = (): Promise<Buffer> => Promise.resolve(Buffer.concat(new SnapshotWriter().finish()))
  const indexValue = (): Buffer =>
    Buffer.from(JSON.stringify(world.index.map((entry) => ({ ...entry, isSynced: true, takenAt: 0 }))))
  let hear: (data: Buffer) => void = () => {}
  const client: Partial<Broker> = {
    isConnected: true,
    doubt: () => {},
    streamState: () => {
      world.reads++
      return Promise.resolve({ first: 1, last: world.last, created: 'once' })
    },
    follow: (_stream: string, from: number, handlers: FollowHandlers) => {
      world.followed = from
      world.deliver = (sequence, data) => handlers.onMessage(sequence, data)
      return { close: () => {} }
    },
    subscribe: (_subject, onMessage) => {
      hear = onMessage
      return { close: () => {} }
    },
  }
  const bucket: Partial<Bucket> = {
    kvGet: async () => {
      await world.readsIndex()
      return { value: unsigned.seal('index', names.indexKey, indexValue()), revision: 1 }
    },
    getObject: () => world.snapshot(),
  }
  const recorded = new RecordingSink()
  const sink = new PlacedSink(recorded)
  const subscriber: Subscriber = new Subscriber({
    client: client as Broker,
    names,
    envelope: unsigned,
    store: new SnapshotStore(bucket as Bucket, names, unsigned),
    sink,
    sendOneWay: () => {},
    onFollowing: () => {
      if (sink.etcd === null) return
      sink.etcd = null
      if (world.hasFresh) subscriber.confirmed(0)
    },
    onConfirmed: () => {},
    onAway: (reason) => world.aways.push(reason),
    clock,
    random: { next: () => 0.999 },
    logger: silentLogger,
    metrics: new FleetCounts(),
    feedMetrics: { relisted: () => {} },
    refillMessages: 100,
    onGap: 'expire',
    stayMs: STAY_MS,
  })
  t.teardown(() => subscriber.stop())
  subscriber.start()
  /** A publisher has everything that etcd had, and the stream has all of it. */
  const say = (): void =>
    hear(
      Buffer.from(
        JSON.stringify({ epoch: 1, session: 1, sequence: world.last, at: clock.monotonic(), ageMs: 0, trouble: null }),
      ),
    )
  return { clock, sink, recorded, subscriber, world, say, whole }
}

void t.test('a first snapshot that takes long to arrive is worth waiting for, unless one has failed', async (t) => {
  const { clock, recorded, subscriber, world, whole } = subscribe(t)
  let answer: (blob: Promise<Buffer | null>) => void = () => {}
  const slow = (): Promise<Buffer | null> => new Promise((resolve) => (answer = resolve))
  world.snapshot = slow
  await clock.advanceInTurns(60_000, 1_000)
  t.equal(subscriber.isLoading, true, 'after a minute')
  answer(Promise.reject(new Error('no chunk')))
  await clock.advanceInTurns(5_000, 500)
  t.equal(subscriber.isLoading, false, 'the next attempt may fail as well')
  answer(whole())
  await clock.advanceInTurns(1_000, 100)
  t.equal(subscriber.isFollowing, true)
  world.snapshot = slow
  subscriber.rebuild('a test')
  await clock.advanceInTurns(5_000, 500)
  t.equal(subscriber.isFollowing, false)
  t.equal(subscriber.isLoading, false, 'etcd can go on from what the sink holds')
  answer(whole())
  await clock.advanceInTurns(5_000, 500)
  t.ok(recorded.calls.includes('replace 5 history-changed'), 'nobody may resume from wrong content')
})

void t.test(
  'a return to the stream that brings nothing makes the next stay with etcd longer, although the content was fresh',
  async (t) => {
    const { clock, sink, subscriber, world, say } = subscribe(t)
    await clock.advanceInTurns(1_000, 100)
    t.equal(subscriber.isFollowing, true)
    /** How long the subscriber stays away from a stream whose publisher is heard. */
    const stay = async (): Promise<number> => {
      sink.etcd = { clusterId: null }
      subscriber.leave()
      const { reads } = world
      let ms = 0
      for (; world.reads === reads && ms < 10 * STAY_MS; ms += 500) {
        say()
        await clock.advanceInTurns(500, 100)
      }
      await clock.advanceInTurns(500, 100)
      t.equal(subscriber.isFollowing, true, 'it has returned')
      return ms
    }
    world.hasFresh = true
    const first = await stay()
    const second = await stay()
    t.ok(second > 1.5 * first, `${second} ms after ${first}`)
    say()
    const afterUseful = await stay()
    t.ok(afterUseful < 1.2 * first, `${afterUseful} ms after a return that brought everything`)
  },
)

void t.test('while a message that does not follow is reread, the content counts as away', async (t) => {
  const { clock, subscriber, world } = subscribe(t)
  await clock.advanceInTurns(1_000, 100)
  t.equal(subscriber.isFollowing, true)
  t.same(world.aways, [])
  const at = { previous: toRevision(5), revision: toRevision(6), settled: toRevision(6), sentAt: 0 }
  const message: Message = { kind: 'progress', epoch: 2, ...at, isSynced: true, trustsProgress: true, clusterId: '1' }
  world.deliver(4, encodeMessage(message, 1_000_000)[0]!)
  await clock.advanceInTurns(10, 10)
  t.same(world.aways, ['NATS: epoch 2 without a claim'])
})

void t.test('while the snapshot of a state in the stream is read, the content counts as away', async (t) => {
  const { clock, subscriber, world, whole } = subscribe(t)
  await clock.advanceInTurns(1_000, 100)
  t.equal(subscriber.isFollowing, true)
  const at = { previous: toRevision(5), revision: toRevision(9), settled: toRevision(9), sentAt: 0 }
  const body = { kind: 'state', reason: 'gap', snapshot: names.snapshot(1, 9, 0) } as const
  const message: Message = { ...body, epoch: 1, ...at, isSynced: true, trustsProgress: true, clusterId: '1' }
  let answer: (blob: Promise<Buffer | null>) => void = () => {}
  world.snapshot = () => new Promise((resolve) => (answer = resolve))
  world.deliver(4, encodeMessage(message, 1_000_000)[0]!)
  await clock.advanceInTurns(10, 10)
  t.same(world.aways, ['NATS: the stream contains a whole state'])
  answer(whole())
})

void t.test('after etcd was restored with higher revisions, a return to the stream keeps what etcd has', async (t) => {
  const { clock, sink, recorded, subscriber, world, say } = subscribe(t)
  await clock.advanceInTurns(1_000, 100)
  sink.etcd = { clusterId: '1' }
  subscriber.leave()
  const revision = 1_000
  sink.replace(toRevision(revision), 'history-changed').commit()
  sink.apply([batch(1_001, put('a', '1', 1_001))])
  // Meanwhile the publisher has written the same state, and the stream has not more yet.
  world.last = 4
  world.index.push({ ...world.index[0]!, name: names.snapshot(1, 1_000, 0), revision, settled: revision, sequence: 4 })
  for (let i = 0; i < 100 && !subscriber.isFollowing; i++) {
    say()
    await clock.advanceInTurns(500, 100)
  }
  t.equal(world.followed, 5, 'it goes on after the state')
  t.same(recorded.of('replace'), ['5 initial', '1000 history-changed'])
})

void t.test('the state of another history is as old as its snapshot, until a status covers it', async (t) => {
  const { clock, recorded, subscriber, world, say } = subscribe(t)
  await clock.advanceInTurns(1_000, 100)
  say()
  t.equal(subscriber.ageMs, 0)
  const at = { previous: toRevision(5), revision: toRevision(9), settled: toRevision(9), sentAt: clock.now() }
  const snapshot = names.snapshot(1, 9, clock.now() - 600_000)
  const body = { kind: 'state', reason: 'history-changed', snapshot } as const
  const message: Message = { ...body, epoch: 1, ...at, isSynced: true, trustsProgress: true, clusterId: '1' }
  world.last = 4
  world.deliver(4, encodeMessage(message, 1_000_000)[0]!)
  await clock.advanceInTurns(100, 10)
  t.equal(recorded.of('replace').at(-1), '9 history-changed')
  t.equal(subscriber.ageMs, null)
  const { ageMs } = recorded.confirmations.at(-1)!
  t.ok(ageMs >= 600_000 && ageMs < 601_000, `${ageMs}`)
  say()
  t.equal(subscriber.ageMs, 0)
})

void t.test('while a stream that has lost its end is read again, no status confirms what came from it', async (t) => {
  const { clock, subscriber, world, say } = subscribe(t)
  await clock.advanceInTurns(1_000, 100)
  say()
  t.equal(subscriber.ageMs, 0)
  let answer = (): void => {}
  world.readsIndex = () => new Promise((resolve) => (answer = resolve))
  world.last = 2
  subscriber.leave()
  await clock.advanceInTurns(2_000, 100)
  say()
  t.ok(subscriber.ageMs! >= 2_000, `${subscriber.ageMs}`)
  answer()
})
