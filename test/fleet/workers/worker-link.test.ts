/** Tests what the primary forwards over real sockets, from a source that the test plays. */
import { once } from 'node:events'
import t from 'tap'
import type { Batch, Key, KeyValue } from '../../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../../src/engine/model/revision.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import { encodeFrame } from '../../../src/fleet/workers/link.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import type { ResourceFeed } from '../../../src/engine/feed/resource-feed.js'
import type { WorkerChannel } from '../../../src/fleet/workers/worker.js'
import { CountingMetrics } from '../../engine/feed/harness.js'
import { RecordingSink } from '../../engine/feed/recording-sink.js'
import { primaryHarness, resource, type ScriptedFeed } from '../workers-harness.js'
import { testSeeds } from '../../support/test-seeds.js'

const prefix = resource.etcdPrefix

function keyValue(name: string, revision: number, value = `${name}@${revision}`): KeyValue {
  const at = toRevision(revision)
  const key = `${prefix}${name}` as Key
  return { key, value: Buffer.from(value), createRevision: at, modRevision: at, version: 1, leaseId: '0' }
}

function put(revision: number, ...names: readonly string[]): Batch {
  const events = names.map((name) => ({ type: 'put', keyValue: keyValue(name, revision) }) as const)
  return { revision: toRevision(revision), events }
}

function replace(feed: ScriptedFeed, revision: number, keyValues: readonly KeyValue[], reason = 'initial'): void {
  const replacement = feed.sink.replace(toRevision(revision), reason as 'initial')
  replacement.add(keyValues)
  replacement.commit()
}

/** Returns the whole content of a cache as text; states are small here. */
function view(state: ReadonlyMap<Key, KeyValue>): string[] {
  return [...state.values()].map(({ key, modRevision, value }) => `${key} ${modRevision} ${value.toString()}`).sort()
}

void t.test('every worker gets the source’s data, and the source is opened once', async (t) => {
  const h = primaryHarness(t)
  const workers = [await h.worker(), await h.worker(), await h.worker()]
  await until(() => h.feeds.length > 0 && [...h.primary.relays()][0]?.subscribers === 3, 'three subscriptions')
  const [feed] = h.feeds
  t.equal(h.feeds.length, 1, 'one source for one prefix')
  t.ok(feed!.isRunning)
  replace(feed!, 5, [keyValue('a', 3), keyValue('b', 5)])
  feed!.sink.apply([put(6, 'a'), put(8, 'c', 'd')])
  feed!.sink.synced()
  feed!.sink.progress(toRevision(20))
  feed!.sink.disconnected('etcd is away')
  const expected = ['replace 5 initial', 'apply 6,8', 'synced', 'progress 20', 'disconnected etcd is away']
  for (const { sink, feed: own } of workers) {
    await until(() => sink.reason !== null, 'the last word')
    t.same(sink.calls, expected)
    t.same(view(sink.state), view(workers[0]!.sink.state))
    t.ok(own.freshness.trustsProgress)
    t.match(own.status, { state: 'backing-off', revision: 20, reason: 'etcd is away' })
  }
})

void t.test('a worker that starts later has the same history, so its clients can resume', async (t) => {
  const h = primaryHarness(t, { history: { maxItems: 3, maxBytes: 1e9, maxAgeMs: 1e9 } })
  const early = await h.worker()
  await until(() => h.feeds.length > 0, 'the source')
  const feed = h.feeds[0]!
  replace(feed, 5, [keyValue('a', 3)])
  feed.sink.synced()
  for (let revision = 6; revision <= 12; revision++) feed.sink.apply([put(revision, `k${revision}`)])
  feed.sink.apply([{ revision: toRevision(13), events: [{ type: 'delete', key: `${prefix}k6` as Key }] }])
  feed.sink.progress(toRevision(30))
  await until(() => early.sink.revision === 30, 'the first worker')
  const late = await h.worker()
  await until(() => late.sink.isSynced, 'the second worker')
  t.equal(late.sink.base, 10, 'batches before the last three arrive as a state')
  t.same(late.sink.of('apply'), ['11,12,13'])
  t.same(late.sink.of('progress'), ['30'])
  t.same(view(late.sink.state), view(early.sink.state))
})

void t.test('history from before the first state reaches every worker, whenever it starts', async (t) => {
  const h = primaryHarness(t)
  const early = await h.worker()
  await until(() => h.feeds.length > 0, 'the source')
  const { sink } = h.feeds[0]!
  replace(h.feeds[0]!, 10, [keyValue('a', 8)])
  sink.seeking!(true)
  sink.synced()
  await until(() => early.sink.isSynced, 'the first worker')
  const during = await h.worker()
  await until(() => during.sink.isSynced, 'the second worker')
  sink.apply([put(11, 'b')])
  const earlier = sink.earlier!(toRevision(5), toRevision(10))
  earlier.add([keyValue('a', 3)])
  earlier.apply([put(7, 'a')])
  earlier.apply([put(8, 'a')])
  earlier.commit()
  sink.seeking!(false)
  sink.earlier!(toRevision(2), toRevision(10)).commit()
  const late = await h.worker()
  for (const worker of [early, during]) {
    await until(() => worker.sink.calls.at(-1) === 'sought', 'everything')
    t.same(worker.sink.calls, ['replace 10 initial', 'seeking', 'synced', 'apply 11', 'earlier 5-10 [3] 7,8', 'sought'])
  }
  await until(() => late.sink.isSynced, 'the last worker')
  t.same(late.sink.calls, ['replace 5 initial', 'apply 7,8,11', 'sought', 'synced'])
  t.same(view(late.sink.state), view(early.sink.state))
})

void t.test('a worker that joins while the source is refused or unreachable learns that', async (t) => {
  const h = primaryHarness(t)
  const first = await h.worker()
  await until(() => h.feeds.length > 0, 'the source')
  h.feeds[0]!.sink.refused('permission denied', false)
  await until(() => first.sink.reason !== null, 'the refusal')
  const second = await h.worker()
  await until(() => second.sink.reason !== null, 'the refusal, again')
  t.same(second.sink.calls, ['refused permission denied'])
  replace(h.feeds[0]!, 5, [])
  h.feeds[0]!.sink.synced()
  h.feeds[0]!.sink.disconnected('gone')
  const reasons = (): (string | null)[] => [...h.primary.relays()].map((relay) => relay.disconnectedReason)
  t.same(reasons(), ['gone'], 'which the primary reports once for all workers')
  await until(() => second.sink.reason === 'gone', 'the loss')
  const third = await h.worker()
  await until(() => third.sink.reason === 'gone', 'state and loss')
  t.same(third.sink.calls, ['replace 5 initial', 'synced', 'disconnected gone'])
  h.feeds[0]!.sink.refused('denied once', false)
  await until(() => third.sink.reason === 'denied once', 'a refusal that may pass')
  h.feeds[0]!.sink.refused('denied', true)
  await until(() => third.sink.reason === 'denied', 'a refusal that has lasted')
  t.same(third.sink.calls.slice(-2), ['disconnected denied once', 'refused denied'])
})

void t.test('a worker that does not read is dropped at the limit, and delays no other', async (t) => {
  const maxQueuedBytes = 4 * 1024 * 1024
  const h = primaryHarness(t, { maxQueuedBytes })
  const good = await h.worker()
  const stuck = await h.worker()
  await until(() => h.feeds.length > 0 && [...h.primary.relays()][0]?.subscribers === 2, 'both subscriptions')
  const feed = h.feeds[0]!
  replace(feed, 1, [])
  await until(() => stuck.sink.revision === 1, 'the state')
  stuck.socket.pause()
  const value = 'v'.repeat(64 * 1024)
  let most = 0
  let revision = 1
  while (stuck.dropped === null && revision < 2_000) {
    revision++
    const events = [{ type: 'put', keyValue: keyValue('big', revision, value) } as const]
    feed.sink.apply([{ revision: toRevision(revision), events }])
    most = Math.max(most, stuck.link.queuedBytes)
    if (revision % 8 === 0) await until(() => good.sink.revision === revision, 'the one that reads')
  }
  t.match(stuck.dropped, /more than 4194304 bytes behind/)
  t.ok(most <= maxQueuedBytes, `${most} bytes waited at most`)
  t.equal(good.dropped, null)
  await until(() => good.sink.revision === revision, 'the one that reads')
  t.equal([...h.primary.relays()][0]?.subscribers, 1)
})

void t.test('a worker that its own subscription drops does not stay subscribed', async (t) => {
  const h = primaryHarness(t, { maxQueuedBytes: -1 })
  const worker = await h.worker()
  await until(() => worker.dropped !== null, 'the end of the link')
  t.equal([...h.primary.relays()][0]?.subscribers ?? 0, 0)
})

void t.test('an unreadable frame ends the link, whichever side sent it', async (t) => {
  const h = primaryHarness(t)
  const worker = await h.worker()
  worker.socket.write(encodeFrame({ kind: 'nonsense' }))
  await until(() => worker.dropped !== null, 'the end of the link')
  t.match(worker.dropped, /unknown message nonsense/)
  const other = await h.worker()
  const ended = once(other.socket, 'close')
  other.primarySocket.write(Buffer.from([0, 0, 0, 5, 99, 0, 0, 0, 0]))
  await ended
})

void t.test('the worse reason survives when one replacement overtakes another', async (t) => {
  const h = primaryHarness(t)
  const worker = await h.worker()
  await until(() => h.feeds.length > 0, 'the source')
  const feed = h.feeds[0]!
  replace(feed, 5, [keyValue('a', 3)])
  await until(() => worker.sink.revision === 5, 'the first state')
  worker.socket.pause()
  const large = Array.from({ length: 400 }, (_, i) => keyValue(`k${String(i).padStart(4, '0')}`, 6, 'x'.repeat(64_000)))
  replace(feed, 10, large, 'history-changed')
  await new Promise((resolve) => setImmediate(resolve))
  replace(feed, 20, large.slice(0, 2), 'coalesce')
  feed.sink.apply([put(21, 'z')])
  worker.socket.resume()
  await until(() => worker.sink.revision === 21, 'the second state')
  t.same(worker.sink.calls, ['replace 5 initial', 'abort 10 history-changed', 'replace 20 history-changed', 'apply 21'])
})

void t.test('requests go to the source of the prefix, and its errors are returned', async (t) => {
  const h = primaryHarness(t)
  const { feed: own, channel } = await h.worker()
  await until(() => h.feeds.length > 0, 'the source')
  const feed = h.feeds[0]!
  const state = Array.from({ length: 50 }, (_, i) =>
    keyValue(`k${String(i).padStart(2, '0')}`, i + 1, 'x'.repeat(20_000)),
  )
  feed.freshness = {
    ...feed.freshness,
    currentRevision: async () => toRevision(Number.MAX_SAFE_INTEGER),
    readState: async (revision) => {
      if (revision === 3) {
        throw new UpstreamError('compacted', 'too old', { compactRevision: toRevision(9) })
      }
      return { revision: revision ?? toRevision(77), keyValues: state }
    },
    readKey: async (key) => state.find((keyValue) => keyValue.key === key) ?? null,
  }
  t.equal(await own.freshness.currentRevision(), Number.MAX_SAFE_INTEGER)
  t.same(await own.freshness.readState(null), { revision: 77, keyValues: state })
  t.same(await own.freshness.readState(toRevision(50)), { revision: 50, keyValues: state })
  t.same(await own.freshness.readKey(state[7]!.key), state[7])
  t.equal(await own.freshness.readKey(`${prefix}none` as Key), null)
  await t.rejects(own.freshness.readState(toRevision(3)), { code: 'compacted', message: 'too old', compactRevision: 9 })
  own.freshness.requestProgress()
  await until(() => feed.progressRequests === 1, 'the request for progress')
  t.equal(await channel.ask('metrics'), 'own')

  let asked: AbortSignal | undefined
  feed.freshness = {
    ...feed.freshness,
    readKey: (_key, signal) => {
      asked = signal
      return new Promise(() => {})
    },
  }
  const controller = new AbortController()
  const given = own.freshness.readKey(state[7]!.key, controller.signal)
  await until(() => asked !== undefined, 'the question')
  controller.abort(new Error('enough'))
  await t.rejects(given, { message: 'enough' })
  await until(() => asked?.aborted === true, 'the primary to give up as well')

  const pending = own.freshness.readKey(state[7]!.key)
  await until(() => asked?.aborted === false, 'another question')
  channel.close()
  await t.rejects(pending, { code: 'unavailable' })
  await t.rejects(own.freshness.currentRevision(), { code: 'unavailable' })
})

void t.test('a worker calls the upstream through the primary, and values are returned byte for byte', async (t) => {
  const upstream = createEmbeddedUpstream()
  const h = primaryHarness(t, { upstream })
  const { upstream: remote } = (await h.worker()).channel
  const key = '/registry/things/\u00ff' as Key
  const value = Buffer.from([0, 255, 128, 10])
  const written = await remote.write([{ key, modRevision: 0 as Revision }], [{ type: 'put', key, value }])
  t.equal(written.kind, 'written')
  t.same(await remote.readKey(key), await upstream.readKey(key))
  t.same((await remote.readKey(key))?.value, value)
  t.same(await remote.write([{ key, modRevision: 0 as Revision }], [{ type: 'delete', key }]), {
    kind: 'conflict',
    revision: upstream.revision,
    current: [await upstream.readKey(key)],
  })
  t.same(await remote.read({ prefix }), await upstream.read({ prefix }))
  t.equal(await remote.currentRevision(), upstream.revision)
  t.same(await remote.status(), await upstream.status())
  t.match(await remote.grantLease(60), /^\d+$/)
  upstream.setUnavailable(true)
  await t.rejects(remote.currentRevision(), { name: 'UpstreamError', code: 'unavailable' })
})

void t.test('a worker gets no events of a resource it has unsubscribed from, and can subscribe again', async (t) => {
  const h = primaryHarness(t)
  const { feed: own, sink } = await h.worker()
  await until(() => h.feeds.length > 0, 'the source')
  const feed = h.feeds[0]!
  replace(feed, 5, [keyValue('a', 3)])
  await until(() => sink.revision === 5, 'the state')
  await own.stop()
  await until(() => [...h.primary.relays()][0]?.subscribers === 0, 'the subscription to end')
  feed.sink.apply([put(6, 'b')])
  own.start()
  await until(() => sink.revision === 6, 'the state again')
  t.same(sink.calls, ['replace 5 initial', 'replace 5 initial', 'apply 6'])
  t.equal(h.feeds.length, 1, 'the source kept running')
})

void t.test('a changed form gets a source of its own, and no later form the old source', async (t) => {
  const h = primaryHarness(t)
  const workers = [await h.worker(), await h.worker()]
  const take = (channel: WorkerChannel, form: string): { sink: RecordingSink; feed: ResourceFeed } => {
    const sink = new RecordingSink()
    const feed = channel.openFeed({ resource: { ...resource, form }, sink, metrics: new CountingMetrics() })
    feed.start()
    return { sink, feed }
  }
  const before = workers.map(({ channel }) => take(channel, 'v1'))
  await until(
    () => h.feeds.length === 2 && [...h.primary.relays()][1]?.subscribers === 2,
    'one without a form, one with',
  )
  replace(h.feeds[1]!, 5, [keyValue('a', 3, 'as v1')])
  await until(() => before.every(({ sink }) => sink.revision === 5), 'the state')

  const change = async (worker: number, form: string): Promise<RecordingSink> => {
    await before[worker]!.feed.stop()
    return take(workers[worker]!.channel, form).sink
  }
  const first = await change(0, 'v2')
  await until(() => h.feeds.length === 3, 'a source of the new form')
  t.ok(h.feeds[1]!.isRunning, 'the other worker still needs the old one')
  const second = await change(1, 'v2')
  await until(() => !h.feeds[1]!.isRunning, 'the end of the old source, at once')
  replace(h.feeds[2]!, 5, [keyValue('a', 3, 'as v2')])
  for (const sink of [first, second]) {
    await until(() => sink.revision === 5, 'the state in the new form')
    t.same(view(sink.state), [`${prefix}a 3 as v2`])
  }
  take(workers[0]!.channel, 'v1')
  await until(() => h.feeds.length === 4, 'a new source, although the form is an old one')
})

for (const seed of testSeeds(3)) {
  void t.test(
    `workers hold what the source delivered, whenever they join and however they read (seed ${seed})`,
    async (t) => {
      const random = seededRandom(seed)
      const h = primaryHarness(t, { history: { maxItems: 40, maxBytes: 400_000, maxAgeMs: 1e9 } })
      const workers = [await h.worker()]
      await until(() => h.feeds.length > 0, 'the source')
      const { sink } = h.feeds[0]!
      const truth = new Map<Key, KeyValue>()
      let revision = 1
      replace(h.feeds[0]!, revision, [])
      sink.synced()
      for (let step = 0; step < 600; step++) {
        const dice = random.next()
        if (dice < 0.7) {
          const batches: Batch[] = []
          for (let n = randomInteger(random, 1, 4); n > 0; n--) {
            revision += randomInteger(random, 1, 3)
            const name = `k${String(randomInteger(random, 0, 99)).padStart(2, '0')}`
            const key = `${prefix}${name}` as Key
            const isDelete = truth.has(key) && random.next() < 0.3
            if (isDelete) {
              truth.delete(key)
              batches.push({ revision: toRevision(revision), events: [{ type: 'delete', key }] })
            } else {
              const written = keyValue(name, revision, `${revision}`.repeat(randomInteger(random, 1, 4_000)))
              truth.set(key, written)
              batches.push({ revision: toRevision(revision), events: [{ type: 'put', keyValue: written }] })
            }
          }
          sink.apply(batches)
        } else if (dice < 0.75) sink.progress(toRevision(++revision))
        else if (dice < 0.77) {
          const reason = (['gap', 'coalesce', 'history-changed'] as const)[randomInteger(random, 0, 2)]!
          revision += 5
          replace(
            h.feeds[0]!,
            revision,
            [...truth.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
            reason,
          )
          sink.synced()
        } else if (dice < 0.8 && workers.length < 8) workers.push(await h.worker())
        else if (dice < 0.88) workers[randomInteger(random, 0, workers.length - 1)]!.socket.pause()
        else if (dice < 0.96) workers[randomInteger(random, 0, workers.length - 1)]!.socket.resume()
        else await new Promise((resolve) => setImmediate(resolve))
      }
      sink.progress(toRevision(++revision))
      for (const worker of workers) {
        worker.socket.resume()
        await until(() => worker.sink.revision === revision, `revision ${revision}`)
        t.same(view(worker.sink.state), view(truth))
        t.equal(worker.dropped, null)
      }
      t.ok(workers.length > 3, `${workers.length} workers came`)
    },
  )
}

void t.test('while the primary is silent, the resources age and requests fail, until it answers again', async (t) => {
  const h = primaryHarness(t)
  const clock = new VirtualClock()
  const { sink, feed: own, primarySocket } = await h.worker(clock)
  await until(() => h.feeds.length > 0, 'the source')
  const feed = h.feeds[0]!
  replace(feed, 5, [keyValue('a', 3)])
  feed.sink.synced()
  await until(() => sink.isSynced, 'the state')
  let answer!: () => void
  feed.freshness = {
    ...feed.freshness,
    currentRevision: () => new Promise((resolve) => (answer = () => resolve(toRevision(9)))),
  }
  const gone = { code: 'unavailable', message: 'the primary process does not answer' }
  const ends = t.rejects(own.freshness.currentRevision(), gone)
  await until(() => answer !== undefined, 'the question')
  primarySocket.pause()
  await passes(clock, 2_500)
  t.equal(sink.reason, null, 'five ticks are not silence yet')
  await passes(clock, 1_000)
  await ends
  await t.rejects(own.freshness.readKey(`${prefix}a` as Key), gone, 'and nothing more is asked')
  t.equal(sink.reason, 'the primary process does not answer')
  t.match(sink.confirmations.at(-1), { ageMs: 3_000, validMs: Infinity }, 'with the age of its last word')
  t.match(own.status, { state: 'backing-off', reason: 'the primary process does not answer' })
  primarySocket.resume()
  await until(() => own.status.state === 'watching', 'its return')
  t.equal(sink.calls.at(-1), 'synced')
  feed.freshness = { ...feed.freshness, currentRevision: async () => toRevision(10) }
  t.equal(await own.freshness.currentRevision(), 10)
  await passes(clock, 10_000)
  t.equal(own.status.state, 'watching', 'pings keep it there')
})

void t.test('an age does not change with the time of day', async (t) => {
  const clock = new VirtualClock()
  const h = primaryHarness(t, { clock })
  const first = await h.worker(clock)
  await until(() => h.feeds.length > 0, 'the source')
  const feed = h.feeds[0]!
  replace(feed, 5, [keyValue('a', 3)])
  feed.sink.synced()
  feed.sink.confirmed?.(2_000, 60_000)
  await until(() => first.sink.confirmations.length > 0, 'the age')
  clock.jump(3_600_000)
  const second = await h.worker(clock)
  await until(() => second.sink.confirmations.length > 0, 'the age, for one that comes later')
  t.match(second.sink.confirmations.at(-1), { ageMs: 2_000, validMs: 60_000 })
})

void t.test('a worker that stops pinging is dropped, and one that never pinged has three minutes', async (t) => {
  const clock = new VirtualClock()
  const h = primaryHarness(t, { clock })
  const pinging = new VirtualClock()
  const [stopped, hanging] = [await h.worker(pinging), await h.worker(new VirtualClock())]
  await until(() => h.feeds.length > 0, 'the source')
  await passes(pinging, 1_000)
  await passes(clock, 29_000)
  t.equal(stopped.dropped, null)
  await passes(clock, 1_000)
  await until(() => stopped.dropped !== null, 'the end of the link')
  t.match(stopped.dropped, /it has not responded for 30 s/)
  t.equal(hanging.dropped, null)
  clock.advance(149_000)
  t.equal(hanging.dropped, null)
  clock.advance(1_000)
  await until(() => hanging.dropped !== null, 'the end of the link')
  t.match(hanging.dropped, /it has not responded for 180 s/)
})

void t.test('what a worker counted stays in every scrape: when it is late, and after it has ended', async (t) => {
  const clock = new VirtualClock()
  const ended: string[] = []
  const mergeMetrics = async (ofWorkers: readonly string[]): Promise<string> => [...ofWorkers, ...ended].join('+')
  const h = primaryHarness(t, { clock, mergeMetrics, keepCounts: (ofWorker) => void ended.push(ofWorker) })
  let asked = 0
  let answer!: (text: string) => void
  const collectMetrics = (): Promise<string> =>
    ++asked === 1 ? Promise.resolve('slow') : new Promise((resolve) => (answer = resolve))
  const { channel: good } = await h.worker(new VirtualClock(), { collectMetrics: async () => 'good' })
  const { channel, link } = await h.worker(new VirtualClock(), { collectMetrics })
  t.equal(await good.ask('metrics'), 'good+slow')

  const late = good.ask('metrics')
  await until(() => asked === 2, 'the request')
  await passes(clock, 2_000)
  t.equal(await late, 'good+slow', 'with its last answer')

  answer('slower')
  await until(() => link.metrics === 'slower', 'the late answer')
  const during = good.ask('metrics')
  await until(() => asked === 3, 'the next request')
  channel.close()
  t.equal(await during, 'good+slower', 'with the late answer, once, although it ends during the scrape')
  t.equal(await good.ask('metrics'), 'good+slower')
})

/** Advances the clock, with turns of the event loop in which frames arrive. */
async function passes(clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 500) {
    clock.advance(500)
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
  }
}
