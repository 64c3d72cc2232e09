/**
 * `--watch-cache=false` and `--watch-cache-sizes`: uncached resources are read and watched in etcd, with the same
 * semantics.
 */
import { once } from 'node:events'
import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { VirtualClock } from '../../support/virtual-clock.js'
import t, { type Test } from 'tap'
import { keyFromText } from '../../../src/engine/model/event.js'
import { EmbeddedUpstream } from '../../../src/engine/upstream/embedded/embedded-upstream.js'
import { connectEtcd } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import { assertGuarantees } from '../../guarantees/validate.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { definitionObject, ESTABLISHED } from '../../support/definition.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'
import { recordEtcdHistory } from '../../support/etcd-history.js'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter } from '../../support/etcd-writer.js'
import { hold } from '../../security/support/transports.js'
import { type Target, WatchRecorder } from '../../support/watch-recorder.js'

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
const isWeb = (object: unknown): boolean =>
  (object as { metadata: { labels?: { app?: string } } }).metadata.labels?.app === 'web'

void t.test('every watcher has one watch on etcd, keeps every guarantee, and is ended when etcd is lost', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const control = await recordEtcdHistory(t, etcd)
  const watchersOf = async (): Promise<number> => (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? -1
  const first = await writer.put('/registry/pods/a/p0', pod('p0', { namespace: 'a', labels: { app: 'web' } }))
  const h = await startApp(t, {
    flags: ['--etcd-servers', etcd.url, '--watch-cache-sizes', 'pods#0,nodes#64'],
    config: { bookmarkInterval: 200 },
    upstream: connectEtcd({ endpoints: [etcd.url] }),
  })
  t.notOk(
    [...h.app.sources].some(({ resource }) => resource.plural === 'pods'),
    'nothing is held of the pods',
  )
  const before = await watchersOf()
  const recorder = new WatchRecorder({ url: h.url })
  t.teardown(() => recorder.close())
  const selected = { labelSelector: 'app=web', selects: isWeb }
  const watches = [
    recorder.watch({ target: pods, resourceVersion: String(first) }),
    recorder.watch({ target: pods, resourceVersion: String(first), ...selected }),
    recorder.watch({ target: pods, namespace: 'ab', resourceVersion: String(first) }),
    recorder.watch({ target: pods, sendInitialEvents: true }),
    recorder.watch({ target: pods, namespace: 'a', sendInitialEvents: true }),
  ]
  await until(async () => (await watchersOf()) === before + watches.length, 'etcd counts one for each')
  for (let i = 1; i <= 40; i++) {
    const namespace = i % 3 === 0 ? 'ab' : 'a'
    const name = `p${i % 7}`
    const labels = { app: i % 2 === 0 ? 'web' : 'db' }
    await writer.put(`/registry/pods/${namespace}/${name}`, pod(name, { namespace, labels, status: { i } }))
    if (i % 5 === 0) await writer.commit({ [`/registry/pods/${namespace}/${name}`]: null })
    if (i % 10 === 0) await recorder.list({ target: pods })
  }
  const last = await writer.put('/registry/pods/a/mark', pod('mark', { namespace: 'a', labels: { app: 'web' } }))
  const other = await writer.put('/registry/pods/ab/mark', pod('mark', { namespace: 'ab', labels: { app: 'web' } }))
  await Promise.all(watches.map((watch) => watch.untilRevision(watch.request.namespace === 'a' ? last : other)))
  watches[0]!.destroy()
  await until(async () => (await watchersOf()) === before + watches.length - 1, 'and one less when a watcher leaves')
  await etcd.kill()
  await Promise.all(watches.slice(1).map((watch) => watch.ended))
  t.same(
    watches.slice(1).map(({ end }) => end),
    ['eof', 'eof', 'eof', 'eof'],
    'without an error, after which an informer would list everything again',
  )
  const path = `${h.url}/api/v1/pods`
  const resumed = await fetch(`${path}?watch=1&resourceVersion=${last}`)
  t.equal(resumed.status, 429, 'the only status after which an informer tries the watch again')
  t.equal(resumed.headers.get('retry-after'), '1')
  t.equal((await fetch(path)).status, 504)
  t.equal((await fetch(`${h.url}/api/v1/nodes?resourceVersion=0`)).status, 200, 'cached resources are still served')
  await etcd.restart()
  const reference = await control.finish()
  assertGuarantees(t, recorder.history(writer.writes), reference, { settledRevision: last })
})

void t.test('a get of one object reads only its key', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.put('/registry/pods/a/p1', pod('p1', { namespace: 'a' }))
  const revision = await writer.put('/registry/pods/a/p10', pod('p10', { namespace: 'a' }))
  const upstream = connectEtcd({ endpoints: [etcd.url] })
  const h = await startApp(t, { flags: ['--etcd-servers', etcd.url, '--watch-cache-sizes', 'pods#0'], upstream })
  let lists = 0
  const read = upstream.read.bind(upstream)
  upstream.read = (options) => {
    if (options.prefix.startsWith(pods.prefix)) lists++
    return read(options)
  }
  const path = `${h.url}/api/v1/namespaces/a/pods`
  for (const [name, query, status] of [
    ['p1', '', 200],
    ['p1', '?resourceVersion=0', 200],
    ['p1', `?resourceVersion=${revision}`, 200],
    ['p1', `?resourceVersion=${revision + 1_000}`, 504],
    ['p', '', 404],
  ] as const) {
    const answer = await fetch(`${path}/${name}${query}`)
    t.equal(answer.status, status, `${name}${query}`)
    if (status === 200) t.match(await answer.json(), { metadata: { name } })
  }
  t.equal(lists, 0)
})

void t.test('lists that hold a whole state in memory are limited in number', async (t) => {
  const filler = 'x'.repeat(1_000_000)
  const upstream = new EmbeddedUpstream()
  for (let i = 0; i < 16; i++) {
    const value = Buffer.from(JSON.stringify(pod(`p${i}`, { namespace: 'a', spec: { filler } })))
    upstream.commit([{ type: 'put', key: keyFromText(`/registry/pods/a/p${i}`), value }])
  }
  const h = await startApp(t, {
    flags: ['--watch-cache-sizes', 'pods#0'],
    config: { maxInitialStates: 1 },
    upstream,
  })
  let reads = 0
  const read = upstream.read.bind(upstream)
  upstream.read = (options) => {
    reads++
    return read(options)
  }
  const list = `${h.url}/api/v1/pods?labelSelector=x!%3D`
  // A client that does not read holds the only slot: 16 MB do not fit into a socket's buffers.
  const first = get(`${list}1`, { agent: false }, (answer) => answer.on('error', () => {}).pause())
  first.on('error', () => {})
  t.teardown(() => first.destroy())
  await once(first, 'response')
  const before = reads
  t.ok(before > 0)
  t.equal((await fetch(`${list}2`)).status, 429)
  t.equal(reads, before, 'what cannot be sent is not read')
})

/** A server that does not cache `resource`, and whose reads of it wait until they are let go. */
async function slowReads(
  t: Test,
  resource: string,
  prefix: string,
  config: NonNullable<Parameters<typeof startApp>[1]>['config'] = {},
) {
  const upstream = new EmbeddedUpstream()
  const app = await startApp(t, { config, upstream, flags: ['--watch-cache-sizes', `${resource}#0`] })
  const waiting: (() => void)[] = []
  let reads = 0
  const read = upstream.read.bind(upstream)
  upstream.read = async (options) => {
    if (!options.prefix.startsWith(prefix)) return read(options)
    reads++
    await new Promise<void>((resolve) => waiting.push(resolve))
    return read(options)
  }
  const write = (path: string, object: object | null): void => {
    const key = keyFromText(`/registry/${path}`)
    if (object === null) upstream.commit([{ type: 'delete', key }])
    else upstream.commit([{ type: 'put', key, value: Buffer.from(JSON.stringify(object)) }])
  }
  const letGo = (): void => waiting.splice(0).forEach((goOn) => goOn())
  t.teardown(letGo)
  return { app, write, reads: () => reads, letGo }
}

const openWatch = async ({ url }: AppHarness, path: string): Promise<Awaited<ReturnType<typeof hold>>> =>
  await hold(url, 'HTTP/1.1', `${path}?watch=1`)

void t.test('uncached watches read their states a few at a time', async (t) => {
  const { app, write, reads, letGo } = await slowReads(t, 'pods', '/registry/pods/')
  write('pods/a/x', pod('x', { namespace: 'a' }))
  const asked = Array.from({ length: 6 }, () => openWatch(app, '/api/v1/pods'))
  await until(() => reads() === 4, 'the first ones read')
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(reads(), 4, 'and the others wait')
  letGo()
  await until(() => reads() === 6, 'their turn comes')
  letGo()
  for (const watch of await Promise.all(asked)) {
    await until(() => watch.text.includes('"ADDED"'), 'it is served')
    watch.close()
  }
})

void t.test('an uncached watch whose turn comes when the memory is full is sent away', async (t) => {
  const memoryTarget = process.memoryUsage.rss() + 300 * 2 ** 20
  const { app, reads, letGo } = await slowReads(t, 'pods', '/registry/pods/', { memoryTarget })
  const first = Array.from({ length: 4 }, () => openWatch(app, '/api/v1/pods'))
  await until(() => reads() === 4, 'the first ones read')
  const waits = fetch(`${app.url}/api/v1/pods?watch=1`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  const filled = Buffer.alloc(500 * 2 ** 20, 1)
  letGo()
  t.equal((await waits).status, 429)
  t.equal(reads(), 4, `not one more is read beside ${filled.length} bytes`)
  for (const watch of await Promise.all(first)) watch.close()
})

void t.test('an uncached watch whose resource goes while it waits for its turn is sent away', async (t) => {
  const key = 'apiextensions.k8s.io/customresourcedefinitions/widgets.example.com'
  const definition = {
    ...definitionObject({
      group: 'example.com',
      plural: 'widgets',
      kind: 'Widget',
      scope: 'Namespaced',
      versions: [{ name: 'v1', storage: true }],
    }),
    status: ESTABLISHED,
  }
  const prefix = '/registry/example.com/widgets/'
  const { app, write, reads, letGo } = await slowReads(t, 'widgets.example.com', prefix)
  write(key, definition)
  const path = '/apis/example.com/v1/widgets'
  await until(async () => (await fetch(`${app.url}/apis/example.com/v1`)).status === 200, 'it is served')
  const first = Array.from({ length: 4 }, () => fetch(`${app.url}${path}?watch=1`))
  await until(() => reads() === 4, 'the first ones read')
  const waits = fetch(`${app.url}${path}?watch=1`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  write(key, null)
  await until(async () => (await fetch(`${app.url}/apis/example.com/v1`)).status === 404, 'it is gone')
  letGo()
  t.equal((await waits).status, 429)
  t.equal(reads(), 4)
  for (const one of await Promise.all(first)) await one.body?.cancel()
})

void t.test('a watch that waits for a slot while its watch on etcd is lost ends as soon as it has one', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const watchersOf = async (): Promise<number> => (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? -1
  await writer.put('/registry/minions/n', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' } })
  await writer.put('/registry/pods/a/p', pod('p', { namespace: 'a' }))
  const upstream = connectEtcd({ endpoints: [etcd.url] })
  const h = await startApp(t, {
    flags: ['--etcd-servers', etcd.url, '--watch-cache-sizes', 'pods#0,configmaps#0'],
    config: { maxInitialStates: 1 },
    upstream,
  })
  // An uncached list that is being read holds the only slot.
  let endRead: (() => void) | null = null
  const read = upstream.read.bind(upstream)
  upstream.read = async (options) => {
    if (!options.prefix.startsWith('/registry/configmaps/')) return await read(options)
    return await new Promise((_resolve, reject) => {
      endRead = () => reject(new UpstreamError('unavailable', 'ended'))
    })
  }
  const holder = fetch(`${h.url}/api/v1/configmaps`)
  await until(() => endRead !== null, 'it holds the slot')
  const before = await watchersOf()
  const waiting = hold(h.url, 'HTTP/1.1', '/api/v1/pods?watch=1')
  await until(async () => (await watchersOf()) === before + 1, 'its watch on etcd runs')
  const other = await hold(h.url, 'HTTP/1.1', '/api/v1/pods?watch=1&resourceVersion=2')
  await until(async () => (await watchersOf()) === before + 2, 'and so does another one')
  await etcd.kill()
  await other.ended
  t.notMatch(other.text, 'ERROR', 'an informer resumes it')
  endRead!()
  t.equal((await holder).status, 504)
  const held = await waiting
  await until(() => held.hasEnded, 'it would be silent for good')
  t.match(held.text, '"code":429', 'its initial state is not complete')
})

void t.test('a size bounds the history of its resource beyond 75 s, and of no other', async (t) => {
  const clock = new VirtualClock()
  const h = await startApp(t, { flags: ['--watch-cache-sizes', 'pods#64'], clock })
  for (let i = 0; i < 200; i++) {
    h.put(`pods/a/p${i}`, pod(`p${i}`, { namespace: 'a' }))
    h.put(`configmaps/a/c${i}`, { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: `c${i}`, namespace: 'a' } })
  }
  const batches = (plural: string): number => {
    for (const { resource, cache } of h.app.sources) if (resource.plural === plural) return cache.history.stats.batches
    return -1
  }
  await until(() => batches('configmaps') === 200, 'all are there')
  t.equal(batches('pods'), 200, 'whatever the count')
  clock.advance(75_000)
  h.put('pods/a/last', pod('last', { namespace: 'a' }))
  await until(() => batches('pods') === 64, 'what has been kept for its time has gone')
  t.equal(batches('configmaps'), 200)
})

void t.test('a watch that is forwarded because a value cannot be read here holds nothing here', async (t) => {
  const etcd = await startEtcd(t)
  await new EtcdWriter([etcd]).put('/registry/pods/a/p0', Buffer.from('k8s:enc:aescbc:v1:key1:x'))
  const apiServer = createServer((_request, response) => response.writeHead(200).flushHeaders()).listen(0, '127.0.0.1')
  t.teardown(() => apiServer.close())
  await once(apiServer, 'listening')
  const { port } = apiServer.address() as AddressInfo
  const h = await startApp(t, {
    flags: [
      '--etcd-servers', etcd.url, '--watch-cache-sizes', 'pods#0', '--passthrough', `http://127.0.0.1:${port}`,
    ], // prettier-ignore
    upstream: connectEtcd({ endpoints: [etcd.url] }),
  })
  const watches = async (): Promise<number | undefined> =>
    (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total')
  const before = await watches()
  const leaving = new AbortController()
  const response = await fetch(`${h.url}/api/v1/pods?watch=1`, { signal: leaving.signal })
  t.equal(response.status, 200, 'the API server answers')
  await until(async () => (await watches()) === before, 'its own watch has ended')
  leaving.abort()
  apiServer.closeAllConnections()
})

void t.test('a backlog beyond the message limit is requested in parts, once', async (t) => {
  const upstream = new EmbeddedUpstream()
  const opened: { readonly startRevision: number; readonly inParts: boolean }[] = []
  const open = upstream.watch.bind(upstream)
  upstream.watch = (options, handlers) => {
    const { prefix, startRevision, inParts = false } = options
    if (!prefix.startsWith(pods.prefix)) return open(options, handlers)
    opened.push({ startRevision, inParts })
    if (inParts) return open(options, handlers)
    queueMicrotask(() => handlers.onEnd({ kind: 'failed', error: new UpstreamError('too-large', 'larger than max') }))
    return { close: () => {}, requestProgress: () => {} }
  }
  const h = await startApp(t, { flags: ['--watch-cache-sizes', 'pods#0'], upstream })
  const put = async (name: string): Promise<number> => {
    const value = Buffer.from(JSON.stringify(pod(name, { namespace: 'a' })))
    return (await upstream.write([], [{ type: 'put', key: keyFromText(`/registry/pods/a/${name}`), value }])).revision
  }
  const before = await put('x')
  await put('y')
  const watch = await fetch(`${h.url}/api/v1/pods?watch=1&resourceVersion=${before}&timeoutSeconds=2`)
  t.match(await watch.text(), '"name":"y"')
  t.same(opened, [
    { startRevision: before + 1, inParts: false },
    { startRevision: before + 1, inParts: true },
  ])
})
