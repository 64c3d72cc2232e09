/**
 * A definition is deleted while its objects are watched. The API server deletes the objects first, so a watcher must
 * see all of them deleted before its watch ends: afterwards the resource is unknown, and nobody could resume.
 */
import http from 'node:http'
import t from 'tap'
import { definitionObject } from '../support/definition.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { LightWatcher } from '../support/light-watcher.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const DEFINITION = '/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com'
const PATH = '/apis/example.com/v1/widgets'

const definition = (scope: 'Cluster' | 'Namespaced'): object =>
  definitionObject({
    group: 'example.com',
    plural: 'widgets',
    kind: 'Widget',
    scope,
    versions: [{ name: 'v1', storage: true }, { name: 'v1beta1' }],
  })

function widgets(count: number, bytes = 0, namespace = 'a'): Record<string, object> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, i) => [
      `/registry/example.com/widgets/${namespace === '' ? '' : `${namespace}/`}w${i}`,
      {
        apiVersion: 'example.com/v1',
        kind: 'Widget',
        metadata: { name: `w${i}`, ...(namespace === '' ? {} : { namespace }) },
        spec: { text: 'x'.repeat(bytes) },
      },
    ]),
  )
}

const deletions = (objects: object): Record<string, Written> =>
  Object.fromEntries(Object.keys(objects).map((key) => [key, null]))

async function namesIn(url: string): Promise<readonly string[]> {
  const answer = await fetch(url + PATH)
  if (answer.status !== 200) return [String(answer.status)]
  const { items } = (await answer.json()) as { items: { metadata: { name: string } }[] }
  return items.map(({ metadata }) => metadata.name)
}

const SERVERS: readonly (readonly [string, ...(readonly string[])])[] = [
  ['one process'],
  ['workers', '--workers=2'],
  ['no cache', '--watch-cache=false'],
  ['another server in front of etcd'],
]

for (const [name, ...flags] of SERVERS) {
  void t.test(`watchers see the last objects deleted before a watch ends, with ${name}`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    const first = await startServer(t, { flags: [`--etcd-servers=${etcd.url}`, ...flags] })
    const isChain = name.startsWith('another')
    const { url } = isChain ? await startServer(t, { flags: [`--upstream=${first.url}`] }) : first
    for (let round = 0; round < 5; round++) {
      const objects = widgets(100)
      await writer.commit({ [DEFINITION]: definition('Namespaced') })
      await writer.commit(objects)
      await until(async () => (await namesIn(url)).length === 100, 'they are served')
      const watchers = Array.from(
        { length: 20 },
        (_, i) => new LightWatcher(`${url}${i % 2 === 0 ? PATH : PATH.replace('v1', 'v1beta1')}?watch=1`),
      )
      t.teardown(() => watchers.forEach((watcher) => watcher.destroy()))
      for (const watcher of watchers) await watcher.until(({ revisions }) => revisions.length === 100)
      // Both kinds of events arrive at once, each on its own watch.
      await writer.commit({ ...deletions(objects), [DEFINITION]: null })
      await until(() => watchers.every(({ end }) => end !== 'open'), 'the watches end')
      t.same(
        watchers.map(({ revisions, end, error }) => [revisions.length, end, error]),
        watchers.map(() => [200, 'eof', '']),
      )
      await until(async () => (await namesIn(url))[0] === '404', 'the resource is gone')
    }
    // The primary process keeps its watch for another minute.
    if (name === 'workers') return
    const metrics = await (await fetch(`${url}/metrics`)).text()
    t.match(metrics, 'resource="customresourcedefinitions"')
    t.notMatch(metrics, 'resource="widgets"', 'no series of it stays')
  })
}

void t.test('a watcher that reads slowly gets the last events too', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const { url } = await startServer(t, { flags: [`--etcd-servers=${etcd.url}`] })
  const objects = widgets(60, 200_000)
  await writer.commit({ [DEFINITION]: definition('Namespaced') })
  for (const [key, object] of Object.entries(objects)) await writer.put(key, object)
  await until(async () => (await namesIn(url)).length === 60, 'they are served')
  const seen: string[] = []
  let rest = ''
  let isOver = false
  const answer = await new Promise<http.IncomingMessage>((resolve) =>
    http.get(`${url}${PATH}?watch=1`, { agent: false }, resolve),
  )
  answer.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n')
    rest = lines.pop()!
    for (const line of lines) seen.push((JSON.parse(line) as { type: string }).type)
  })
  answer.once('end', () => (isOver = true))
  await until(() => seen.length === 60, 'the present state is read')
  answer.pause()
  for (const key of Object.keys(objects)) await writer.commit({ [key]: null })
  await writer.commit({ [DEFINITION]: null })
  await until(async () => (await namesIn(url))[0] === '404', 'the resource is gone')
  answer.resume()
  await until(() => isOver, 'the watch ends')
  t.same(
    seen.slice(60),
    Array.from({ length: 60 }, () => 'DELETED'),
  )
})

void t.test('a definition recreated with a different scope is served from its new keys', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  t.teardown(() => proxy.close())
  await writer.commit({ [DEFINITION]: definition('Namespaced'), ...widgets(1) })
  const { url } = await startServer(t, { flags: [`--etcd-servers=http://127.0.0.1:${proxy.port}`] })
  await until(async () => (await namesIn(url)).join() === 'w0', 'the first is served')
  // The server does not see that there was none in between.
  await proxy.refuse()
  await writer.commit({ [DEFINITION]: null, ...deletions(widgets(1)) })
  const revision = await writer.commit({ [DEFINITION]: definition('Cluster'), ...widgets(2, 0, '') })
  await etcd.compact(revision)
  await proxy.accept()
  await until(async () => (await namesIn(url)).join() === 'w0,w1', 'those of the new scope are served')
  t.equal((await fetch(`${url}${PATH}/w1`)).status, 200)
})
