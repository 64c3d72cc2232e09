import t, { type Test } from 'tap'
import { Feed } from '../../../src/engine/feed/feed.js'
import type { FeedOptions } from '../../../src/engine/feed/feed-options.js'
import { SharedLists } from '../../../src/engine/feed/shared-lists.js'
import type { Key } from '../../../src/engine/model/event.js'
import { toRevision as rev } from '../../../src/engine/model/revision.js'
import {
  type ReadOptions,
  UpstreamError,
  type UpstreamStatus,
  type WriteOperation,
} from '../../../src/engine/upstream/upstream.js'
import { type Logger, silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { CountingMetrics, feedOptions, put, remove } from './harness.js'
import { RecordingSink } from './recording-sink.js'

/** Outside the prefix of the feeds. */
const putElsewhere = (i: number): WriteOperation => ({ type: 'put', key: '/q/x' as Key, value: Buffer.from(`${i}`) })

interface Source {
  /** Lists at an exact revision below this are refused. Watches are refused below the store's compaction. */
  readableFrom: number
  /** How many lists at an exact revision get no answer. */
  unanswered: number
  keepsEvents: boolean
  /** Watches from the past that hear nothing: none, all, or all, which do not even open. */
  silent: 'none' | 'opened' | 'unopened'
}

/** A store that behaves like an API server: its past is expensive, but it keeps its latest events. */
function apiServer(t: Test, given: Partial<Source> = {}) {
  const clock = new VirtualClock()
  const etcd = createEmbeddedUpstream({ clock, random: seededRandom(7), clusterId: '1' })
  const source: Source = { readableFrom: 0, unanswered: 0, keepsEvents: true, silent: 'none', ...given }
  const requests: string[] = []
  const open = { watches: 0, most: 0 }
  const upstream: FeedOptions['upstream'] = {
    async status(signal): Promise<UpstreamStatus> {
      const { keepsEvents } = source
      return { ...(await etcd.status(signal)), isHistoryDear: true, keepsEvents }
    },
    async read(options: ReadOptions) {
      if (options.revision !== undefined && options.revision < etcd.revision) {
        requests.push(`list ${options.revision}`)
        if (source.unanswered-- > 0) throw new UpstreamError('unavailable', 'busy')
        if (options.revision < source.readableFrom) throw new UpstreamError('compacted', 'gone')
      }
      return await etcd.read(options)
    },
    readKey: (...args) => etcd.readKey(...args),
    currentRevision: (signal) => etcd.currentRevision(signal),
    watch(options, handlers) {
      if (options.startRevision > etcd.revision) return etcd.watch(options, handlers)
      requests.push(`watch ${options.startRevision - 1}`)
      open.most = Math.max(open.most, ++open.watches)
      if (source.silent === 'opened') setImmediate(() => handlers.onOpen())
      const isSilent = source.silent !== 'none'
      const watch = isSilent ? { requestProgress: () => {}, close: () => {} } : etcd.watch(options, handlers)
      return {
        requestProgress: () => watch.requestProgress(),
        close: () => {
          open.watches--
          watch.close()
        },
      }
    },
  }
  t.teardown(() => etcd.close())
  const feedOf = (options: Partial<FeedOptions> = {}) => {
    const sink = new RecordingSink()
    const feed = new Feed(feedOptions(clock, { upstream, sink, metrics: new CountingMetrics(), ...options }))
    t.teardown(() => feed.stop())
    feed.start()
    return { sink, feed }
  }
  return { clock, etcd, source, requests, open, feedOf, pass: (ms = 2_000) => clock.advanceInTurns(ms, 20) }
}

function recordingLogger() {
  const infos: object[] = []
  const errors: object[] = []
  const logger: Logger = {
    ...silentLogger,
    info: (fields: object) => infos.push(fields),
    error: (fields: object) => errors.push(fields),
  }
  return { logger, infos, errors }
}

void t.test('events from before the first state come with the values that they replaced', async (t) => {
  const { etcd, requests, feedOf, pass } = apiServer(t)
  etcd.commit([put('a'), put('b')])
  etcd.commit([put('unchanged')])
  for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
  etcd.commit([remove('b')])
  const { logger, infos } = recordingLogger()
  const { sink } = feedOf({ backfillRevisions: 4, logger })
  await pass()
  t.strictSame(sink.calls, ['replace 7 initial', 'seeking', 'synced', 'earlier 3-7 [2,2] 4,5,6,7', 'sought'])
  t.strictSame(requests, ['watch 3', 'list 3'])
  t.match(infos, [{ resources: 1, resumableAfter: 3, withoutHistory: 0 }], 'a log line says how far it reaches')
})

void t.test('without events, a proof that there were none is enough', async (t) => {
  const { etcd, requests, feedOf, pass } = apiServer(t)
  etcd.commit([put('a')])
  for (let i = 0; i < 20; i++) etcd.commit([putElsewhere(i)])
  const { sink } = feedOf({ backfillRevisions: 15 })
  await pass()
  t.strictSame(sink.of('earlier'), ['7-22 [] '])
  t.strictSame(requests, ['watch 7'], 'no list')
})

void t.test('a watch below the window is tried again within it, three times at most', async (t) => {
  const { etcd, requests, feedOf, pass } = apiServer(t)
  for (let i = 0; i < 100; i++) etcd.commit([put('a', `${i}`)])
  etcd.compact(rev(61))
  const { sink } = feedOf()
  await pass()
  t.strictSame(requests, ['watch 1', 'watch 66', 'list 66'], 'with some room, because the window moves')
  t.match(sink.of('earlier'), [/^66-101 \[66\] 67,68,/])

  const moving = apiServer(t)
  for (let i = 0; i < 100; i++) moving.etcd.commit([put('a', `${i}`)])
  moving.etcd.compact(rev(101))
  const late = moving.feedOf()
  await moving.pass()
  t.strictSame(moving.requests, ['watch 1'], 'an empty window is not tried again')
  t.strictSame(late.sink.calls, ['replace 101 initial', 'seeking', 'synced', 'sought'])
})

void t.test('where the past state is gone, the same events are used from later on', async (t) => {
  const { etcd, source, requests, feedOf, pass } = apiServer(t)
  for (let i = 0; i < 800; i++) etcd.commit([put('a', `${i}`)])
  source.readableFrom = 780
  const { sink } = feedOf()
  await pass()
  t.strictSame(requests, ['watch 1', 'list 1', 'list 701', 'list 789'])
  t.match(sink.of('earlier'), [/^789-801 \[789\] 790,791,/])

  source.readableFrom = 801
  requests.length = 0
  const failing = feedOf()
  await pass()
  t.equal(requests.length, 4, 'three lists at most')
  t.strictSame(failing.sink.of('earlier'), [])
  t.equal(failing.sink.calls.at(-1), 'sought', 'the first state stays the beginning')
})

void t.test('a list that gets no answer is repeated, three times at most', async (t) => {
  for (const [unanswered, found] of [
    [2, 1],
    [3, 0],
  ] as const) {
    const { etcd, requests, feedOf, pass } = apiServer(t, { unanswered })
    for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
    const { sink } = feedOf()
    await pass(6_000)
    t.strictSame(requests, ['watch 1', 'list 1', 'list 1', 'list 1'])
    t.equal(sink.of('earlier').length, found)
    t.equal(sink.calls.at(-1), 'sought')
  }
})

void t.test('nothing is sought where the source keeps no events, or with no backfill', async (t) => {
  for (const [keepsEvents, backfillRevisions] of [
    [false, 10_000],
    [true, 0],
  ] as const) {
    const { etcd, requests, feedOf, pass } = apiServer(t, { keepsEvents })
    for (let i = 0; i < 10; i++) etcd.commit([put('a', `${i}`)])
    const { sink } = feedOf({ backfillRevisions })
    await pass()
    t.strictSame(sink.calls, ['replace 11 initial', 'synced'])
    t.strictSame(requests, [])
  }
})

void t.test('four resources are read back at once, those first for which a client waits', async (t) => {
  const { clock, etcd, open, feedOf, pass } = apiServer(t)
  etcd.commit([put('a')])
  for (let i = 0; i < 10; i++) etcd.commit([putElsewhere(i)])
  const lists = new SharedLists(16, clock)
  const sinks = Array.from({ length: 9 }, () => feedOf({ lists, backfillRevisions: 5 }).sink)
  sinks.at(-1)!.isAwaited = true
  const done = (): number[] => sinks.flatMap(({ calls }, i) => (calls.includes('sought') ? [i] : []))
  await pass(300)
  t.equal(open.most, 4)
  t.ok(
    sinks.every(({ isSynced }) => isSynced),
    'all are ready before that',
  )
  await pass(250)
  t.strictSame(done().includes(8), true, 'the awaited one is in the second round')
  await pass()
  t.equal(done().length, 9)
  t.equal(open.most, 4)
})

void t.test('beyond the limit of bytes, the oldest events are left out', async (t) => {
  const { etcd, requests, feedOf, pass } = apiServer(t)
  for (let i = 0; i < 20; i++) etcd.commit([put('a', 'x'.repeat(1_000_000))])
  const { sink } = feedOf()
  await pass()
  t.strictSame(requests, ['watch 1', 'list 13'])
  t.match(sink.of('earlier'), [/^13-21 \[13\] 14,/], '8 of them fit')

  const deleted = apiServer(t)
  for (let i = 0; i < 20; i++) deleted.etcd.commit([put(`k${i}`, 'x'.repeat(1_000_000))])
  for (let i = 0; i < 20; i++) deleted.etcd.commit([remove(`k${i}`)])
  const after = deleted.feedOf({ backfillRevisions: 20 })
  await deleted.pass()
  t.strictSame(deleted.requests, ['watch 21', 'list 21', 'list 39'], 'values that were deleted count, too')
  t.match(after.sink.of('earlier'), [/^39-41 /])
})

void t.test('stopping the feed ends it', async (t) => {
  const { etcd, open, feedOf, pass } = apiServer(t, { silent: 'opened' })
  for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
  const { logger, infos } = recordingLogger()
  const { feed, sink } = feedOf({ logger })
  await pass(300)
  t.equal(open.watches, 1, 'it is being read back')
  await feed.stop()
  t.strictSame(sink.of('earlier'), [])
  t.equal(open.watches, 0)
  t.strictSame(infos, [], 'no line says that it had no history')
})

void t.test('a source that does not report its progress is asked once', async (t) => {
  const { clock, etcd, requests, feedOf } = apiServer(t, { silent: 'opened' })
  for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
  const { sink } = feedOf()
  await clock.advanceInTurns(16_000, 200)
  t.strictSame(requests, ['watch 1'])
  t.equal(sink.calls.at(-1), 'sought')
})

void t.test('a source that does not even open the watch is asked again', async (t) => {
  const { clock, etcd, requests, feedOf } = apiServer(t, { silent: 'unopened' })
  for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
  const { sink } = feedOf()
  await clock.advanceInTurns(50_000, 200)
  t.strictSame(requests, ['watch 1', 'watch 1', 'watch 1'])
  t.equal(sink.calls.at(-1), 'sought')
})

void t.test('history that the sink refuses does not count as read', async (t) => {
  const { etcd, feedOf, pass } = apiServer(t)
  for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
  const { logger, infos, errors } = recordingLogger()
  const { sink } = feedOf({ logger })
  sink.takesEarlier = false
  await pass()
  t.equal(sink.of('earlier').length, 1)
  t.strictSame(infos, [{ resources: 0, withoutHistory: 1 }])
  t.strictSame(errors, [])
})

void t.test('a bug is logged as an error', async (t) => {
  const { etcd, feedOf, pass } = apiServer(t)
  for (let i = 0; i < 3; i++) etcd.commit([put('a', `${i}`)])
  const { logger, infos, errors } = recordingLogger()
  const { sink } = feedOf({ logger })
  const bug = new TypeError('undefined is not a function')
  sink.earlier = () => {
    throw bug
  }
  await pass()
  t.match(errors, [{ err: bug }])
  t.strictSame(infos, [{ resources: 0, withoutHistory: 1 }])
  t.equal(sink.calls.at(-1), 'sought')
})
