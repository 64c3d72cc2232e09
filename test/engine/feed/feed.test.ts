import t from 'tap'
import { toRevision as rev } from '../../../src/engine/model/revision.js'
import { SharedLists } from '../../../src/engine/feed/shared-lists.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import type { Key } from '../../../src/engine/model/event.js'
import type { FeedSink, Replacement } from '../../../src/engine/model/feed-sink.js'
import { Feed } from '../../../src/engine/feed/feed.js'
import { Outage } from '../../../src/engine/feed/outage.js'
import { UpstreamFreshness } from '../../../src/engine/feed/upstream-freshness.js'
import { SourceAge } from '../../../src/engine/cache/source-age.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { systemClock } from '../../../src/support/clock.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { RecordingSink } from './recording-sink.js'
import { slowWay, type WatchTap } from './faulty-watcher.js'
import { CountingMetrics, elsewhere, feedOptions, harness, key, put, remove } from './harness.js'

void t.test('an empty prefix is synced and then follows', async (t) => {
  const { feed, sink, write, settle } = harness(t)
  feed.start()
  await settle()
  t.ok(sink.isSynced)
  t.equal(feed.status.state, 'watching')
  write(put('a'))
  write(put('a', 'again'), put('b'))
  write(remove('a'))
  await settle()
  t.strictSame([...sink.state.keys()], [key('b')])
  t.strictSame(
    sink.batches.map((batch) => [batch.revision, batch.events.length]),
    [
      [2, 1],
      [3, 2],
      [4, 1],
    ],
  )
  t.equal(feed.status.revision, 4)
})

void t.test(
  'with backfill history arrives as events, and the feed is not synced before the revision of the start',
  async (t) => {
    for (const [backfillRevisions, base] of [
      [0, 21],
      [1, 20],
      [5, 16],
      [20, 1],
      [10_000, 1],
    ] as const) {
      const { feed, sink, etcd, metrics, write, settle } = harness(t, { backfillRevisions })
      for (let i = 0; i < 20; i++) write(put(`k${i % 7}`, `${i}`))
      t.equal(etcd.revision, 21)
      feed.start()
      await settle()
      t.equal(sink.base, base, `backfill ${backfillRevisions}`)
      t.equal(sink.batches.length, 21 - base)
      t.equal(sink.calls.at(-1), 'synced')
      t.equal(sink.state.size, 7)
      t.equal(metrics.of('initialised'), 1)
      t.equal(metrics.of('received'), 21 - base)
    }
  },
)

void t.test('backfill begins at the compaction when that is later', async (t) => {
  const { feed, sink, etcd, metrics, write, settle } = harness(t)
  for (let i = 0; i < 20; i++) write(put(`k${i % 7}`, `${i}`))
  etcd.compact(rev(15))
  feed.start()
  await settle()
  t.equal(sink.base, 15)
  t.equal(sink.batches.length, 6)
  t.equal(metrics.of('compacted'), 1)
  t.strictSame(sink.of('abort'), [], 'nothing was begun')
})

void t.test('a compaction between two pages of the list restarts it, cleanly', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(t, { backfillRevisions: 10 })
  for (let i = 0; i < 20; i++) write(put(`k${i}`))
  etcd.setDelays({ readMs: 100 })
  feed.start()
  await pass(260) // the status, the revision and the first page are there
  t.strictSame(sink.calls, [])
  etcd.compact(rev(15))
  await pass(100)
  t.strictSame(sink.calls, ['abort 11 initial'])
  await pass(2_000)
  await settle()
  t.strictSame(sink.of('replace'), ['15 initial'])
  t.equal(sink.state.size, 20)
  t.ok(sink.isSynced)
})

void t.test('where progress is trusted, it syncs the feed and advances the position', async (t) => {
  const { feed, sink, write, settle, pass } = harness(t)
  write(put('a'))
  for (let i = 0; i < 50; i++) write(elsewhere)
  feed.start()
  await settle()
  await pass(400)
  t.ok(sink.isSynced)
  t.equal(sink.revision, 52)
  t.equal(feed.status.revision, 52)
})

void t.test('where progress is not trusted, an equal state syncs the feed and the position stays', async (t) => {
  const { feed, sink, write, pass } = harness(t, {}, { trustsProgress: false, progressIntervalMs: 1e9 })
  write(put('a'))
  for (let i = 0; i < 50; i++) write(elsewhere)
  feed.start()
  await pass(1_000)
  t.ok(sink.isSynced)
  t.equal(sink.revision, 2)
  t.equal(feed.status.revision, 2)
})

void t.test('where progress is not trusted, the events of a key that was put and deleted still arrive', async (t) => {
  const way = slowWay()
  const { feed, sink, write, pass } = harness(
    t,
    { backfillRevisions: 2 },
    { trustsProgress: false, progressIntervalMs: 1e9 },
    way,
  )
  write(put('a'))
  write(put('b'))
  write(put('gone'))
  write(remove('gone'))
  feed.start()
  await pass(1_000)
  t.ok(sink.isSynced, 'the state at 3 is the state at 5')
  t.equal(sink.revision, 3)
  way.letGo()
  await pass(100)
  t.strictSame(sink.of('apply').join(',').split(','), ['4', '5'])
})

void t.test('where progress is not trusted, the feed is not synced while an event is still to come', async (t) => {
  for (const change of [put('new'), put('a', 'updated'), remove('a')]) {
    const way = slowWay()
    const { feed, sink, write, pass } = harness(
      t,
      { backfillRevisions: 2 },
      { trustsProgress: false, progressIntervalMs: 1e9 },
      way,
    )
    write(put('a'))
    write(put('b'))
    write(change)
    write(elsewhere)
    feed.start()
    await pass(3_000)
    t.notOk(sink.isSynced)
    t.equal(feed.status.state, 'catching-up')
    way.letGo()
    await pass(100)
    t.ok(sink.isSynced)
    t.equal(sink.revision, 4)
  }
})

void t.test('after a lost connection every event arrives once, and the cache stays', async (t) => {
  for (const trustsProgress of [true, false]) {
    const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, {}, { trustsProgress })
    feed.start()
    await settle()
    write(put('a'))
    await settle()
    etcd.setUnavailable(true)
    etcd.cutWatches()
    for (let i = 0; i < 10; i++) write(put(`k${i}`))
    await pass(60_000)
    t.equal(feed.status.state, 'backing-off')
    t.ok(sink.reason)
    etcd.setUnavailable(false)
    await pass(15_000)
    t.equal(feed.status.state, 'watching')
    t.equal(feed.status.reason, null)
    t.equal(sink.reason, null)
    t.strictSame(
      sink.batches.map((batch) => batch.revision),
      etcd.history().map((batch) => batch.revision),
    )
    t.equal(metrics.of('reconnected'), 1)
    t.equal(sink.of('replace').length, 1, 'never relisted')
  }
})

void t.test('a connection that only stalls ends by its deadline and is resumed', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(t)
  feed.start()
  await settle()
  write(put('a'))
  await settle()
  etcd.cutWatches()
  etcd.setStalled(true)
  write(put('b'))
  await pass(16_000)
  t.equal(sink.state.size, 1)
  t.equal(sink.of('disconnected').length, 2, 'the cut, and an attempt that was given up')
  etcd.setStalled(false)
  await pass(1_000)
  t.equal(sink.state.size, 2)
  t.equal(feed.status.state, 'watching')
})

void t.test('a compaction while the feed is cut off is a gap', async (t) => {
  for (const onGap of ['expire', 'coalesce'] as const) {
    const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, { onGap })
    feed.start()
    await settle()
    write(put('a'))
    write(put('b'))
    await settle()
    etcd.cutWatches()
    write(remove('a'))
    for (let i = 0; i < 10; i++) write(put('c', `${i}`))
    etcd.compact(rev(9))
    await pass(2_000)
    const reason = onGap === 'expire' ? 'gap' : 'coalesce'
    t.strictSame(sink.of('replace'), ['1 initial', `9 ${reason}`], 'from the compaction on, so that history comes too')
    t.equal(sink.batches.length, 5)
    t.equal(sink.revision, 14)
    t.strictSame([...sink.state.keys()], [key('b'), key('c')])
    t.equal(metrics.of(`relisted ${reason}`), 1)
    t.equal(feed.status.state, 'watching')
    t.equal(sink.calls.at(-1), 'synced')
  }
})

void t.test('a compaction of revisions that only progress had covered leaves no gap', async (t) => {
  const { feed, sink, etcd, metrics, write, settle, pass } = harness(t)
  feed.start()
  await settle()
  write(put('a'))
  await settle()
  for (let i = 0; i < 50; i++) write(elsewhere)
  await pass(20_000)
  t.equal(sink.revision, 52)
  etcd.cutWatches()
  etcd.compact(rev(52))
  write(put('b'))
  await pass(2_000)
  t.equal(sink.of('replace').length, 1)
  t.equal(metrics.of('reconnected'), 1)
  t.equal(sink.revision, 53)
})

void t.test('a compaction that etcd reports only after the history was compared leaves no gap either', async (t) => {
  const late: (() => void)[] = []
  const tap: WatchTap = {
    end: (end, say) => void (end.kind === 'compacted' ? late.push(() => say.onEnd(end)) : say.onEnd(end)),
  }
  const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, {}, {}, tap)
  feed.start()
  await settle()
  write(put('a'))
  await settle()
  for (let i = 0; i < 50; i++) write(elsewhere)
  await pass(20_000)
  etcd.cutWatches()
  etcd.compact(rev(52))
  write(put('b'))
  await pass(2_000)
  t.equal(feed.status.state, 'catching-up')
  late.forEach((tell) => tell())
  await settle()
  t.strictSame(sink.of('replace'), ['1 initial'])
  t.equal(metrics.of('relisted gap'), 0)
  t.equal(sink.revision, 53)
  t.equal(sink.batches.length, 2)
  t.equal(feed.status.state, 'watching')
})

void t.test('an idle prefix resumes without replaying the history of other prefixes', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(t)
  feed.start()
  await settle()
  write(put('a'))
  await settle()
  for (let i = 0; i < 5_000; i++) write(elsewhere)
  await pass(20_000)
  t.equal(sink.revision, 5_002)
  etcd.cutWatches()
  write(put('b'))
  await pass(2_000)
  t.equal(sink.of('replace').length, 1)
  t.equal(sink.revision, 5_003)
})

void t.test('a history restored from an older backup is detected', async (t) => {
  const cases = {
    'behind ours': 0,
    'exactly where ours was': 3,
    'beyond ours': 40,
  }
  for (const [name, writesAfter] of Object.entries(cases)) {
    for (const onGap of ['expire', 'coalesce'] as const) {
      const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, { onGap })
      feed.start()
      await settle()
      write(put('a'))
      const backup = etcd.snapshot()
      write(put('a', 'lost'))
      write(put('b', 'lost'))
      write(put('c', 'lost'))
      await settle()
      t.equal(sink.revision, 5)
      etcd.restore(backup, { clusterId: '1' })
      for (let i = 0; i < writesAfter; i++) write(put('b', 'lost'))
      await pass(2_000)
      t.equal(metrics.of('relisted history-changed'), 1, name)
      t.strictSame([...sink.state.keys()], writesAfter > 0 ? [key('a'), key('b')] : [key('a')])
      t.equal(sink.state.get(key('a'))?.value.toString(), 'a')
      t.equal(feed.status.state, 'watching')
      t.equal(feed.status.revision, etcd.revision)
    }
  }
})

void t.test('a restored history that differs only where progress had covered us is detected', async (t) => {
  const distances = [10, 3_000].flatMap((distance) => [false, true].map((isDear) => ({ distance, isDear })))
  for (const { distance, isDear } of distances) {
    for (const change of [put('a', 'changed'), put('new'), remove('a')]) {
      const { feed, sink, etcd, metrics, write, settle, pass } = harness(t)
      const status = etcd.status.bind(etcd)
      etcd.status = async (signal) => ({ ...(await status(signal)), isHistoryDear: isDear })
      feed.start()
      await settle()
      write(put('a'))
      write(put('b'))
      const backup = etcd.snapshot()
      for (let i = 0; i < distance; i++) write(elsewhere)
      await settle()
      await pass(20_000)
      t.equal(sink.revision, 3 + distance)
      etcd.restore(backup, { clusterId: '1' })
      write(change)
      for (let i = 0; i < distance + 5; i++) write(elsewhere)
      await pass(5_000)
      t.equal(metrics.of('relisted history-changed'), 1, `${distance} ${change.type} ${isDear}`)
      t.equal(feed.status.state, 'watching')
      t.strictSame(
        [...sink.state.keys()].sort(),
        (await etcd.read({ prefix: '/p/' as Key })).keyValues.map((kv) => kv.key),
      )
    }
  }
})

void t.test('a restored history is detected when all of it has been compacted beyond us', async (t) => {
  const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, { onGap: 'coalesce' })
  feed.start()
  await settle()
  write(put('a'))
  const backup = etcd.snapshot()
  write(put('a', 'lost'))
  await settle()
  etcd.restore(backup, { clusterId: '1' })
  for (let i = 0; i < 20; i++) write(put('b'))
  etcd.compact(rev(20))
  await pass(2_000)
  t.equal(metrics.of('relisted history-changed'), 1)
  t.equal(sink.base, 20)
})

void t.test('a gap is not bridged to a key that was created at another time', async (t) => {
  const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, { onGap: 'coalesce' })
  feed.start()
  await settle()
  const backup = etcd.snapshot()
  write(put('b'))
  write(put('a'))
  await settle()
  etcd.restore(backup, { clusterId: '1' })
  for (let i = 0; i < 20; i++) write(put('a', `${i}`))
  etcd.compact(rev(20))
  await pass(2_000)
  t.equal(metrics.of('relisted history-changed'), 1)
  t.strictSame([...sink.state.keys()], [key('a')])
})

void t.test('a restored history that differs only in its last deletion is detected', async (t) => {
  for (const isCompacted of [false, true]) {
    const { feed, sink, etcd, metrics, write, settle, pass } = harness(t)
    feed.start()
    await settle()
    write(put('a'), put('b'), put('c'))
    const backup = etcd.snapshot()
    write(remove('a'))
    await settle()
    etcd.restore(backup, { clusterId: '1' })
    write(remove('b'))
    write(elsewhere)
    if (isCompacted) etcd.compact(rev(3))
    await pass(2_000)
    t.equal(metrics.of('relisted history-changed'), 1)
    t.strictSame([...sink.state.keys()], [key('a'), key('c')])
  }
})

void t.test('a deletion as the last event is recognized, even when just compacted', async (t) => {
  for (const isCompacted of [false, true]) {
    const { feed, sink, etcd, metrics, write, settle, pass } = harness(t)
    feed.start()
    await settle()
    write(put('a'), put('b'))
    write(remove('b'))
    await settle()
    etcd.cutWatches()
    if (isCompacted) etcd.compact(rev(3))
    write(put('c'))
    await pass(2_000)
    t.equal(metrics.of('reconnected'), 1)
    t.equal(sink.of('replace').length, 1)
    t.equal(sink.revision, 4)
  }
})

void t.test('a restore between the list and the watch is detected', async (t) => {
  const { feed, sink, etcd, metrics, write, pass } = harness(t, { backfillRevisions: 0 })
  write(put('a'))
  const backup = etcd.snapshot()
  write(put('lost'))
  etcd.setDelays({ readMs: 100 })
  feed.start()
  await pass(260)
  t.strictSame(sink.calls, ['replace 3 initial'])
  etcd.restore(backup, { clusterId: '1' })
  for (let i = 0; i < 5; i++) write(put('b', `${i}`))
  await pass(5_000)
  t.equal(metrics.of('relisted history-changed'), 1)
  t.strictSame([...sink.state.keys()], [key('a'), key('b')])
  t.equal(feed.status.state, 'watching')
})

void t.test('another cluster is another history, whatever its revisions', async (t) => {
  const { feed, sink, etcd, settle, pass, write, metrics } = harness(t)
  feed.start()
  await settle()
  write(put('a'))
  await settle()
  etcd.restore(etcd.snapshot())
  await pass(1_000)
  t.equal(metrics.of('relisted history-changed'), 1)
  t.ok(sink.isSynced)
})

void t.test('a resource that cannot be listed is refused, retried slowly, and delays no other', async (t) => {
  const lists = new SharedLists(1, systemClock)
  const { feed, sink, etcd, metrics, settle, pass } = harness(t, { lists })
  etcd.failReads(new UpstreamError('permission-denied', 'no'), '/p/' as Key)
  feed.start()
  await settle()
  t.equal(feed.status.state, 'refused')
  t.strictSame(sink.calls, ['refused-once permission-denied: no'])
  const release = await lists.slots.acquire()
  release()
  await pass(14_000)
  t.equal(sink.calls.length, 1)
  await pass(31_000)
  t.ok(sink.calls.length >= 2)
  t.ok(sink.calls.length <= 3)
  t.equal(sink.of('refused').length, sink.calls.length - 1, 'by the second attempt, it has lasted')
  t.equal(metrics.of('initialisationFailed permission-denied'), sink.calls.length)
  etcd.failReads(null, '/p/' as Key)
  await pass(61_000)
  t.ok(sink.isSynced)
  t.equal(feed.status.reason, null)
})

void t.test('a rebuild relists and ends the previous history', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(t)
  write(put('a'))
  feed.start()
  await settle()
  sink.state.clear()
  feed.rebuild('a consistency check found a difference')
  await pass(1_000)
  t.strictSame(sink.of('replace').at(-1), '2 history-changed')
  t.equal(sink.state.size, 1)
  t.equal(feed.status.state, 'watching')
  t.equal(etcd.watchCount, 1)
})

void t.test('a feed whose etcd is unreachable at the start waits and says why', async (t) => {
  const { feed, sink, etcd, pass } = harness(t)
  etcd.setUnavailable(true)
  feed.start()
  await pass(30_000)
  t.equal(feed.status.state, 'backing-off')
  t.match(sink.reason, /unavailable/)
  t.equal(feed.status.revision, null)
  etcd.setUnavailable(false)
  await pass(11_000)
  t.ok(sink.isSynced)
})

void t.test('after stop the sink is not called, whatever was in progress', async (t) => {
  for (const stopAfterMs of [0, 50, 150, 250, 350, 450, 1_000]) {
    const { feed, sink, etcd, write, pass, clock } = harness(t)
    for (let i = 0; i < 10; i++) write(put(`k${i}`))
    etcd.setDelays({ readMs: 100 })
    feed.start()
    await pass(stopAfterMs)
    await feed.stop()
    const { length } = sink.calls
    const open = sink.of('replace').length
    write(put('late'))
    await pass(5_000)
    t.strictSame(sink.calls.slice(length), [], `stopped after ${stopAfterMs} ms`)
    t.ok(open <= 1)
    t.equal(etcd.watchCount, 0)
    t.equal(clock.pending, 0, 'no timer is left')
  }
})

void t.test('a feed that is stopped during its last page does not commit', async (t) => {
  class StoppingSink extends RecordingSink {
    stop = (): void => {}

    override replace(...[revision, reason]: Parameters<FeedSink['replace']>): Replacement {
      const replacement = super.replace(revision, reason)
      return {
        ...replacement,
        add: (page) => {
          replacement.add(page)
          this.stop()
        },
      }
    }
  }
  const sink = new StoppingSink()
  const { feed, write, settle } = harness(t, { sink })
  sink.stop = () => void feed.stop()
  write(put('a'))
  feed.start()
  await settle()
  t.strictSame(sink.calls, ['abort 1 initial'])
})

type Trio = [ReturnType<typeof harness>, ReturnType<typeof harness>, ReturnType<typeof harness>]

void t.test('only a few feeds list at once, unless a list fits into the first page', async (t) => {
  const lists = new SharedLists(1, systemClock)
  const [first, second, small] = [1, 2, 3].map(() => harness(t, { lists, backfillRevisions: 0 })) as Trio
  for (let i = 0; i < 10; i++) for (const { write } of [first, second]) write(put(`k${i}`))
  first.etcd.setDelays({ readMs: 100 })
  first.feed.start()
  await first.pass(250) // in the middle of its pages
  second.feed.start()
  small.feed.start()
  await second.settle()
  await small.settle()
  t.strictSame(second.sink.calls, [])
  t.equal(lists.slots.waiting, 1)
  t.ok(small.sink.isSynced)
  await first.pass(1_000)
  await second.settle()
  t.ok(second.sink.isSynced)
})

void t.test('feeds that list at the same time open their watches together, within a bound', async (t) => {
  for (const isEndless of [false, true]) {
    const clock = new VirtualClock()
    const lists = new SharedLists(8, clock)
    const [slow, quick] = [harness(t, { lists }), harness(t, { lists })]
    for (let i = 0; i < 10; i++) for (const { write } of [slow, quick]) write(put(`k${i}`))
    slow.etcd.setDelays({ readMs: 100 })
    slow.feed.start()
    quick.feed.start()
    await slow.pass(50)
    await quick.settle()
    t.strictSame(quick.sink.calls, ['replace 1 initial'], 'it is listed')
    t.equal(quick.feed.status.state, 'listing', 'and waits')
    if (isEndless) await clock.advanceInTurns(1_000, 20)
    else await slow.pass(1_000)
    await quick.settle()
    t.ok(quick.sink.isSynced)
    t.equal(slow.sink.isSynced, !isEndless)
  }
})

void t.test('feeds of one etcd learn together how far a compaction reached', async (t) => {
  const lists = new SharedLists(8, systemClock)
  const h = harness(t, { lists })
  for (let i = 0; i < 10; i++) h.write(put(`k${i}`))
  h.etcd.compact(rev(5))
  // The error of a range read of etcd does not contain the revision.
  const read = h.etcd.read.bind(h.etcd)
  h.etcd.read = async (options) => {
    if (options.revision === undefined || options.revision >= 5) return await read(options)
    throw new UpstreamError('compacted', 'compacted')
  }
  let learning = 0
  const watch = h.etcd.watch.bind(h.etcd)
  h.etcd.watch = (options, handlers) => {
    if (options.startRevision < 5) learning++
    return watch(options, handlers)
  }
  const sinks = ['/p/', '/q/', '/r/'].map((prefix) => {
    const sink = new RecordingSink()
    const options = { upstream: h.etcd, sink, metrics: h.metrics, lists, prefix: prefix as Key }
    const feed = new Feed(feedOptions(h.clock, options))
    t.teardown(() => feed.stop())
    feed.start()
    return sink
  })
  await h.settle()
  await h.pass(1_000)
  for (const sink of sinks) t.strictSame(sink.of('replace'), ['5 initial'])
  t.equal(learning, 1)
})

void t.test('a feed that replays does not hold up the next one', async (t) => {
  const lists = new SharedLists(1, systemClock)
  const first = harness(t, { lists, backfillRevisions: 1 }, { progressIntervalMs: 1e9 }, slowWay())
  const second = harness(t, { lists })
  first.write(put('a'))
  first.write(put('b'))
  first.feed.start()
  second.feed.start()
  await first.settle()
  await second.settle()
  t.equal(first.feed.status.state, 'catching-up')
  t.ok(second.sink.isSynced)
})

void t.test('a resource that a client waits for is listed before the others', async (t) => {
  const lists = new SharedLists(1, systemClock)
  const [first, second, awaited] = [1, 2, 3].map(() => harness(t, { lists, backfillRevisions: 0 })) as Trio
  for (const { etcd, write } of [first, second, awaited]) {
    for (let i = 0; i < 10; i++) write(put(`k${i}`))
    etcd.setDelays({ readMs: 100 })
  }
  for (const { feed } of [first, second, awaited]) feed.start()
  await awaited.settle()
  awaited.sink.isAwaited = true
  await first.pass(1_000)
  await second.settle()
  await awaited.pass(1_000)
  t.ok(awaited.sink.isSynced)
  t.notOk(second.sink.isSynced)
})

void t.test('the first sign of life after an outage wakes a feed from its back-off', async (t) => {
  for (const wakes of [true, false]) {
    const h = harness(t)
    const outage = new Outage(h.etcd, h.clock)
    const sink = new RecordingSink()
    const options = { upstream: h.etcd, sink, metrics: h.metrics, backoff: { firstMs: 60_000, capMs: 60_000 } }
    const feed = new Feed(feedOptions(h.clock, wakes ? { ...options, outage } : options))
    t.teardown(() => feed.stop())
    feed.start()
    await h.settle()
    t.equal(feed.status.state, 'watching')
    h.etcd.setUnavailable(true)
    h.etcd.cutWatches()
    await h.pass(2_000)
    t.equal(feed.status.state, 'backing-off')
    h.etcd.setUnavailable(false)
    await h.pass(1_000)
    t.equal(feed.status.state, wakes ? 'watching' : 'backing-off')
    await feed.stop()
  }
})

void t.test('a feed whose watch fails although etcd answers keeps its own back-off', async (t) => {
  const h = harness(t)
  let woken = 0
  const outage = new Outage(h.etcd, h.clock)
  const stop = outage.sleep(() => woken++)
  await h.pass(10_000)
  t.equal(woken, 0)
  stop()
})

void t.test(
  'a source that answers a revision below ours has not reached it: its history is compared at once',
  async (t) => {
    for (const isAway of [true, false]) {
      const h = harness(t, { backoff: { firstMs: 60_000, capMs: 60_000 } })
      h.write(put('x', 'old'))
      const backup = h.etcd.snapshot()
      h.feed.start()
      await h.settle()
      for (let i = 0; i < 5; i++) h.write(put('x', `${i}`))
      await h.settle()
      const freshness = new UpstreamFreshness({
        upstream: h.etcd,
        prefix: '/p/' as Key,
        feed: h.feed,
        clock: h.clock,
      })
      if (isAway) {
        h.etcd.setUnavailable(true)
        h.etcd.cutWatches()
        await h.settle()
        h.etcd.setUnavailable(false)
      }
      h.etcd.restore(backup, { clusterId: '1' })
      await h.settle()
      h.write(put('x', 'NEW'))
      await t.rejects(freshness.currentRevision(), { code: 'unavailable', message: /below/ })
      await h.settle()
      t.equal(h.sink.state.get(key('x'))?.value.toString(), 'NEW', 'without waiting for its backoff')
      t.equal(h.metrics.of('relisted history-changed'), 1)
      t.ok((await freshness.currentRevision()) >= 3)
    }
  },
)

void t.test(
  'after a restore the state is replaced as a whole: another history is listed in its current state, not a past one',
  async (t) => {
    const h = harness(t)
    for (let i = 0; i < 20; i++) h.write(put(`k${i}`))
    h.feed.start()
    await h.settle()
    const backup = h.etcd.snapshot()
    for (let i = 0; i < 5; i++) h.write(put('later', `${i}`))
    await h.settle()
    h.etcd.restore(backup)
    for (let i = 0; i < 10; i++) h.write(put(`restored${i}`))
    const now = h.etcd.revision
    const before = h.sink.batches.length
    await h.pass(1_000)
    t.equal(h.feed.status.state, 'watching')
    t.equal(h.metrics.of('relisted history-changed'), 1)
    t.equal(h.sink.base, now)
    t.equal(h.sink.state.size, 30)
    t.ok(h.sink.batches.length <= before, 'and nothing is replayed that the state holds already')
  },
)

void t.test('two histories that agree in the newest key and differ in the one before are distinguished', async (t) => {
  const h = harness(t)
  const backup = h.etcd.snapshot()
  h.write(put('x', '1'))
  h.write(put('y', '1'))
  h.feed.start()
  await h.settle()
  t.equal(h.sink.state.get(key('x'))?.value.toString(), '1')
  h.etcd.restore(backup, { clusterId: '1' })
  h.write(put('x', '2'))
  h.write(put('y', '1'))
  await h.pass(2_000)
  t.equal(h.feed.status.state, 'watching')
  t.equal(h.sink.state.get(key('x'))?.value.toString(), '2')
  t.equal(h.metrics.of('relisted history-changed'), 1)
})

void t.test('content that its source confirms in time never counts as old', async (t) => {
  // A member is queried once a second, and the clock is checked four times a second: a response is up to 1,250 ms old.
  for (let phaseMs = 0; phaseMs < 1_250; phaseMs += 125) {
    const clock = new VirtualClock()
    const etcd = createEmbeddedUpstream({ clock })
    const startMs = clock.monotonic()
    const age = () => ({ ageMs: (clock.monotonic() - startMs + phaseMs) % 1_250, validMs: 1_800 })
    const upstream = new Proxy(etcd, {
      get: (target, name): unknown => {
        const member: unknown = Reflect.get(target, name, target)
        if (name !== 'watch') return typeof member === 'function' ? (member.bind(target) as unknown) : member
        return (...given: Parameters<typeof etcd.watch>) => {
          const watch = target.watch(...given)
          return {
            get age() {
              return age()
            },
            requestProgress: () => watch.requestProgress(),
            close: () => watch.close(),
          }
        }
      },
    })
    const source = new SourceAge(clock)
    const sink = new RecordingSink()
    sink.confirmed = (ageMs, validMs) => source.confirmed(ageMs, validMs)
    const feed = new Feed(feedOptions(clock, { upstream, sink, metrics: new CountingMetrics() }))
    feed.start()
    await clock.advanceInTurns(1_000, 20)
    t.ok(sink.isSynced)
    let oldest = 0
    for (let passed = 0; passed < 10_000; passed += 20) {
      await clock.advanceInTurns(20, 20)
      oldest = Math.max(oldest, source.ageMs)
    }
    t.equal(oldest, 0, `${phaseMs} ms after an answer`)
    await feed.stop()
    await etcd.close()
  }
})

void t.test('a watch that is refused is resumed without a list, and only a lasting refusal is reported', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(t)
  feed.start()
  await settle()
  const denied = new UpstreamError('permission-denied', 'no')
  etcd.failWatches(denied)
  etcd.cutWatches(denied)
  await pass(5_000)
  write(put('a'))
  t.same(sink.of('refused'), [])
  etcd.failWatches(null)
  await pass(10_000)
  t.ok(sink.state.has(key('a')))
  t.equal(sink.reason, null)

  etcd.failWatches(denied)
  etcd.cutWatches(denied)
  await pass(25_000)
  t.same([...new Set(sink.of('refused'))], ['permission-denied: no'])
  t.match(feed.status, { state: 'refused', reason: 'permission-denied: no' })
  write(put('b'))
  await pass(60_000)
  t.ok(sink.of('refused').length <= 6, 'it is tried again every 15 to 30 s')
  etcd.failWatches(null)
  await pass(31_000)
  t.ok(sink.state.has(key('b')))
  t.equal(sink.reason, null)
  t.equal(sink.of('replace').length, 1, 'nothing was listed again')
})

void t.test('a refusal before a slow relist and one after it are two, and neither has lasted', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(t)
  feed.start()
  await settle()
  const denied = new UpstreamError('permission-denied', 'no')
  etcd.cutWatches(denied)
  await settle()
  feed.rebuild('a consistency check')
  etcd.setDelays({ readMs: 7_000 })
  etcd.failWatches(new UpstreamError('permission-denied', 'no again'))
  await pass(11_000)
  t.equal(sink.of('replace').length, 1, 'the list takes longer than a refusal that is believed')
  for (let i = 0; i < 100 && sink.of('disconnected').at(-1) !== 'no again'; i++) await pass(100)
  t.equal(sink.of('replace').length, 2)
  t.same(sink.of('refused'), [])
  etcd.setDelays({ readMs: 0 })
  etcd.failWatches(null)
  write(put('a'))
  await pass(10_000)
  t.ok(sink.state.has(key('a')))
  t.same(sink.of('refused'), [])
})
