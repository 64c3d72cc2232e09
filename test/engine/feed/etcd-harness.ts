/** A feed over a real etcd, behind a small proxy that can be closed, so that etcd changes while we are disconnected. */
import { createServer, connect, type Socket } from 'node:net'
import { once } from 'node:events'
import type { Test } from 'tap'
import { Feed } from '../../../src/engine/feed/feed.js'
import type { FeedOptions } from '../../../src/engine/feed/feed-options.js'
import type { Key, KeyValue } from '../../../src/engine/model/event.js'
import { systemClock } from '../../../src/support/clock.js'
import { SharedLists } from '../../../src/engine/feed/shared-lists.js'
import { silentLogger } from '../../../src/support/log.js'
import { systemRandom } from '../../../src/support/random.js'
import { connectEtcd, type EtcdUpstreamOptions } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../../src/engine/upstream/upstream.js'
import { startEtcd, type EtcdProcess } from '../../support/etcd-process.js'
import { smallPages } from '../../support/small-pages.js'
import { until } from '../../support/until.js'
import { CountingMetrics } from './harness.js'
import { RecordingSink } from './recording-sink.js'

export const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** Forwards to `url` until it is closed. */
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

/** `pageKeys`: the most keys in a page, so that a few keys make several. */
type HarnessOptions = Partial<FeedOptions> & { readonly pageKeys?: number }

export async function harness(
  t: Test,
  options: HarnessOptions = {},
  flags: readonly string[] = [],
  wrap?: (upstream: Upstream, etcd: EtcdProcess) => Upstream,
) {
  const etcd = await startEtcd(t, { flags })
  const proxy = await startProxy(t, etcd.url)
  return { etcd, proxy, ...feedOver(t, etcd, proxy.url, options, wrap) }
}

/** @param url of the feed's connection; writes go to `etcd` directly. */
export function feedOver(
  t: Test,
  etcd: EtcdProcess,
  url: string,
  { pageKeys = 3, ...options }: HarnessOptions = {},
  wrap: (upstream: Upstream, etcd: EtcdProcess) => Upstream = (upstream) => upstream,
  upstreamOptions: Partial<EtcdUpstreamOptions> = {},
) {
  const upstream = connectEtcd({ endpoints: [url], ...upstreamOptions })
  const sink = new RecordingSink()
  const metrics = new CountingMetrics()
  const feed = new Feed({
    name: 'things',
    prefix: '/p/' as Key,
    upstream: wrap(smallPages(upstream, pageKeys), etcd),
    sink,
    metrics,
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    lists: new SharedLists(2, systemClock),
    backfillRevisions: 10_000,
    onGap: 'expire',
    backoff: { firstMs: 50, capMs: 200 },
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
    /** The revisions of all writes under the prefix that etcd still has. */
    revisions,
    put: async (key: string, value = key): Promise<void> => {
      revisions.push(await call('kv/put', { key: base64(`/p/${key}`), value: base64(value) }))
    },
    remove: async (key: string): Promise<void> => {
      revisions.push(await call('kv/deleterange', { key: base64(`/p/${key}`) }))
    },
    elsewhere: () => call('kv/put', { key: base64('/q/x'), value: base64('x') }),
    /** Waits until the sink matches etcd. */
    converged: async (): Promise<void> => {
      const sorted = (): KeyValue[] => [...sink.state.values()].sort((a, b) => (a.key < b.key ? -1 : 1))
      await until(
        async () => {
          const { keyValues } = await upstream.read({ prefix: '/p/' as Key }).catch(() => ({ keyValues: null }))
          return feed.status.state === 'watching' && JSON.stringify(sorted()) === JSON.stringify(keyValues)
        },
        () => `the sink is like etcd: ${JSON.stringify(feed.status)}`,
      )
    },
  }
}
