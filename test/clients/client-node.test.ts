/** @kubernetes/client-node, unchanged: its Informer (list, watch, bookmarks, relist) and its Watch. */
import {
  type CoreV1Event,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  type V1Pod,
  type V1PodList,
  Watch,
  makeInformer,
} from '@kubernetes/client-node'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

function configOf(h: AppHarness): KubeConfig {
  const config = new KubeConfig()
  config.loadFromOptions({
    clusters: [{ name: 'c', server: h.url, skipTLSVerify: true }],
    users: [{ name: 'u' }],
    contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
    currentContext: 'x',
  })
  return config
}

void t.test('its lists: in pages, by selectors, single objects, and errors it understands', async (t) => {
  const objects = Object.fromEntries(
    Array.from({ length: 5 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`, { labels: { odd: String(i % 2) } })]),
  )
  const api = configOf(await startApp(t, { objects })).makeApiClient(CoreV1Api)
  const names: string[] = []
  let next: string | undefined
  let pages = 0
  do {
    const page: V1PodList = await api.listNamespacedPod({
      namespace: 'default',
      limit: 2,
      ...(next === undefined ? {} : { _continue: next }),
    })
    names.push(...page.items.map(({ metadata }) => metadata?.name ?? ''))
    next = page.metadata?._continue
    pages++
  } while (next)
  t.same(names, ['p0', 'p1', 'p2', 'p3', 'p4'])
  t.equal(pages, 3)
  const odd = await api.listPodForAllNamespaces({ labelSelector: 'odd=1' })
  t.same(
    odd.items.map(({ metadata }) => metadata?.name),
    ['p1', 'p3'],
  )
  t.equal((await api.readNamespacedPod({ namespace: 'default', name: 'p3' })).metadata?.name, 'p3')
  await t.rejects(api.readNamespacedPod({ namespace: 'default', name: 'nobody' }), { code: 404 })
  await t.rejects(api.listNamespacedPod({ namespace: 'default', labelSelector: '!!' }), { code: 400 })
})

void t.test('its Informer matches the server, through cuts and an expired revision', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') }, config: { watchCacheBytes: 50_000 } })
  const config = configOf(h)
  const api = config.makeApiClient(CoreV1Api)
  const informer = makeInformer<V1Pod>(config, '/api/v1/namespaces/default/pods', () =>
    api.listNamespacedPod({ namespace: 'default' }),
  )
  let isOver = false
  t.teardown(() => {
    isOver = true
    return informer.stop()
  })
  const told: string[] = []
  informer.on('add', ({ metadata }) => told.push(`add ${metadata?.name}`))
  informer.on('update', ({ metadata }) => told.push(`update ${metadata?.name}`))
  informer.on('delete', ({ metadata }) => told.push(`delete ${metadata?.name}`))
  // On an error the client stops; its user restarts it.
  informer.on('error', () => {
    if (!isOver) setTimeout(() => void informer.start(), 50)
  })
  await informer.start()
  t.same(told, ['add a'])
  h.put('pods/default/b', pod('b'))
  h.put('pods/default/a', pod('a', { labels: { x: 'y' } }))
  h.delete('pods/default/b')
  await until(() => told.includes('delete b'), 'the events')
  t.same(told, ['add a', 'add b', 'update a', 'delete b'])
  for (let i = 0; i < 300; i++) h.put(`pods/default/p${i % 20}`, pod(`p${i % 20}`, { labels: { turn: String(i) } }))
  await until(
    () => informer.list().length === 21 && informer.get('p19', 'default')?.metadata?.labels?.['turn'] === '299',
    'everything',
  )
  t.equal(informer.get('a', 'default')?.metadata?.labels?.['x'], 'y')
})

async function collect(t: Test, h: AppHarness, path: string, query: Record<string, string | boolean>) {
  const events: string[] = []
  let ended: unknown = null
  const watch = new Watch(configOf(h))
  const controller = await watch.watch(
    path,
    query,
    (type: string, object: CoreV1Event) => events.push(`${type} ${object.metadata?.name ?? ''}`),
    (error: unknown) => (ended = error ?? 'end'),
  )
  t.teardown(() => controller.abort())
  return { events, ending: () => ended }
}

void t.test('its Watch: the state, the stream, the mark in between, and the end', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const { events, ending } = await collect(t, h, '/api/v1/pods', {
    allowWatchBookmarks: true,
    sendInitialEvents: true,
    resourceVersionMatch: 'NotOlderThan',
    timeoutSeconds: '4',
  })
  await until(() => events.length === 2, 'the state')
  h.put('pods/default/b', pod('b'))
  await until(() => events.length >= 3, 'the event')
  t.same(events.slice(0, 3), ['ADDED a', 'BOOKMARK ', 'ADDED b'])
  await until(() => ending() !== null, 'the end')
  t.match(ending(), 'end', 'without an error')
  const old = await collect(t, h, '/api/v1/pods', { resourceVersion: 'nonsense' })
  await until(() => old.ending() !== null, 'the refusal')
  t.match(old.ending(), Error)
})

void t.test('custom objects, through its API for them', async (t) => {
  const h = await startApp(t, {
    flags: ['--resource', 'flags=/registry/flags/'],
    objects: { 'flags/dark': { on: true } },
  })
  const api = configOf(h).makeApiClient(CustomObjectsApi)
  const list = (await api.listClusterCustomObject({ group: 'distributary.io', version: 'v1', plural: 'flags' })) as {
    items: { metadata: { name: string } }[]
  }
  t.same(
    list.items.map(({ metadata }) => metadata.name),
    ['dark'],
  )
})
