/**
 * Tests the informer in settings that its other tests do not cover: server-sent events, a resync, a browser, a
 * kube-apiserver.
 */
import t from 'tap'
import {
  fetchTransport,
  type KubeObject,
  loadKubeconfig,
  nodeTransport,
  pollTransport,
  SharedInformer,
  sseWire,
} from '../../src/client/index.js'
import { serveModules } from './serve-modules.js'
import { startHttpFaults } from './reflector/http-faults.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { openPage } from '../support/chromium.js'

const PODS = '/api/v1/pods'

void t.test('an informer over server-sent events survives a cut and a 410', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') } })
  const faults = await startHttpFaults(t, app.port)
  const informer = new SharedInformer<KubeObject>({
    transport: nodeTransport({ server: faults.url }),
    path: PODS,
    wire: sseWire,
    backoff: { firstMs: 20, capMs: 200 },
  })
  t.teardown(() => informer.stop())
  const has = (...names: string[]): boolean =>
    informer.store
      .list()
      .map(({ metadata }) => metadata.name)
      .sort()
      .join() === names.join()
  informer.start()
  await informer.whenSynced()
  t.ok(has('a', 'b'))
  t.ok(
    faults.requests.every(({ isWatch }) => isWatch),
    'no list was needed',
  )
  app.commit({ 'pods/default/c': pod('c'), 'pods/default/a': null })
  await until(() => has('b', 'c'), 'two changes of one revision')
  faults.cut()
  app.put('pods/default/d', pod('d'))
  await until(() => has('b', 'c', 'd'), 'after a cut')
  let isExpired = false
  faults.fault = ({ isWatch, isStream }) => {
    if (!isWatch || isStream || isExpired) return null
    isExpired = true
    return { status: 410, body: '{"kind":"Status","code":410,"reason":"Expired"}' }
  }
  faults.cut()
  app.delete('pods/default/b')
  await until(() => has('c', 'd') && isExpired, 'after a 410')
  t.ok(faults.requests.length < 30, `${faults.requests.length} requests`)
})

void t.test('a resync calls every handler for every object again, without a request', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') } })
  const faults = await startHttpFaults(t, app.port)
  const informer = new SharedInformer<KubeObject>({
    transport: fetchTransport({ server: faults.url }),
    path: PODS,
    resyncMs: 50,
  })
  t.teardown(() => informer.stop())
  const told = new Map<string, number>()
  let areSame = true
  informer.addHandler({
    updated: (object, previous) => {
      told.set(object.metadata.name, (told.get(object.metadata.name) ?? 0) + 1)
      areSame &&= object === previous
    },
  })
  informer.start()
  await until(() => (told.get('a') ?? 0) >= 3 && (told.get('b') ?? 0) >= 3, 'thrice')
  t.ok(areSame, 'it is what was there')
  t.equal(faults.requests.length, 1)
})

void t.test('the same modules run in a browser, over its own fetch', async (t) => {
  const origin = await serveModules(t)
  const app = await startApp(t, { flags: ['--cors-allowed-origins', origin], objects: { 'pods/default/a': pod('a') } })
  const faults = await startHttpFaults(t, app.port)
  const page = await openPage(t, origin)
  await page.addScriptTag({
    type: 'module',
    content: `import { fetchTransport, SharedInformer, watch } from '/client/browser.js'
      const options = { transport: fetchTransport({ server: '${faults.url}' }), path: '${PODS}', backoff: { firstMs: 20, capMs: 200 } }
      const informer = new SharedInformer(options)
      const title = () => { document.title = informer.store.list().map(({ metadata }) => metadata.name).sort().join() }
      informer.addHandler({ added: title, deleted: title })
      informer.start()
      document.body.textContent = ''
      for await (const item of watch(options)) document.body.textContent += item.type + ' '`,
  })
  const shows = async (title: string, text: RegExp): Promise<void> => {
    for (const end = performance.now() + 20_000; performance.now() < end;) {
      if ((await page.title()) === title && text.test(await page.innerText('body'))) break
      await new Promise((resolve) => setTimeout(resolve, 30))
    }
    t.equal(await page.title(), title)
    t.match(await page.innerText('body'), text)
  }
  await shows('a', /^STATE/)
  app.put('pods/default/b', pod('b'))
  await shows('a,b', /ADDED/)
  faults.cut()
  app.delete('pods/default/a')
  await shows('b', /DELETED/)
  await page.close()
  await until(() => app.watchers === 0, 'closing the page ends its watches')
})

const kubeconfig = process.env['KUBE_APISERVER_KUBECONFIG']
const skip = kubeconfig === undefined ? 'KUBE_APISERVER_KUBECONFIG names no server to try it on' : false
void t.test('an informer reads the namespaces of a kube-apiserver, by WatchList and by list', { skip }, async (t) => {
  const { namespace: _namespace, ...options } = await loadKubeconfig(kubeconfig!)
  for (const watchList of [true, false]) {
    const informer = new SharedInformer<KubeObject>({
      transport: nodeTransport(options),
      path: '/api/v1/namespaces',
      watchList,
    })
    t.teardown(() => informer.stop())
    informer.start()
    await informer.whenSynced(AbortSignal.timeout(30_000))
    t.ok(informer.store.has('kube-system'), 'what every cluster has')
  }
})

void t.test(
  'an informer over long polls keeps the current state, through cuts, a 410 and a server restart',
  async (t) => {
    const flags = ['--resource', 'flags=/config/flags/']
    const first = await startApp(t, { flags, config: { defaultWatchCacheSize: 4, watchCacheAge: 0 } })
    let app = first
    const put = (name: string, value: string | null): void => {
      const key = keyFromText(`/config/flags/${name}`)
      app.upstream.commit([value === null ? { type: 'delete', key } : { type: 'put', key, value: Buffer.from(value) }])
    }
    put('a', '1')
    const faults = await startHttpFaults(t, first.port)
    const informer = new SharedInformer<KubeObject & { value: unknown }>({
      transport: pollTransport(fetchTransport({ server: faults.url }), { waitSeconds: 1 }),
      path: '/apis/distributary.io/v1/flags',
      backoff: { firstMs: 20, capMs: 200 },
    })
    t.teardown(() => informer.stop())
    const seen: string[] = []
    informer.addHandler({
      added: ({ metadata, value }) => void seen.push(`+${metadata.name}${String(value)}`),
      updated: ({ metadata, value }) => void seen.push(`~${metadata.name}${String(value)}`),
      deleted: ({ metadata }) => void seen.push(`-${metadata.name}`),
    })
    informer.start()
    const sees = async (expected: string): Promise<void> =>
      await until(
        () => seen.join(' ') === expected,
        () => `${expected}, not ${seen.join(' ')}`,
        20_000,
      )
    await sees('+a1')
    put('a', '2')
    put('b', '1')
    await sees('+a1 ~a2 +b1')
    const before = faults.requests.length
    await until(() => faults.requests.length >= before + 3, 'polls without events')
    const cursors = faults.requests.slice(before).map(({ query }) => [...query].at(-1)!)
    t.same(new Set(cursors.slice(1).map(([name]) => name)), new Set(['cursor']), 'the last parameter')
    t.equal(new Set(cursors.map(([, value]) => value)).size, cursors.length, 'no two polls are the same request')
    put('b', null)
    await sees('+a1 ~a2 +b1 -b')
    faults.cut()
    put('c', '1')
    await sees('+a1 ~a2 +b1 -b +c1')
    t.ok(faults.requests.filter(({ isWatch }) => !isWatch).length <= 2, 'one list, and one after the cut at most')

    // More happens than the history keeps, while no request is let through.
    faults.fault = () => ({ status: 503 })
    faults.cut()
    const { cache } = [...app.app.sources].find(({ resource }) => resource.plural === 'flags')!
    const forgotten = app.upstream.revision + 1
    put('c', null)
    await until(() => {
      put('a', '3')
      return cache.history.floorRevision > forgotten
    }, 'it is forgotten')
    faults.fault = () => null
    await sees('+a1 ~a2 +b1 -b +c1 ~a3 -c')

    // Another server has a different history, whose lower revisions mean something else.
    app = await startApp(t, { flags })
    put('z', '1')
    faults.target = app.port
    faults.cut()
    await sees('+a1 ~a2 +b1 -b +c1 ~a3 -c +z1 -a')
    const lists = faults.requests.filter(({ isWatch }) => !isWatch)
    t.ok(
      lists.slice(1).every(({ query }) => query.has('history')),
      'a list after a refusal has the new history in its URL, so that no cache answers it with an old one',
    )
  },
)

void t.test('an informer over long polls stays live during a quiet poll, however long it waits', async (t) => {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  const faults = await startHttpFaults(t, app.port)
  const troubles = new Set<string | null>()
  const informer = new SharedInformer<KubeObject>({
    transport: pollTransport(fetchTransport({ server: faults.url }), { waitSeconds: 50 }),
    path: '/apis/distributary.io/v1/flags',
    openTimeoutMs: 3_000,
    onStatus: ({ reason }) => void troubles.add(reason),
  })
  t.teardown(() => informer.stop())
  informer.start()
  await informer.whenSynced()
  const polls = (): number => faults.requests.filter(({ query }) => query.has('wait')).length
  await until(() => polls() >= 2, 'a second poll has begun')
  t.ok(informer.status.isLive)
  t.same([...troubles], [null])
})
