import t, { type Test } from 'tap'
import { UpstreamFreshness } from '../../../src/engine/feed/upstream-freshness.js'
import type { Key } from '../../../src/engine/model/event.js'
import { toRevision as rev } from '../../../src/engine/model/revision.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { smallPages } from '../../support/small-pages.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'
import { put, remove } from './harness.js'

function harness(t: Test) {
  const clock = new VirtualClock()
  const etcd = createEmbeddedUpstream({ clock, progressIntervalMs: 1e9 })
  let reads = 0
  const counted = Object.assign(Object.create(etcd) as typeof etcd, {
    read: (...args: Parameters<typeof etcd.read>) => (reads++, etcd.read(...args)),
    currentRevision: (signal?: AbortSignal) => (reads++, etcd.currentRevision(signal)),
    readKey: (...args: Parameters<typeof etcd.readKey>) => (reads++, etcd.readKey(...args)),
  })
  let asked = 0
  const freshness = new UpstreamFreshness({
    upstream: smallPages(counted, 2),
    prefix: '/p/' as Key,
    feed: { trustsProgress: true, requestProgress: () => void asked++, position: null, doubtHistory: () => {} },
    clock,
  })
  t.teardown(() => etcd.close())
  return { clock, etcd, freshness, reads: () => reads, asked: () => asked }
}

void t.test('a burst of requests costs two reads, and none of them gets a past state', async (t) => {
  const { clock, etcd, freshness, reads } = harness(t)
  etcd.setDelays({ readMs: 100 })
  const first = freshness.currentRevision()
  await nextTurn()
  etcd.commit([put('a')])
  const burst = Array.from({ length: 50 }, () => freshness.currentRevision())
  await clock.advanceInTurns(300, 50)
  t.ok((await first) >= 1)
  for (const revision of await Promise.all(burst)) t.ok(revision >= 2)
  t.equal(reads(), 2)
})

void t.test('a burst of requests for one object costs two reads, and none of them gets a past version', async (t) => {
  const { clock, etcd, freshness, reads } = harness(t)
  etcd.setDelays({ readMs: 100 })
  etcd.commit([put('a', 'first')])
  const first = freshness.readKey(put('a').key)
  await nextTurn()
  etcd.commit([put('a', 'second')])
  const leaving = new AbortController()
  const left = freshness.readKey(put('a').key, leaving.signal)
  const burst = Array.from({ length: 50 }, () => freshness.readKey(put('a').key))
  leaving.abort(new Error('gone'))
  await t.rejects(left, { message: 'gone' })
  await clock.advanceInTurns(300, 50)
  await first
  for (const found of await Promise.all(burst)) t.equal(found?.value.toString(), 'second')
  t.equal(reads(), 2)
})

void t.test('a read is cancelled when its last waiter leaves, and every wait has a limit', async (t) => {
  const { clock, etcd, freshness, reads } = harness(t)
  etcd.setDelays({ readMs: 60_000 })
  const leaving = Array.from({ length: 100 }, () => new AbortController())
  const left = leaving.map(({ signal }, i) => freshness.readKey(put(`p${i}`).key, signal))
  await nextTurn()
  t.equal(reads(), 32)
  for (const one of leaving) one.abort(new Error('gone'))
  for (const one of left) await t.rejects(one, { message: 'gone' })
  await nextTurn()
  t.equal(reads(), 32, 'the others have left the queue')
  const asked = Array.from({ length: 33 }, (_, i) => freshness.readKey(put(`q${i}`).key))
  const settled = Promise.allSettled(asked)
  await nextTurn()
  t.equal(reads(), 64, 'their turns are free again')
  await clock.advanceInTurns(10_000, 20)
  t.same(
    (await settled).map(({ status }) => status),
    asked.map(() => 'rejected'),
  )
})

void t.test('objects are read a few at a time', async (t) => {
  const { clock, etcd, freshness, reads } = harness(t)
  etcd.setDelays({ readMs: 100 })
  const asked = Array.from({ length: 70 }, (_, i) => freshness.readKey(put(`p${i}`).key))
  await nextTurn()
  t.equal(reads(), 32)
  await clock.advanceInTurns(1_000, 50)
  await Promise.all(asked)
  t.equal(reads(), 70)
})

void t.test('a state has one revision, is complete, and is not older than the request', async (t) => {
  const { clock, etcd, freshness, reads } = harness(t)
  for (const name of ['a', 'b', 'c', 'd', 'e']) etcd.commit([put(name)])
  etcd.setDelays({ readMs: 100 })
  const reading = freshness.readState(null)
  await clock.advanceInTurns(160, 20)
  etcd.commit([put('a', 'later'), remove('e')])
  const after = [freshness.readState(null), freshness.readState(null)]
  await clock.advanceInTurns(1_000, 20)
  const { revision, keyValues } = await reading
  t.equal(revision, 6)
  t.strictSame(
    keyValues.map((kv) => kv.value.toString()),
    ['a', 'b', 'c', 'd', 'e'],
  )
  for (const state of await Promise.all(after)) {
    t.equal(state.revision, 7)
    t.equal(state.keyValues.length, 4)
  }
  t.equal(reads(), 3 + 2)
})

void t.test(
  'the keys are summarised once for all requests that came before, and only where that is cheap',
  async (t) => {
    const { clock, etcd, freshness, reads } = harness(t)
    for (const name of ['a', 'b', 'c']) etcd.commit([put(name)])
    etcd.setDelays({ readMs: 100 })
    const first = freshness.summariseKeys!()
    await nextTurn()
    etcd.commit([remove('c')])
    etcd.commit([put('b', 'later')])
    const after = [freshness.summariseKeys!(), freshness.summariseKeys!()]
    await clock.advanceInTurns(1_000, 20)
    t.same(await first, { revision: 6, count: 2, maxModRevision: 6 })
    for (const summary of await Promise.all(after)) t.same(summary, { revision: 6, count: 2, maxModRevision: 6 })
    t.equal(reads(), 2)
    const feed = { trustsProgress: false, requestProgress: () => {}, position: null, doubtHistory: () => {} }
    const upstream = {
      read: etcd.read.bind(etcd),
      readKey: etcd.readKey.bind(etcd),
      currentRevision: etcd.currentRevision.bind(etcd),
    }
    t.equal(new UpstreamFreshness({ upstream, prefix: '/p/' as Key, feed, clock }).summariseKeys, undefined)
  },
)

void t.test('an old revision is read once for all concurrent requests', async (t) => {
  const { etcd, freshness, reads } = harness(t)
  for (const name of ['a', 'b', 'c']) etcd.commit([put(name)])
  etcd.commit([remove('a')])
  const [one, two] = await Promise.all([freshness.readState(rev(3)), freshness.readState(rev(3))])
  t.equal(one.revision, 3)
  t.equal(one.keyValues.length, 2)
  t.equal(one, two)
  t.equal(reads(), 1)
  etcd.compact(rev(4))
  await t.rejects(freshness.readState(rev(3)), { code: 'compacted' })
  await t.rejects(freshness.readState(rev(99)), { code: 'future-revision' })
})

void t.test('old revisions are read a few at a time, and the queue is bounded', async (t) => {
  const { clock, etcd, freshness, reads } = harness(t)
  for (let i = 0; i < 40; i++) etcd.commit([put('a', `${i}`)])
  etcd.setDelays({ readMs: 100 })
  const asked = Array.from({ length: 32 }, (_, i) => freshness.readState(rev(i + 2)))
  await t.rejects(freshness.readState(rev(40)), { name: 'BusyError', retryAfterSeconds: 1 })
  await nextTurn()
  t.equal(reads(), 2)
  await clock.advanceInTurns(2_000, 50)
  const states = await Promise.all(asked)
  t.strictSame(
    states.map((state) => state.keyValues[0]?.value.toString()),
    Array.from({ length: 32 }, (_, i) => `${i}`),
  )
  t.equal((await Promise.all([freshness.readState(rev(40)), clock.advanceInTurns(200, 50)]))[0].revision, 40)
})

void t.test('every wait has a limit', async (t) => {
  const { clock, etcd, freshness } = harness(t)
  etcd.setStalled(true)
  const checks = Promise.all([
    t.rejects(freshness.currentRevision(), { code: 'unavailable' }),
    t.rejects(freshness.readState(null), { code: 'unavailable' }),
    t.rejects(freshness.readState(rev(1)), { code: 'unavailable' }),
    t.rejects(freshness.currentRevision(AbortSignal.abort(new Error('enough'))), { message: 'enough' }),
  ])
  await clock.advanceInTurns(30_000, 1_000)
  await checks
  t.equal(clock.pending, 0)
})

void t.test('requests for progress go to the feed', (t) => {
  const { freshness, asked } = harness(t)
  freshness.requestProgress()
  t.equal(asked(), 1)
  t.equal(freshness.trustsProgress, true)
  t.end()
})
