/** The feed over a real etcd: cuts, restarts, compaction, and a restore of a backup older than our state. */
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Upstream } from '../../../../src/engine/upstream/upstream.js'
import type { EtcdProcess } from '../../../support/etcd-process.js'
import { harness } from '../etcd-harness.js'
import { until } from '../../../support/until.js'

void t.test('a feed delivers the history before its start, then new writes, in order and once', async (t) => {
  const h = await harness(t)
  for (let i = 0; i < 10; i++) await h.put(`k${i % 4}`, `${i}`)
  await h.remove('k1')
  await h.elsewhere()
  h.feed.start()
  await until(() => h.sink.isSynced, 'synced')
  for (let i = 0; i < 10; i++) await h.put(`k${i % 4}`, `later ${i}`)
  await h.converged()
  t.strictSame(
    h.sink.batches.map((batch) => batch.revision as number),
    h.revisions,
  )
  t.equal(h.metrics.of('initialised'), 1)
})

void t.test('after kill -9 and a restart every write arrives once, without a relist', async (t) => {
  const h = await harness(t)
  h.feed.start()
  // An earlier write could be part of the first state.
  await until(() => h.sink.isSynced, 'synced')
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 5; i++) await h.put(`k${i}`, `${round}`)
    await h.converged()
    await h.etcd.kill()
    await until(() => h.feed.status.state === 'backing-off', 'the loss to be noticed')
    t.ok(h.sink.reason)
    await h.etcd.restart()
    await h.put('between', `${round}`)
  }
  await h.converged()
  t.strictSame(
    h.sink.batches.map((batch) => batch.revision as number),
    h.revisions,
  )
  t.equal(h.sink.of('replace').length, 1)
  t.equal(h.metrics.of('reconnected'), 3)
})

void t.test(
  "a small resource starts with three reads, and a fourth if etcd's progress cannot be trusted",
  async (t) => {
    let reads = 0
    const counted = new Set<string | symbol>(['read', 'readKey', 'currentRevision'])
    const wrap = (upstream: Upstream): Upstream =>
      new Proxy(upstream, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name, target)
          if (typeof value !== 'function') return value
          return (...given: unknown[]): unknown => {
            if (counted.has(name)) reads++
            return Reflect.apply(value, target, given)
          }
        },
      })
    const h = await harness(t, { backfillRevisions: 5, pageKeys: 100 }, [], wrap)
    for (const key of ['a', 'b', 'c', 'd']) await h.put(key)
    for (let i = 0; i < 6; i++) await h.elsewhere()
    h.feed.start()
    await until(() => h.sink.isSynced, 'synced')
    t.equal(reads, h.feed.trustsProgress ? 3 : 4)
    await h.remove('a')
    await h.put('e')
    await h.converged()
  },
)

void t.test("keys deleted after the first list's revision arrive as events, without a relist", async (t) => {
  const h = await harness(t, { backfillRevisions: 6, pageKeys: 100 })
  for (const key of ['a', 'b', 'c', 'd']) await h.put(key)
  for (let i = 0; i < 6; i++) await h.elsewhere()
  await h.remove('d')
  h.feed.start()
  await h.converged()
  t.equal(h.sink.of('replace').length, 1)
  t.equal(h.sink.batches.length, 1)
})

for (const onGap of ['expire', 'coalesce'] as const) {
  void t.test(`a compaction while the feed is cut off is a gap (${onGap})`, async (t) => {
    const h = await harness(t, { onGap })
    h.feed.start()
    await h.put('a')
    await h.put('b')
    await h.converged()
    h.proxy.shut()
    await until(() => h.feed.status.state === 'backing-off', 'the loss to be noticed')
    await h.remove('a')
    for (let i = 0; i < 5; i++) await h.put('c', `${i}`)
    const floor = h.revisions.at(-3)!
    await h.etcd.compact(floor)
    h.proxy.open()
    await h.converged()
    const reason = onGap === 'expire' ? 'gap' : 'coalesce'
    t.equal(h.sink.of('replace').at(-1), `${floor} ${reason}`)
    t.strictSame(
      h.sink.batches.map((batch) => batch.revision as number),
      h.revisions.slice(-2),
      'the history since the compaction came as events',
    )
  })
}

void t.test('a compaction before the start, or between two pages of the first list, loses no event', async (t) => {
  let compactions = 0
  const wrap = (upstream: Upstream, etcd: EtcdProcess): Upstream =>
    new Proxy(upstream, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        if (name !== 'read') return value.bind(target) as unknown
        return async (options: Parameters<Upstream['read']>[0]) => {
          const page = await target.read(options)
          if (options.revision !== undefined && page.more && compactions === 0) {
            compactions++
            await etcd.compact(options.revision + 2)
          }
          return page
        }
      },
    })
  const h = await harness(t, {}, [], wrap)
  for (let i = 0; i < 20; i++) await h.put(`k${i}`)
  await h.etcd.compact(10)
  h.feed.start()
  await h.converged()
  t.equal(compactions, 1)
  t.strictSame(h.sink.of('abort'), ['10 initial'])
  t.strictSame(h.sink.of('replace'), ['12 initial'])
  t.equal(h.sink.batches.length, h.revisions.at(-1)! - 12)
})

for (const [name, writesAfter] of [
  ['behind ours', 0],
  ['beyond ours', 30],
] as const) {
  void t.test(`an etcd restored from an older backup is detected: ${name}`, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'distributary-feed-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    const [data, backup] = [join(directory, 'data'), join(directory, 'backup')]
    const h = await harness(t, { onGap: 'coalesce' }, [`--data-dir=${data}`])
    await h.put('a')
    await h.put('b')
    await h.etcd.kill()
    await cp(data, backup, { recursive: true })
    await h.etcd.restart()
    h.feed.start()
    for (let i = 0; i < 10; i++) await h.put(`lost${i}`)
    await h.converged()
    t.equal(h.sink.state.size, 12)

    h.proxy.shut()
    await h.etcd.kill()
    await rm(data, { recursive: true })
    await cp(backup, data, { recursive: true })
    await h.etcd.restart()
    for (let i = 0; i < writesAfter; i++) await h.put('b', `other ${i}`)
    h.proxy.open()
    await until(() => h.metrics.of('relisted history-changed') === 1, 'the other history to be noticed')
    await h.converged()
    t.equal(h.sink.state.size, 2)
    t.equal(h.metrics.of('relisted coalesce'), 0)
  })
}

void t.test('after a short cut an idle prefix is resumed at its own position', async (t) => {
  const h = await harness(t)
  h.feed.start()
  await h.put('a')
  await h.converged()
  h.proxy.shut()
  await until(() => h.feed.status.state === 'backing-off', 'the loss to be noticed')
  let now = 0
  for (let i = 0; i < 20; i++) now = await h.elsewhere()
  h.proxy.open()
  await h.converged()
  t.equal(h.metrics.of('reconnected'), 1)
  t.equal(h.sink.of('replace').length, 1)
  if (h.feed.trustsProgress) t.ok(h.feed.status.revision! >= now, 'learned from progress')
  else t.equal(h.feed.status.revision, h.revisions.at(-1))
})
