import t, { type Test } from 'tap'
import { type Batch, type Key, keyFromText } from '../../../../src/engine/model/event.js'
import { toRevision } from '../../../../src/engine/model/revision.js'
import { seededRandom } from '../../../../src/support/random.js'
import { createEmbeddedUpstream, type EmbeddedUpstreamOptions } from '../../../support/faulty-store.js'
import { type Upstream, UpstreamError, type WriteOperation } from '../../../../src/engine/upstream/upstream.js'
import { nextTurn, VirtualClock } from '../../../support/virtual-clock.js'

const rev = toRevision
const key = keyFromText
const put = (name: string, value = 'x', leaseId?: string): WriteOperation => ({
  type: 'put',
  key: key(name),
  value: Buffer.from(value),
  ...(leaseId === undefined ? {} : { leaseId }),
})
const del = (name: string): WriteOperation => ({ type: 'delete', key: key(name) })

function setUp(t: Test, options: EmbeddedUpstreamOptions = {}) {
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream({ clock, random: seededRandom(1), ...options })
  t.teardown(() => upstream.close())
  return { clock, upstream }
}

function watch(upstream: Upstream, prefix: string, startRevision: number) {
  const batches: Batch[] = []
  const log: string[] = []
  const handle = upstream.watch(
    { prefix: key(prefix), startRevision: rev(startRevision) },
    {
      onOpen: () => log.push('open'),
      onBatches: (more) => {
        batches.push(...more)
        log.push(...more.map(({ revision, events }) => `${revision} ${events.map(eventText).join(' ')}`))
      },
      onProgress: (revision) => log.push(`progress ${revision}`),
      onEnd: (end) => {
        if (end.kind === 'compacted') log.push(`compacted ${end.compactRevision}`)
        else log.push('error' in end ? `failed ${end.error.code}` : end.kind)
      },
    },
  )
  return { batches, log, handle }
}

function eventText(event: Batch['events'][number]): string {
  return event.type === 'put' ? `${event.keyValue.key}=${event.keyValue.value.toString()}` : `-${event.key}`
}

async function keysAt(upstream: Upstream, prefix: string, revision?: number): Promise<string[]> {
  const page = await upstream.read({
    prefix: key(prefix),
    ...(revision === undefined ? {} : { revision: rev(revision) }),
  })
  return page.keyValues.map(({ key, value }) => `${key}=${value.toString()}`)
}

void t.test('a transaction is one revision, and one without changes creates none', async (t) => {
  const { upstream } = setUp(t)
  t.equal(await upstream.currentRevision(), 1, 'as in a new etcd')
  t.same(await upstream.write([], [put('/a'), put('/b'), put('/c')]), { kind: 'written', revision: 2 })
  t.same(await upstream.write([], [del('/nothing')]), { kind: 'written', revision: 2 })
  t.same(await upstream.write([], [del('/a'), put('/b', 'y')]), { kind: 'written', revision: 3 })
  const page = await upstream.read({ prefix: key('/') })
  t.match(page, { revision: 3, currentRevision: 3, more: false, count: 2 })
  t.match(page.keyValues, [
    { key: '/b', createRevision: 2, modRevision: 3, version: 2, leaseId: '0' },
    { key: '/c', createRevision: 2, modRevision: 2, version: 1 },
  ])
})

void t.test('a recreated key is a new one', async (t) => {
  const { upstream } = setUp(t)
  await upstream.write([], [put('/a')])
  await upstream.write([], [del('/a')])
  await upstream.write([], [put('/a', 'again')])
  t.match(await upstream.readKey(key('/a')), { createRevision: 4, modRevision: 4, version: 1 })
  t.equal(await upstream.readKey(key('/a'), { revision: rev(3) }), null)
  t.match(await upstream.readKey(key('/a'), { revision: rev(2) }), { createRevision: 2 })
})

void t.test('a failed compare makes no change and returns the current value', async (t) => {
  const { upstream } = setUp(t)
  await upstream.write([{ key: key('/a'), modRevision: rev(0) }], [put('/a')])
  const conflict = await upstream.write(
    [
      { key: key('/a'), modRevision: rev(0) },
      { key: key('/b'), modRevision: rev(0) },
    ],
    [put('/a', 'stolen'), put('/b')],
  )
  t.match(conflict, { kind: 'conflict', revision: 2, current: [{ key: '/a', modRevision: 2 }, null] })
  t.same(await upstream.write([{ key: key('/a'), modRevision: rev(2) }], [put('/a', 'mine')]), {
    kind: 'written',
    revision: 3,
  })
  t.same(await keysAt(upstream, '/'), ['/a=mine'])
})

void t.test('the embedded store rejects what etcd rejects', async (t) => {
  const { upstream } = setUp(t, { maxRequestBytes: 1000 })
  const writes: [string, readonly WriteOperation[], string][] = [
    ['a key named twice', [put('/a'), del('/a')], 'protocol'],
    ['more than 128 operations', Array.from({ length: 129 }, (_, i) => put(`/${i}`)), 'protocol'],
    ['a lease that is not there', [put('/a', 'x', '77')], 'lease-not-found'],
    ['a request over the limit', [put('/a', 'x'.repeat(1000))], 'too-large'],
  ]
  for (const [name, operations, code] of writes) await t.rejects(upstream.write([], operations), { code }, name)
  t.equal(upstream.revision, 1, 'and none of it took a revision')
  await upstream.write(
    [],
    Array.from({ length: 128 }, (_, i) => put(`/${i}`)),
  )
  await upstream.write([], [put('/a', 'x'.repeat(998))])
})

void t.test('a written value does not change with the caller’s buffer', async (t) => {
  const { upstream } = setUp(t)
  const value = Buffer.from('before')
  await upstream.write([], [{ type: 'put', key: key('/a'), value }])
  value.write('after!')
  t.same(await keysAt(upstream, '/'), ['/a=before'])
})

void t.test('pages of a prefix at one revision stay consistent during writes', async (t) => {
  const { upstream } = setUp(t, { pageKeys: 2 })
  await upstream.write(
    [],
    ['/p/a', '/p/b', '/p/c', '/p/d', '/p/e', '/q/z', '/o/z'].map((name) => put(name)),
  )
  const first = await upstream.read({ prefix: key('/p/'), limit: 10 })
  t.match(first, { revision: 2, more: true, count: 5 })
  t.same(
    first.keyValues.map(({ key }) => key),
    ['/p/a', '/p/b'],
  )
  await upstream.write([], [put('/p/bb'), del('/p/d')])
  const second = await upstream.read({ prefix: key('/p/'), startKey: key('/p/b\0'), revision: first.revision })
  t.match(second, { revision: 2, currentRevision: 3, more: true, count: 3 })
  const third = await upstream.read({ prefix: key('/p/'), startKey: key('/p/d\0'), revision: rev(2), keysOnly: true })
  t.match(third, { more: false, count: 1 })
  t.match(third.keyValues, [{ key: '/p/e', modRevision: 2, value: { length: 0 } }])
})

void t.test('a prefix ends at its last byte, whatever the byte is', async (t) => {
  const { upstream } = setUp(t)
  const high = Buffer.from([0xff, 0xff]).toString('latin1') as Key
  const names = ['a', 'a/', 'a/x', 'a0', 'b', 'é', 'ÿ']
  await upstream.write(
    [],
    names.map((name) => put(name)),
  )
  upstream.commit([{ type: 'put', key: high, value: Buffer.from('x') }])
  t.same(await keysAt(upstream, 'a/'), ['a/=x', 'a/x=x'])
  t.equal((await upstream.read({ prefix: '' as Key })).count, names.length + 1)
  t.same(
    (await upstream.read({ prefix: high.slice(0, 1) as Key })).keyValues.map(({ key }) => key),
    [high],
  )
})

void t.test('every revision that is not compacted can be read; the compacted one itself still can', async (t) => {
  const { upstream } = setUp(t)
  await upstream.write([], [put('/a', '2')])
  await upstream.write([], [put('/a', '3'), put('/b', '3')])
  await upstream.write([], [del('/a')])
  await upstream.write([], [put('/c', '5')])
  upstream.compact(rev(4))
  t.same(await keysAt(upstream, '/', 4), ['/b=3'])
  t.same(await keysAt(upstream, '/', 5), ['/b=3', '/c=5'])
  await t.rejects(upstream.read({ prefix: key('/'), revision: rev(3) }), { code: 'compacted', compactRevision: 4 })
  await t.rejects(upstream.readKey(key('/a'), { revision: rev(3) }), { code: 'compacted' })
  await t.rejects(upstream.read({ prefix: key('/'), revision: rev(6) }), { code: 'future-revision' })
  t.throws(() => upstream.compact(rev(4)), { code: 'compacted' })
  t.throws(() => upstream.compact(rev(6)), { code: 'future-revision' })
  upstream.compact(rev(5))
  t.same(await keysAt(upstream, '/'), ['/b=3', '/c=5'])
})

void t.test('a watch gets whole revisions of its prefix, past and present', async (t) => {
  const { upstream } = setUp(t)
  await upstream.write([], [put('/p/a', '2'), put('/q/a', '2'), put('/p/b', '2')])
  await upstream.write([], [put('/q/a', '3')])
  await upstream.write([], [del('/p/a')])
  const { log } = watch(upstream, '/p/', 2)
  t.same(log, [], 'nothing is called from inside watch()')
  await upstream.delivered()
  t.same(log, ['open', '2 /p/a=2 /p/b=2', '4 -/p/a'])
  upstream.commit([put('/p/c', '5'), put('/r', '5')])
  upstream.commit([put('/p/c', '6')])
  t.equal(log.length, 3, 'nothing is called from inside a write')
  await upstream.delivered()
  t.same(log.slice(3), ['5 /p/c=5', '6 /p/c=6'])
})

void t.test('a watch from a future revision gets no older events (etcd #20221)', async (t) => {
  const { upstream } = setUp(t)
  const { log, handle } = watch(upstream, '/', 4)
  upstream.commit([put('/a', '2')])
  handle.requestProgress()
  await upstream.delivered()
  t.same(log, ['open'], 'and no progress, of which it has seen nothing')
  upstream.commit([put('/a', '3')])
  upstream.commit([put('/a', '4')])
  await upstream.delivered()
  t.same(log, ['open', '4 /a=4', 'progress 4'])
})

void t.test('a watch from below the compact revision ends; from it, it gets even a delete (etcd #18089)', async (t) => {
  const { upstream } = setUp(t)
  upstream.commit([put('/a', '2')])
  upstream.commit([del('/a')])
  upstream.commit([put('/b', '4')])
  upstream.compact(rev(3))
  const below = watch(upstream, '/', 2)
  const at = watch(upstream, '/', 3)
  await upstream.delivered()
  t.same(below.log, ['open', 'compacted 3'])
  t.same(at.log, ['open', '3 -/a', '4 /b=4'])
  t.equal(upstream.watchCount, 1)
})

void t.test('a stalled watch whose history is compacted ends, without a hole', async (t) => {
  const { upstream } = setUp(t)
  const held = watch(upstream, '/p/', 2)
  const other = watch(upstream, '/q/', 2)
  await upstream.delivered()
  upstream.holdDelivery(key('/p/'))
  upstream.commit([put('/p/a', '2')])
  upstream.commit([put('/q/a', '3')])
  held.handle.requestProgress()
  await upstream.delivered()
  t.same(held.log, ['open'])
  t.same(other.log, ['open', '3 /q/a=3'])
  upstream.compact(rev(3))
  upstream.releaseDelivery()
  await upstream.delivered()
  t.same(held.log, ['open', 'compacted 3'])
})

void t.test('progress follows everything it covers, and only where it may be requested', async (t) => {
  for (const trustsProgress of [true, false]) {
    const { upstream, clock } = setUp(t, { trustsProgress, progressIntervalMs: 5_000 })
    const { log, handle } = watch(upstream, '/p/', 2)
    await upstream.delivered()
    upstream.commit([put('/p/a', '2')])
    upstream.commit([put('/q/a', '3')])
    handle.requestProgress()
    await upstream.delivered()
    t.same(log, ['open', '2 /p/a=2', ...(trustsProgress ? ['progress 3'] : [])], `trusted: ${trustsProgress}`)
    upstream.commit([put('/q/a', '4')])
    clock.advance(5_000)
    await upstream.delivered()
    clock.advance(5_000)
    await upstream.delivered()
    t.equal(log.at(-1), 'progress 4', 'a quiet watch receives progress without asking')
    t.equal((await upstream.status()).trustsProgress, trustsProgress)
    await upstream.close()
  }
})

void t.test('a closed watch gets no more events, not even from a running pass', async (t) => {
  const { upstream } = setUp(t)
  const log: string[] = []
  const first = upstream.watch(
    { prefix: key('/'), startRevision: rev(2) },
    {
      onOpen: () => {},
      onBatches: () => {
        log.push('first')
        second.close()
      },
      onProgress: () => {},
      onEnd: () => log.push('end'),
    },
  )
  const second = upstream.watch(
    { prefix: key('/'), startRevision: rev(2) },
    { onOpen: () => {}, onBatches: () => log.push('second'), onProgress: () => {}, onEnd: () => log.push('end') },
  )
  upstream.commit([put('/a')])
  await upstream.delivered()
  first.close()
  upstream.commit([put('/a')])
  upstream.cutWatches()
  await nextTurn()
  t.same(log, ['first'])
  t.equal(upstream.watchCount, 0)
})

void t.test('a cut watch ends once, and a new one gets the events it missed', async (t) => {
  const { upstream } = setUp(t)
  const old = watch(upstream, '/', 2)
  await upstream.delivered()
  upstream.commit([put('/a', '2')])
  upstream.cutWatches()
  upstream.cutWatches()
  await upstream.delivered()
  t.same(old.log, ['open', 'failed unavailable'])
  const next = watch(upstream, '/', 2)
  await upstream.delivered()
  t.same(next.log, ['open', '2 /a=2'])
})

void t.test('a deep replay is delivered in slices, without a hole', async (t) => {
  const { upstream } = setUp(t)
  for (let i = 0; i < 20_000; i++) upstream.commit([put(`/${i % 7}`, String(i))])
  const { batches } = watch(upstream, '/', 2)
  await upstream.delivered()
  t.equal(batches.length, 20_000)
  t.ok(batches.every(({ revision }, i) => revision === i + 2))
})

void t.test('an expired lease deletes its keys in one revision', async (t) => {
  const { upstream, clock } = setUp(t, { progressIntervalMs: 60_000 })
  const leaseId = await upstream.grantLease(10)
  t.match(leaseId, /^\d+$/)
  await upstream.write([], [put('/b', 'x', leaseId), put('/a', 'x', leaseId), put('/c', 'x', leaseId), put('/d')])
  await upstream.write([], [put('/c', 'kept')])
  t.match(await upstream.readKey(key('/a')), { leaseId })
  const { log } = watch(upstream, '/', 4)
  clock.advance(9_999)
  t.equal(upstream.revision, 3)
  clock.advance(1)
  await upstream.delivered()
  t.same(log, ['open', '4 -/a -/b'])
  t.same(await keysAt(upstream, '/'), ['/c=kept', '/d=x'])
  await t.rejects(upstream.write([], [put('/a', 'x', leaseId)]), { code: 'lease-not-found' })
})

void t.test('history is limited by revisions and by bytes, and a deleted key leaves no memory behind', async (t) => {
  const { upstream } = setUp(t, { historyRevisions: 100 })
  for (let i = 0; i < 5_000; i++) {
    upstream.commit([put(`/name-${i}`)])
    upstream.commit([del(`/name-${i}`)])
    const kept = upstream.history().length
    if (kept > 111) t.fail(`${kept} revisions kept`)
  }
  t.ok(upstream.history().length >= 100)
  t.equal(upstream.history()[0]?.revision, upstream.compactRevision)

  const { upstream: byBytes } = setUp(t, { historyBytes: 100_000 })
  for (let i = 0; i < 1_000; i++) byBytes.commit([put('/a', 'x'.repeat(1_000))])
  const kept = byBytes.history().length
  t.ok(kept >= 80 && kept <= 100, `${kept} revisions of about 1,200 bytes`)
})

void t.test('one value larger than the byte limit is kept', async (t) => {
  const { upstream } = setUp(t, { historyBytes: 1_000, historyRevisions: 1 })
  for (let i = 0; i < 5; i++) upstream.commit([put('/a', `${i}`.padEnd(10_000))])
  t.equal((await upstream.readKey(key('/a')))?.version, 5)
  t.ok(upstream.history().length <= 2)
})

void t.test(
  'while it is unavailable requests and new watches fail; running watches fall silent and then continue',
  async (t) => {
    const { upstream } = setUp(t)
    const running = watch(upstream, '/', 2)
    await upstream.delivered()
    upstream.setUnavailable(true)
    const refused = watch(upstream, '/', 2)
    upstream.commit([put('/a', '2')])
    await upstream.delivered()
    await t.rejects(upstream.read({ prefix: key('/') }), { code: 'unavailable' })
    await t.rejects(upstream.currentRevision(), { code: 'unavailable' })
    await t.rejects(upstream.status(), { code: 'unavailable' })
    await t.rejects(upstream.write([], [put('/a')]), { code: 'unavailable' })
    await t.rejects(upstream.grantLease(1), { code: 'unavailable' })
    t.same(refused.log, ['failed unavailable'])
    t.same(running.log, ['open'])
    upstream.setUnavailable(false)
    await upstream.delivered()
    t.same(running.log, ['open', '2 /a=2'])
  },
)

void t.test('during a stall, requests wait until it ends or the caller gives up', async (t) => {
  const { upstream } = setUp(t)
  upstream.setStalled(true)
  const controller = new AbortController()
  const given = upstream.read({ prefix: key('/'), signal: controller.signal })
  let isAnswered = false
  const answered = upstream.currentRevision().then((revision) => {
    isAnswered = true
    return revision
  })
  const { log } = watch(upstream, '/', 2)
  upstream.commit([put('/a', '2')])
  await nextTurn()
  t.equal(isAnswered, false)
  t.same(log, [])
  controller.abort()
  await t.rejects(given, { code: 'unavailable' })
  upstream.setStalled(false)
  t.equal(await answered, 2)
  await upstream.delivered()
  t.same(log, ['open', '2 /a=2'])
})

void t.test('answers take as long as the test says', async (t) => {
  const { upstream, clock } = setUp(t)
  upstream.setDelays({ readMs: 100, writeMs: 50, watchMs: 20 })
  const done: string[] = []
  void upstream.read({ prefix: key('/') }).then(() => done.push('read'))
  void upstream.write([], [put('/a', '2')]).then(() => done.push('write'))
  const { log } = watch(upstream, '/', 2)
  await clock.advanceInTurns(40, 10)
  t.same({ done, log }, { done: [], log: ['open'] })
  await clock.advanceInTurns(70, 10)
  t.same({ done, log }, { done: ['write', 'read'], log: ['open', '2 /a=2'] })
})

void t.test('reads and writes fail with the error that the test sets', async (t) => {
  const { upstream } = setUp(t)
  const denied = new UpstreamError('permission-denied', 'no')
  upstream.failReads(denied, key('/secret/'))
  await t.rejects(upstream.read({ prefix: key('/secret/x') }), denied)
  await t.rejects(upstream.readKey(key('/secret/x')), denied)
  await upstream.read({ prefix: key('/open/') })
  upstream.failReads(null, key('/secret/'))
  await upstream.read({ prefix: key('/secret/x') })
  upstream.failWrites(new UpstreamError('no-space', 'full'))
  await t.rejects(upstream.write([], [put('/a')]), { code: 'no-space' })
  upstream.failWrites(null)
  await upstream.write([], [put('/a')])
})

void t.test('a restore brings the old history back, cuts every watch and shows as another cluster', async (t) => {
  const { upstream, clock } = setUp(t)
  const leaseId = await upstream.grantLease(10)
  upstream.commit([put('/a', '2', leaseId)])
  const backup = upstream.snapshot()
  upstream.commit([put('/a', '3')])
  upstream.commit([put('/b', '4')])
  const { log } = watch(upstream, '/', 2)
  await upstream.delivered()
  const before = await upstream.status()
  upstream.restore(backup)
  await upstream.delivered()
  t.equal(log.at(-1), 'failed unavailable')
  const after = await upstream.status()
  t.equal(await upstream.currentRevision(), 2)
  t.not(after.clusterId, before.clusterId)
  t.same(await keysAt(upstream, '/'), ['/a=2'])
  upstream.commit([put('/c', 'another 3')])
  t.same(await keysAt(upstream, '/'), ['/a=2', '/c=another 3'])
  clock.advance(10_000)
  t.same(await keysAt(upstream, '/'), ['/c=another 3'], 'its leases run again')
  upstream.restore(backup, { clusterId: before.clusterId })
  t.same(await upstream.status(), before, 'a backup is not changed by what came after it')
})

void t.test('a closed store has no timers, calls no handler and rejects every request', async (t) => {
  const { upstream, clock } = setUp(t)
  await upstream.grantLease(10)
  const { log } = watch(upstream, '/', 2)
  upstream.commit([put('/a')])
  await upstream.close()
  await nextTurn()
  t.same(log, [])
  t.equal(clock.pending, 0)
  await t.rejects(upstream.read({ prefix: key('/') }), { code: 'unavailable' })
  const late = watch(upstream, '/', 2)
  await upstream.delivered()
  t.same(late.log, ['failed unavailable'])
})
