/** The feed over a real etcd, behind a small proxy that can be shut, so that things happen to etcd while we are away. */
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { createServer, connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Feed } from '../../../src/feed/feed.js'
import type { FeedOptions } from '../../../src/feed/feed-options.js'
import type { Key, KeyValue } from '../../../src/model/event.js'
import { systemClock } from '../../../src/support/clock.js'
import { Limiter } from '../../../src/support/limiter.js'
import { silentLogger } from '../../../src/support/log.js'
import { systemRandom } from '../../../src/support/random.js'
import { connectEtcd, type EtcdUpstreamOptions } from '../../../src/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../../src/upstream/upstream.js'
import { startEtcd, startEtcdCluster, type EtcdProcess } from '../../support/etcd-process.js'
import { until } from '../../support/until.js'
import { CountingMetrics } from '../harness.js'
import { RecordingSink } from '../recording-sink.js'

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** Forwards to `url` until it is shut. */
async function startProxy(t: Test, url: string) {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let isShut = false
  const server = createServer((client) => {
    if (isShut) return void client.destroy()
    const etcd = connect(Number(target.port), target.hostname)
    for (const [one, other] of [
      [client, etcd],
      [etcd, client],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const shut = (): void => {
    isShut = true
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(() => {
    shut()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return { url: `http://127.0.0.1:${port}`, shut, open: () => void (isShut = false) }
}

async function harness(
  t: Test,
  options: Partial<FeedOptions> = {},
  flags: readonly string[] = [],
  wrap?: (upstream: Upstream, etcd: EtcdProcess) => Upstream,
) {
  const etcd = await startEtcd(t, { flags })
  const proxy = await startProxy(t, etcd.url)
  return { etcd, proxy, ...feedOver(t, etcd, proxy.url, options, wrap) }
}

/** @param url what the feed connects to; writes go to `etcd` itself. */
function feedOver(
  t: Test,
  etcd: EtcdProcess,
  url: string,
  options: Partial<FeedOptions> = {},
  wrap: (upstream: Upstream, etcd: EtcdProcess) => Upstream = (upstream) => upstream,
  upstreamOptions: Partial<EtcdUpstreamOptions> = {},
) {
  const upstream = connectEtcd({ endpoints: [url], ...upstreamOptions })
  const sink = new RecordingSink()
  const metrics = new CountingMetrics()
  const feed = new Feed({
    name: 'things',
    prefix: '/p/' as Key,
    upstream: wrap(upstream, etcd),
    sink,
    metrics,
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    turns: new Limiter(2),
    backfillRevisions: 10_000,
    onGap: 'expire',
    backoff: { firstMs: 50, capMs: 200 },
    pageKeys: 3,
    requestTimeoutMs: 5_000,
    refusedRetryMs: 60_000,
    ...options,
  })
  t.teardown(async () => {
    await feed.stop()
    await upstream.close()
  })
  const revisions: number[] = []
  const call = async (path: string, body: object): Promise<number> => {
    const answer = await etcd.call(path, body)
    return Number((answer['header'] as { revision: string }).revision)
  }
  return {
    upstream,
    sink,
    metrics,
    feed,
    /** Of every write under the prefix that etcd still knows of. */
    revisions,
    put: async (key: string, value = key): Promise<void> => {
      revisions.push(await call('kv/put', { key: base64(`/p/${key}`), value: base64(value) }))
    },
    remove: async (key: string): Promise<void> => {
      revisions.push(await call('kv/deleterange', { key: base64(`/p/${key}`) }))
    },
    elsewhere: () => call('kv/put', { key: base64('/q/x'), value: base64('x') }),
    /** Until the sink has what etcd holds. */
    converged: async (): Promise<void> => {
      const sorted = (): KeyValue[] => [...sink.state.values()].sort((a, b) => (a.key < b.key ? -1 : 1))
      await until(
        async () => {
          const { keyValues } = await upstream.read({ prefix: '/p/' as Key }).catch(() => ({ keyValues: null }))
          return feed.status.state === 'watching' && JSON.stringify(sorted()) === JSON.stringify(keyValues)
        },
        `the sink to be like etcd: ${JSON.stringify(feed.status)}`,
      )
    },
  }
}

void t.test('history before the start, then what is written, in order and once', async (t) => {
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

void t.test('kill -9 and restart: every write comes, none twice, nothing is listed again', async (t) => {
  const h = await harness(t)
  h.feed.start()
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

for (const onGap of ['expire', 'coalesce'] as const) {
  void t.test(`compaction while cut off, ${onGap}`, async (t) => {
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

void t.test('compaction before the start, and between two pages of the first list', async (t) => {
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
  void t.test(`restored from an older backup, ${name}`, async (t) => {
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

void t.test('a short cut of an idle prefix: resumed, and its position is not invented', async (t) => {
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
  if (h.feed.trustsProgress) t.ok(h.feed.status.revision! >= now, 'told by progress')
  else t.equal(h.feed.status.revision, h.revisions.at(-1))
})

void t.test(
  'a member without a leader: what is cached stays, and nothing is lost when the leader is back',
  async (t) => {
    const members = await startEtcdCluster(t)
    const [ours, ...others] = members as [EtcdProcess, EtcdProcess, EtcdProcess]
    const h = feedOver(t, ours, ours.url)
    h.feed.start()
    await h.put('a')
    await h.converged()
    for (const other of others) await other.kill('SIGSTOP')
    await until(() => h.feed.status.state !== 'watching', 'the loss to be noticed')
    t.ok(h.sink.reason)
    await delay(1_500)
    t.not(h.feed.status.state, 'watching', 'an open stream to a member that knows no leader is no connection')
    t.equal(h.sink.state.size, 1)
    for (const other of others) await other.kill('SIGCONT')
    await until(
      () =>
        h.put('b').then(
          () => true,
          () => false,
        ),
      'a leader',
    )
    await h.converged()
    t.equal(h.sink.of('replace').length, 1)
    t.equal(h.sink.state.size, 2)
  },
)

const DELETED_KEYS = 200_101
const KEYS_A_TRANSACTION = 20_000

void t.test(
  '200,101 keys deleted in one transaction reach a feed that watches, and one that starts later',
  async (t) => {
    const etcd = await startEtcd(t, { flags: [`--max-txn-ops=${KEYS_A_TRANSACTION}`, '--max-request-bytes=10000000'] })
    const options = { pageKeys: 10_000 }
    const live = feedOver(t, etcd, etcd.url, options)
    for (let first = 0; first < DELETED_KEYS; first += KEYS_A_TRANSACTION) {
      const keys = Math.min(KEYS_A_TRANSACTION, DELETED_KEYS - first)
      const operations = Array.from({ length: keys }, (_, i) => ({
        type: 'put' as const,
        key: `/p/${String(first + i).padStart(6, '0')}` as Key,
        value: Buffer.from('x'),
      }))
      await live.upstream.write([], operations)
    }
    live.feed.start()
    await until(() => live.feed.status.state === 'watching' && live.sink.state.size === DELETED_KEYS, 'all keys')
    const { header } = (await etcd.call('kv/deleterange', { key: base64('/p/'), range_end: base64('/p0') })) as {
      header: { revision: string }
    }
    await until(() => live.sink.state.size === 0, 'the one that watches to have heard')

    const later = feedOver(t, etcd, etcd.url, options)
    later.feed.start()
    await until(() => later.feed.status.state === 'watching', 'the one that starts to be ready')
    // Where progress is not trusted, an equal state may have made it ready before.
    await until(() => later.sink.batches.at(-1)?.events[0]?.type === 'delete', 'it to have heard')
    t.equal(later.sink.state.size, 0)
    for (const { sink, metrics } of [live, later]) {
      const last = sink.batches.at(-1)!
      t.equal(last.revision, Number(header.revision))
      t.equal(last.events.length, DELETED_KEYS, 'as one')
      t.equal(metrics.of('relisted gap'), 0)
    }
  },
)

void t.test(
  'of a large gap only the newer part is watched: by what is seen of it, or when etcd has sent its size',
  async (t) => {
    const etcd = await startEtcd(t)
    const rows: [what: string, name: string, sampled: number, maxReceivedBytes: number, relists: number][] = [
      ['values that look large', '0', 300_000, 160_000_000, 0],
      ['values that look small', 'z', 100, 40_000_000, 1],
    ]
    for (const [what, name, sampled, maxReceivedBytes, relists] of rows) {
      await etcd.call('kv/deleterange', { key: base64('/p/'), range_end: base64('/p0') })
      const h = feedOver(t, etcd, etcd.url, {}, undefined, { maxReceivedBytes })
      for (let i = 0; i < 20; i++) await h.put(`1${i}`, 'x'.repeat(sampled))
      for (let i = 0; i < 240; i++) await h.put(name, `${i}`.padEnd(300_000, 'x'))
      h.feed.start()
      await until(() => h.feed.status.state === 'watching', `${what}: to be ready`)
      await h.put('after', 'x')
      await until(() => h.sink.batches.at(-1)?.revision === h.revisions.at(-1), `${what}: the last write`)
      t.equal(h.sink.state.size, 22)
      t.ok(
        h.sink.state
          .get(`/p/${name}` as Key)
          ?.value.toString()
          .startsWith('239x'),
        what,
      )
      t.equal(h.metrics.of('relisted gap'), relists, what)
      t.ok(h.sink.batches.length >= 30 && h.sink.batches.length < 240, `${what}: ${h.sink.batches.length} were watched`)
      t.strictSame(
        h.sink.batches.map(({ revision }) => revision as number),
        h.revisions.slice(-h.sink.batches.length),
        'and without a hole',
      )
      await h.feed.stop()
    }
  },
)
