/** A real etcd at its limits: large pages, large answers, full disks, and the number of watchers. */
import t, { type Test } from 'tap'
import { keyFromText, type Key, type KeyValue } from '../../../../../src/engine/model/event.js'
import { nextRevision, toRevision, type Revision } from '../../../../../src/engine/model/revision.js'
import { connectEtcd } from '../../../../../src/engine/upstream/etcd/etcd-upstream.js'
import type { Page, Upstream } from '../../../../../src/engine/upstream/upstream.js'
import { graduatedFlag, startEtcd, type EtcdProcess } from '../../../../support/etcd-process.js'
import { until } from '../../../../support/until.js'
import { recordWatch } from '../../watch-recorder.js'

void t.test('a revision of 10 MB, and many that share an answer, arrive whole', async (t) => {
  // Written where 20 MB are allowed, read where etcd has its default limit of 1.5 MB.
  const etcd = await startEtcd(t, { flags: ['--max-request-bytes=20000000'] })
  const upstream = connect(t, etcd)
  const prefix = keyFromText('/big/')
  const start = nextRevision(await upstream.currentRevision())
  const sizes = [100, 4, 4, 4, 4, 4, 1, 4, 4]
  let last = start
  for (const [i, keys] of sizes.entries()) {
    const operations = Array.from({ length: keys }, (_, part) => ({
      type: 'put' as const,
      key: under(prefix, String(part)),
      value: Buffer.alloc(keys === 1 ? 1_400_000 : 100_000 + i * 60_000, `${i}.${part};`),
    }))
    last = (await upstream.write([], operations)).revision
  }
  await etcd.restart([])

  const recorder = recordWatch(upstream, prefix, start)
  await recorder.untilRevision(last)
  recorder.watch.close()
  t.equal(recorder.brokenRule(), null)
  t.same(
    recorder.batches.map(({ events }) => events.length),
    sizes,
  )
  for (const [i, { events }] of recorder.batches.entries()) {
    const wrong = events.filter(
      (event, part) => event.type !== 'put' || !event.keyValue.value.toString().startsWith(`${i}.${part};`),
    )
    t.equal(wrong.length, 0, `revision ${i}`)
  }
})

void t.test('a list of large objects arrives complete in pages that stay near their size', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connect(t, etcd)
  const prefix = keyFromText('/pages/')
  const total = 900
  for (let i = 0; i < total; i += 20) {
    const operations = Array.from({ length: 20 }, (_, j) => ({
      type: 'put' as const,
      key: under(prefix, String(i + j).padStart(5, '0')),
      value: Buffer.alloc(40_000, 'x'),
    }))
    await upstream.write([], operations)
  }
  const first = await readAll(upstream, prefix)
  t.equal(first.keyValues.length, total)
  t.equal(new Set(first.keyValues.map(({ key }) => key)).size, total)
  const second = await readAll(upstream, prefix)
  t.equal(second.keyValues.length, total)
  for (const page of second.pages) t.ok(bytesOf(page) < 9_000_000, `once it is known: ${bytesOf(page)} bytes`)
  t.ok(second.pages.length <= 6, 'and not by dribs and drabs')
})

void t.test('an answer over the limit is rejected before it is read: pages get smaller, a watch ends', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url], maxReceivedBytes: 1_000_000 })
  t.teardown(() => upstream.close())
  const prefix = keyFromText('/large/')
  let last = await upstream.currentRevision()
  const start = nextRevision(last)
  for (let i = 0; i < 30; i++) {
    const operations = [{ type: 'put', key: under(prefix, String(i)), value: Buffer.alloc(100_000, 'x') }] as const
    last = (await upstream.write([], operations)).revision
  }
  const { pages, keyValues } = await readAll(upstream, prefix)
  t.equal(keyValues.length, 30)
  t.ok(pages.length >= 4)

  const end = await recordWatch(upstream, prefix, start).untilEnd()
  t.match(end, { kind: 'failed', error: { code: 'too-large' } })
  const recorder = recordWatch(upstream, prefix, (last - 4) as Revision)
  await recorder.untilRevision(last)
  recorder.watch.close()
  t.equal(recorder.batches.length, 5, 'a nearer one is held')
})

void t.test('a request over the limits is refused as such', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connect(t, etcd)
  const key = keyFromText('/limits/k')
  const tooLarge = upstream.write([], [{ type: 'put', key, value: Buffer.alloc(2_000_000) }])
  await t.rejects(tooLarge, { name: 'UpstreamError', code: 'too-large' })
  const tooMany = upstream.write(
    [],
    Array.from({ length: 129 }, (_, i) => ({ type: 'put', key: under(key, String(i)), value: Buffer.alloc(0) })),
  )
  await t.rejects(tooMany, { name: 'UpstreamError', code: 'too-large' })
  const twice = upstream.write(
    [],
    [
      { type: 'put', key, value: Buffer.alloc(0) },
      { type: 'put', key, value: Buffer.alloc(1) },
    ],
  )
  await t.rejects(twice, { name: 'UpstreamError', code: 'protocol' })
  const noLease = upstream.write([], [{ type: 'put', key, value: Buffer.alloc(0), leaseId: '8765432109876543210' }])
  await t.rejects(noLease, { name: 'UpstreamError', code: 'lease-not-found' })
  t.equal(await upstream.readKey(key), null)
})

void t.test('a full etcd reports that it is full, and can still be read', async (t) => {
  const etcd = await startEtcd(t, { flags: ['--quota-backend-bytes=2000000'] })
  const upstream = connect(t, etcd)
  const key = keyFromText('/full/k')
  await t.rejects(
    async () => {
      for (let i = 0; i < 100; i++) await upstream.write([], [{ type: 'put', key, value: Buffer.alloc(500_000) }])
    },
    { name: 'UpstreamError', code: 'no-space' },
  )
  t.equal((await upstream.readKey(key))?.value.length, 500_000)
})

void t.test('etcd counts one watcher for each watch, and none after they are closed', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connect(t, etcd)
  const watchers = async (): Promise<number> => (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? -1
  const start = nextRevision(await upstream.currentRevision())
  const before = await watchers()
  const recorders = Array.from({ length: 60 }, (_, i) => recordWatch(upstream, keyFromText(`/many/${i}/`), start))
  await Promise.all(recorders.map((recorder) => recorder.until('open', (r) => r.isOpen)))
  t.equal(await watchers(), before + 60)
  for (const recorder of recorders) recorder.watch.close()
  await until(async () => (await watchers()) === before, 'none is left')
})

void t.test('periodic progress of any etcd is trusted, and never comes before the events it covers', async (t) => {
  const etcd = await startEtcd(t, { flags: [graduatedFlag('watch-progress-notify-interval=100ms')] })
  const upstream = connect(t, etcd)
  const prefix = keyFromText('/progress/')
  const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
  const future = recordWatch(upstream, prefix, toRevision(1_000_000))
  let elsewhere = 0 as Revision
  for (let i = 0; i < 300; i++) {
    await upstream.write([], [{ type: 'put', key: under(prefix, 'k'), value: Buffer.from(String(i)) }])
    const other = await upstream.write([], [{ type: 'put', key: keyFromText('/other'), value: Buffer.from('') }])
    elsewhere = other.revision
  }
  await recorder.until('progress', (r) => (r.progress.at(-1) ?? 0) >= elsewhere)
  recorder.watch.close()
  t.equal(recorder.batches.length, 300)
  t.equal(recorder.brokenRule(), null)
  t.same(
    recorder.progress,
    [...recorder.progress].sort((a, b) => a - b),
  )
  t.same(future.progress, [], 'a watch from the future gets no progress before its start')
  future.watch.close()
})

async function readAll(upstream: Upstream, prefix: Key): Promise<{ pages: Page[]; keyValues: KeyValue[] }> {
  const pages: Page[] = [await upstream.read({ prefix })]
  for (let page = pages[0]!; page.more; pages.push(page)) {
    page = await upstream.read({ prefix, startKey: under(page.keyValues.at(-1)!.key, '\0'), revision: page.revision })
  }
  return { pages, keyValues: pages.flatMap(({ keyValues }) => keyValues) }
}

function bytesOf(page: Page): number {
  return page.keyValues.reduce((sum, { value }) => sum + value.length, 0)
}

function under(prefix: Key, name: string): Key {
  return `${prefix}${name}` as Key
}

function connect(t: Test, etcd: EtcdProcess): Upstream {
  const upstream = connectEtcd({ endpoints: [etcd.url] })
  t.teardown(() => upstream.close())
  return upstream
}
