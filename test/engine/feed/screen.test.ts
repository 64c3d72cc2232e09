/** Past faults of etcd and of connections to it (PROTOCOL lists them), and what then reaches the sink. */
import t from 'tap'
import { screen } from '../../../src/engine/feed/screen.js'
import type { Batch, Key } from '../../../src/engine/model/event.js'
import { toRevision as rev } from '../../../src/engine/model/revision.js'
import { elsewhere, harness, put, remove } from './harness.js'

const batchAt = (revision: number): Batch => ({
  revision: rev(revision),
  events: [
    { type: 'delete', key: '/p/a' as Key },
    { type: 'delete', key: '/p/b' as Key },
  ],
})

void t.test('screening drops repeated events and finds contradictions', (t) => {
  const place = { settled: rev(10), position: rev(20) }
  const cases: [string, number[], number[], number, number | null][] = [
    ['fresh', [21, 22, 30], [21, 22, 30], 0, null],
    ['nothing', [], [], 0, null],
    ['repeated below what is settled', [9, 10, 21], [21], 4, null],
    ['all repeated', [10], [], 2, null],
    ['just above what is settled', [11], [], 0, 11],
    ['at the position', [20, 21], [], 0, 20],
    ['repeated within', [21, 21, 22], [21, 22], 2, null],
    ['backward within', [21, 23, 22, 24], [21, 23, 24], 2, null],
    ['back to before the list', [21, 5, 22], [21, 22], 2, null],
  ]
  for (const [name, given, fresh, repeatedEvents, contradiction] of cases) {
    const result = screen(given.map(batchAt), place)
    t.strictSame(
      { ...result, fresh: result.fresh.map((batch) => batch.revision) },
      { fresh, repeatedEvents, contradiction },
      name,
    )
  }
  const batches = [batchAt(21), batchAt(22)]
  t.equal(screen(batches, place).fresh, batches, 'what is fresh is not copied')
  t.end()
})

void t.test('repeated batches are dropped and counted', async (t) => {
  const twice = (batches: readonly Batch[]) => batches.flatMap((batch) => [batch, batch])
  const { feed, sink, etcd, metrics, write, settle } = harness(
    t,
    {},
    {},
    {
      batches: (batches, say) => {
        say.onBatches(twice(batches))
        say.onBatches(batches)
      },
    },
  )
  for (let i = 0; i < 5; i++) write(put(`k${i}`))
  feed.start()
  await settle()
  for (let i = 0; i < 5; i++) write(put('a', `${i}`), put('b', `${i}`))
  await settle()
  t.strictSame(sink.batches, etcd.history())
  t.equal(metrics.of('received'), 15)
  t.equal(metrics.of('dropped'), 30)
  t.equal(metrics.of('relisted gap'), 0)
})

void t.test('a watch that goes back in time reaches no sink', async (t) => {
  const said: Batch[] = []
  const { feed, sink, etcd, metrics, write, settle } = harness(
    t,
    {},
    {},
    {
      batches: (batches, say) => {
        said.push(...batches)
        say.onBatches(batches)
        say.onBatches(said)
        say.onBatches(said.slice(0, 2))
      },
    },
  )
  feed.start()
  await settle()
  for (let i = 0; i < 10; i++) {
    write(put('a', `${i}`))
    await settle()
  }
  t.strictSame(sink.batches, etcd.history())
  t.ok(metrics.of('dropped') > 10)
})

void t.test('an event after a progress that covered it: the cache is rebuilt, not left with a hole', async (t) => {
  let lie = 0
  const { feed, sink, metrics, write, settle, pass } = harness(
    t,
    { onGap: 'coalesce' },
    {},
    {
      batches: (batches, say) => {
        if (lie > 0) say.onProgress(rev(lie))
        lie = 0
        say.onBatches(batches)
      },
    },
  )
  feed.start()
  await settle()
  write(put('a'))
  await settle()
  write(elsewhere)
  lie = 5
  write(put('b'))
  write(put('c'))
  await pass(1_000)
  t.equal(metrics.of('relisted history-changed'), 1)
  t.equal(sink.state.size, 3)
  t.equal(sink.revision, 5)
  t.equal(feed.status.state, 'watching')
})

void t.test('an etcd that keeps reporting progress too early is not listed in a tight loop', async (t) => {
  const { feed, sink, etcd, write, settle, pass } = harness(
    t,
    { backoff: { firstMs: 1_000, capMs: 10_000 } },
    {},
    {
      batches: (batches, say) => {
        for (const batch of batches) {
          say.onProgress(batch.revision)
          say.onBatches([batch])
        }
      },
    },
  )
  feed.start()
  await settle()
  for (let i = 0; i < 200; i++) {
    write(put('a', `${i}`))
    await pass(100)
  }
  const relists = sink.of('replace').length
  t.ok(relists < 10, `${relists} lists in 20 s`)
  t.ok(relists > 1)
  t.equal(feed.status.revision === null, false)
  t.ok(etcd.revision > 200)
})

void t.test('batches that arrived while the history was compared are delivered after it, or never', async (t) => {
  for (const isSame of [true, false]) {
    const { feed, sink, etcd, metrics, write, settle, pass } = harness(t, { backoff: { firstMs: 100, capMs: 100 } })
    feed.start()
    await settle()
    write(put('a'))
    const backup = etcd.snapshot()
    write(put('b'))
    await settle()
    if (isSame) etcd.cutWatches()
    else {
      etcd.restore(backup, { clusterId: '1' })
      write(put('other'))
    }
    for (let i = 0; i < 5; i++) write(put(`k${i}`))
    etcd.setDelays({ readMs: 200 })
    await pass(300)
    t.equal(feed.status.state, 'verifying')
    t.equal(sink.revision, 3, 'held')
    await pass(5_000)
    t.equal(feed.status.state, 'watching')
    t.equal(metrics.of('relisted history-changed'), isSame ? 0 : 1)
    t.equal(sink.of('replace').length, isSame ? 1 : 2)
    t.strictSame([...sink.state.keys()].sort(), (await readAll(etcd, pass)).sort())
  }
})

void t.test(
  'when more arrives than can be buffered during a comparison, the buffer is delivered and the rest requested again',
  async (t) => {
    const { feed, sink, etcd, write, settle, pass } = harness(t, {}, { historyBytes: 512 * 1_048_576 })
    feed.start()
    await settle()
    write(put('a'))
    await settle()
    etcd.cutWatches()
    etcd.setDelays({ readMs: 1_900 })
    const big = 'x'.repeat(1_400_000)
    for (let i = 0; i < 60; i++) write(put('big', big))
    await pass(1_900)
    t.equal(sink.revision, 2)
    await pass(10_000)
    t.equal(sink.of('disconnected').length, 2, 'the cut, and the end of the attempt')
    t.match(sink.of('disconnected')[1], /while the history was being compared/)
    t.equal(sink.of('replace').length, 1)
    t.strictSame(
      sink.batches.map((batch) => batch.revision),
      etcd.history().map((batch) => batch.revision),
    )
  },
)

void t.test(
  'deleting and re-putting a key in one prefix keeps the count by which histories are compared',
  async (t) => {
    const { feed, etcd, metrics, write, settle, pass } = harness(t)
    feed.start()
    await settle()
    write(put('a'), put('b'))
    write(remove('a'))
    write(put('a'))
    write(remove('a'), put('c'))
    await settle()
    etcd.cutWatches()
    await pass(1_000)
    t.equal(metrics.of('reconnected'), 1)
    t.equal(metrics.of('relisted history-changed'), 0)
  },
)

async function readAll(
  etcd: ReturnType<typeof harness>['etcd'],
  pass: (ms: number) => Promise<void>,
): Promise<string[]> {
  const [page] = await Promise.all([etcd.read({ prefix: '/p/' as Key }), pass(500)])
  return page.keyValues.map((keyValue) => keyValue.key)
}
