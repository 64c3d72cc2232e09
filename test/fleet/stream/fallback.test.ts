/** Tests when etcd takes a sink over from the stream, and when it does not. */
import t, { type Test } from 'tap'
import { Fallback, type FallbackOptions } from '../../../src/fleet/stream/fallback.js'
import { PlacedSink } from '../../../src/fleet/stream/placed-sink.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { SharedLists } from '../../../src/engine/feed/shared-lists.js'
import { SourceAge } from '../../../src/engine/cache/source-age.js'
import { CONFIRMED_FOR_MS } from '../../../src/engine/model/feed-sink.js'
import { batch, put } from '../../support/objects.js'
import { CountingMetrics } from '../../engine/feed/harness.js'
import { RecordingSink } from '../../engine/feed/recording-sink.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { CountedUpstream, things } from '../nats-harness.js'

const AFTER_MS = 5_000

function fallback(t: Test, content: Partial<ReturnType<FallbackOptions['content']>> = {}, seed = 1) {
  const clock = new VirtualClock()
  const etcd = new CountedUpstream()
  etcd.put('a')
  const sink = new RecordingSink()
  const placed = new PlacedSink(sink)
  const left: (number | null)[] = []
  const state = { ageMs: 0, writtenMs: 0, clusterId: null, isLoading: false, ...content }
  const fallback = new Fallback({
    request: { resource: things, metrics: new CountingMetrics() },
    sink: placed,
    feed: {
      upstream: etcd.upstream,
      clock,
      random: seededRandom(seed),
      logger: silentLogger,
      lists: new SharedLists(1, clock),
      backfillRevisions: 0,
      onGap: () => 'expire',
    },
    afterMs: AFTER_MS,
    content: () => state,
    onDirect: () => {},
    onStream: (ageMs) => void left.push(ageMs),
  })
  t.teardown(() => fallback.stop())
  return { clock, etcd, sink, placed, state, left, fallback }
}

void t.test(
  'replicas that lose NATS at the same moment reach etcd over seconds, counted from the last confirmation',
  async (t) => {
    const takenOverMs: number[] = []
    for (let seed = 1; seed <= 50; seed++) {
      const { clock, fallback: one } = fallback(t, { ageMs: 3_500 }, seed)
      one.unconfirmed()
      let ms = 3_500
      for (; one.direct === null; ms += 100) await clock.advanceInTurns(100, 100)
      takenOverMs.push(ms)
    }
    t.ok(Math.min(...takenOverMs) >= AFTER_MS)
    t.ok(Math.max(...takenOverMs) <= 8_100)
    for (let from = AFTER_MS; from < 8_000; from += 1_000) {
      const count = takenOverMs.filter((ms) => ms >= from && ms < from + 1_000).length
      t.ok(count <= 25, `${count} of 50 in the second after ${from} ms`)
    }
  },
)

void t.test('a stream that is confirmed in time keeps the sink', async (t) => {
  const { clock, etcd, fallback: one } = fallback(t)
  for (let i = 0; i < 20; i++) {
    one.unconfirmed()
    await clock.advanceInTurns(4_000, 500)
    one.confirmed()
  }
  t.equal(etcd.watches, 0)
  t.equal(one.direct, null)
})

void t.test('etcd never takes over in the middle of a snapshot', async (t) => {
  const { clock, state, fallback: one } = fallback(t, { isLoading: true })
  one.unconfirmed()
  await clock.advanceInTurns(60_000, 1_000)
  t.equal(one.direct, null)
  state.isLoading = false
  await clock.advanceInTurns(10_000, 1_000)
  t.ok(one.direct, 'once it is loaded, and nothing has confirmed it')
})

void t.test(
  'when the stream takes over, etcd delivers nothing more, and takes over again only after a whole wait',
  async (t) => {
    const { clock, etcd, sink, state, fallback: one } = fallback(t)
    one.unconfirmed()
    for (let i = 0; i < 100 && !sink.isSynced; i++) await clock.advanceInTurns(100, 100)
    t.ok(sink.isSynced && one.direct !== null)
    state.ageMs = 3_600_000
    one.streamTakesOver()
    const calls = sink.calls.length
    etcd.put('b')
    await clock.advanceInTurns(AFTER_MS - 100, 100)
    t.equal(sink.calls.length, calls)
    t.equal(one.direct, null, 'however old the stream called the content while etcd fed it')
  },
)

void t.test('when etcd takes over, the age of the content is kept although it is unconfirmed', async (t) => {
  const { clock, sink, fallback: one } = fallback(t, { ageMs: null, writtenMs: 3_600_000 })
  one.unconfirmed()
  for (let i = 0; i < 100 && one.direct === null; i++) await clock.advanceInTurns(100, 100)
  t.same(sink.confirmations[0], { ageMs: 3_600_000, validMs: CONFIRMED_FOR_MS })
})

void t.test('content of an unknown age does not count as fresh because etcd takes over', async (t) => {
  const { clock, sink, placed, fallback: one } = fallback(t, { ageMs: null, writtenMs: null })
  placed.replace(toRevision(1), 'initial').commit()
  one.unconfirmed()
  for (let i = 0; i < 100 && one.direct === null; i++) await clock.advanceInTurns(100, 100)
  t.ok(one.direct)
  t.same(sink.confirmations, [])
})

void t.test('the first data from etcd, or from the stream after it, makes old content no younger', async (t) => {
  const { clock, etcd, sink, placed, fallback: one } = fallback(t, { ageMs: null, writtenMs: 30_000 })
  const source = new SourceAge(clock)
  sink.confirmed = (ageMs, validMs) => source.confirmed(ageMs, validMs)
  sink.apply = () => void source.connected()
  sink.disconnected = (reason) => void source.disconnected(reason)
  etcd.upstream.read = () => new Promise(() => {})
  one.unconfirmed()
  for (let i = 0; i < 100 && one.direct === null; i++) await clock.advanceInTurns(100, 100)
  placed.apply([batch(2, put('a', '1', 2))])
  t.ok(source.ageMs >= 30_000, `${source.ageMs} ms when etcd has delivered a part`)
  one.streamTakesOver()
  placed.apply([batch(3, put('a', '2', 3))])
  t.ok(source.ageMs >= 30_000, `${source.ageMs} ms when the stream has delivered its first message`)
})

void t.test('a stream that takes over before etcd has been read leaves the sink unconfirmed', async (t) => {
  const { clock, etcd, sink, left, fallback: one } = fallback(t)
  etcd.upstream.read = () => new Promise(() => {})
  one.unconfirmed()
  for (let i = 0; i < 100 && one.direct === null; i++) await clock.advanceInTurns(100, 100)
  t.ok(one.direct)
  one.streamTakesOver()
  t.equal(sink.reason, 'returned to NATS before etcd had confirmed the content')
  t.same(left, [null])
})

void t.test('a watch that etcd has long not confirmed leaves no fresh content to the stream', async (t) => {
  for (const age of [{ ageMs: 8_000, validMs: CONFIRMED_FOR_MS }, null]) {
    const { clock, etcd, sink, left, fallback: one } = fallback(t)
    const upstream = { ...etcd.upstream }
    etcd.upstream.watch = (...given) => ({ ...upstream.watch(...given), age })
    one.unconfirmed()
    for (let i = 0; i < 100 && !sink.isSynced; i++) await clock.advanceInTurns(100, 100)
    t.equal(one.direct?.status.state, 'watching')
    one.streamTakesOver()
    t.same(left, [age?.ageMs ?? null])
    t.equal(sink.reason === null, age !== null)
  }
})

void t.test('a replica with a state believes no single refusal of the list with which etcd takes over', async (t) => {
  const { clock, etcd, sink, placed, fallback: one } = fallback(t)
  placed.replace(toRevision(1), 'initial').commit()
  placed.synced()
  etcd.embedded.failReads(new UpstreamError('permission-denied', 'no'))
  one.unconfirmed()
  for (let i = 0; i < 100 && sink.reason === null; i++) await clock.advanceInTurns(100, 100)
  t.same(sink.of('refused'), [])
  t.equal(sink.reason, 'permission-denied: no')
  await clock.advanceInTurns(31_000, 100)
  t.same([...new Set(sink.of('refused'))], ['permission-denied: no'], 'but one that lasts')
})
