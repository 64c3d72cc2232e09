import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import {
  type KubeObject,
  SharedInformer,
  SharedInformerFactory,
  type Transport,
  watch,
} from '../../src/client/browser.js'
import { fetchTransport } from '../../src/client/reflector/fetch-transport.js'
import { startHttpFaults } from './reflector/http-faults.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const PODS = '/api/v1/pods'

function transportTo(url: string): Transport {
  return fetchTransport({ server: url })
}

void t.test('a slow handler delays neither the store nor other handlers, and its queue is bounded', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const informer = new SharedInformer<KubeObject>({ transport: transportTo(app.url), path: PODS })
  t.teardown(() => informer.stop())
  let release = (): void => undefined
  const stuck = new Promise<void>((resolve) => {
    release = resolve
  })
  const slow: string[] = []
  const registration = informer.addHandler(
    {
      added: () => stuck,
      updated: (object, previous) => {
        slow.push(`${previous.metadata.labels?.['n'] ?? '-'}→${object.metadata.labels?.['n']}`)
      },
    },
    { maxQueued: 4 },
  )
  let fast = 0
  informer.addHandler({ updated: () => void fast++ })
  informer.start()
  await informer.whenSynced()
  for (let n = 1; n <= 20; n++) {
    app.put('pods/default/a', pod('a', { labels: { n: String(n) } }))
    // The writes are awaited one by one, because simultaneous events would be merged into one.
    await until(() => fast === n, 'the other handler received every event')
  }
  t.equal(informer.lister.get('a', 'default')?.metadata.labels?.['n'], '20', 'the store stays current')
  t.ok(registration.coalesced > 0)
  t.ok(registration.queued <= 5, `${registration.queued} wait`)
  t.notOk(registration.hasSynced)
  release()
  await registration.synced
  await until(() => registration.queued === 0, 'it caught up')
  t.match(slow.at(-1), /→20$/, 'with the newest last')
  t.match(slow[0], /^-→/, 'from what it knew')
})

void t.test('an aborted wait for the first state leaves no listener behind', async (t) => {
  const transport: Transport = { send: () => new Promise(() => {}) }
  const informer = new SharedInformer<KubeObject>({ transport, path: PODS })
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const waits: WeakRef<Error>[] = []
  const giveUp = async (): Promise<void> => {
    const controller = new AbortController()
    const synced = informer.whenSynced(controller.signal)
    const reason = new Error('enough')
    waits.push(new WeakRef(reason))
    controller.abort(reason)
    await t.rejects(synced, { message: 'enough' })
  }
  for (let i = 0; i < 10; i++) await giveUp()
  await until(() => {
    collect()
    return waits.filter((reason) => reason.deref() !== undefined).length <= 1
  }, 'they are collected')
  const left = informer.whenSynced()
  await informer.stop()
  await t.rejects(left, /stopped before it had synced/)
  await t.rejects(informer.whenSynced(), /stopped before it had synced/)
})

void t.test(
  'a handler may be added late and removed early, and one that throws still gets the next event',
  async (t) => {
    const app = await startApp(t, {
      objects: { 'pods/default/a': pod('a'), 'pods/other/b': pod('b', { namespace: 'other' }) },
    })
    const errors: unknown[] = []
    const informer = new SharedInformer<KubeObject>({
      transport: transportTo(app.url),
      path: PODS,
      onHandlerError: (error) => errors.push(error),
    })
    t.teardown(() => informer.stop())
    informer.start()
    await informer.whenSynced()
    const late: string[] = []
    const registration = informer.addHandler({
      added: (object, isInitial) => {
        late.push(`${object.metadata.name}${isInitial ? '!' : ''}`)
        throw new Error(object.metadata.name)
      },
    })
    await registration.synced
    t.same(late.sort(), ['a!', 'b!'])
    t.equal(errors.length, 2)
    registration.remove()
    app.put('pods/default/c', pod('c'))
    await until(() => informer.store.has('default/c'), 'the store stays current')
    t.equal(late.length, 2)
  },
)

void t.test(
  'objects are read by name, namespace, labels and a custom index, and a transform drops unused parts',
  async (t) => {
    const app = await startApp(t, {
      objects: {
        'pods/a/x': pod('x', { namespace: 'a', labels: { app: 'web' }, spec: { nodeName: 'n1' } }),
        'pods/a/y': pod('y', { namespace: 'a', spec: { nodeName: 'n2' } }),
        'pods/ab/x': pod('x', { namespace: 'ab', labels: { app: 'web' }, spec: { nodeName: 'n1' } }),
      },
    })
    type Pod = KubeObject & { readonly spec?: { readonly nodeName?: string }; readonly status?: object }
    const informer = new SharedInformer<Pod>({
      transport: transportTo(app.url),
      path: PODS,
      indexes: { node: ({ spec }) => (spec?.nodeName === undefined ? [] : [spec.nodeName]) },
      transform: ({ status: _status, ...rest }) => rest,
    })
    t.teardown(() => informer.stop())
    informer.start()
    await informer.whenSynced()
    const names = (pods: readonly Pod[]): string[] =>
      pods.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).sort()
    t.same(names(informer.lister.list({ namespace: 'a' })), ['a/x', 'a/y'])
    t.same(names(informer.lister.list({ labels: { app: 'web' } })), ['a/x', 'ab/x'])
    t.same(names(informer.store.byIndex('node', 'n1')), ['a/x', 'ab/x'])
    t.equal(informer.lister.get('y', 'a')?.status, undefined)
    app.put('pods/a/y', pod('y', { namespace: 'a', spec: { nodeName: 'n1' } }))
    app.delete('pods/ab/x')
    await until(() => informer.store.size === 2, 'it follows')
    t.same(names(informer.store.byIndex('node', 'n1')), ['a/x', 'a/y'], 'the index follows')
    t.same(informer.store.indexValues('node'), ['n1'], 'and forgets a value that nobody has')
    t.throws(() => informer.store.byIndex('nodes', 'n1'), /there is no index "nodes"/)
  },
)

void t.test('an async iterator yields events until its signal aborts', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const informer = new SharedInformer<KubeObject>({ transport: transportTo(app.url), path: PODS })
  t.teardown(() => informer.stop())
  informer.start()
  const done = new AbortController()
  const seen: string[] = []
  for await (const event of informer.events({ signal: done.signal })) {
    seen.push(`${event.type} ${event.key}`)
    if (event.type === 'added' && event.key === 'default/a') app.put('pods/default/a', pod('a', { labels: { n: '1' } }))
    if (event.type === 'updated') app.delete('pods/default/a')
    if (event.type === 'deleted') done.abort()
  }
  t.same(seen, ['added default/a', 'updated default/a', 'deleted default/a'])
})

void t.test('an async iterator yields the events of a plain watch', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const seen: string[] = []
  for await (const item of watch({ transport: transportTo(app.url), path: PODS })) {
    seen.push(item.type)
    if (item.type === 'STATE') app.delete('pods/default/a')
    if (item.type === 'DELETED') break
  }
  t.same(seen, ['STATE', 'DELETED'])
  await until(() => app.watchers === 0, 'leaving the loop ends the request')
})

void t.test('an informer that was stopped does not start, nor does one of a stopped factory', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const faults = await startHttpFaults(t, app.port)
  const options = { transport: transportTo(faults.url), path: PODS, resyncMs: 1 }
  const factory = new SharedInformerFactory(options)
  const informers = [new SharedInformer<KubeObject>(options), factory.informer(PODS)]
  await informers[0]?.stop()
  await factory.stop()
  informers[0]?.start()
  factory.start()
  await informers[0]?.run(AbortSignal.timeout(50))
  t.same(
    informers.map(({ status }) => status.state),
    ['idle', 'idle'],
  )
  t.equal(faults.requests.length, 0)
})

void t.test('an informer that is stopped before it has synced reports that', async (t) => {
  const informer = new SharedInformer<KubeObject>({ transport: transportTo('http://127.0.0.1:1'), path: PODS })
  informer.start()
  const synced = informer.whenSynced()
  await informer.stop()
  await t.rejects(synced, /stopped before it had synced/)
})

void t.test('after a restore of etcd, an object that was written again at the same revision is replaced', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/kept': pod('kept') } })
  const faults = await startHttpFaults(t, app.port)
  const informer = new SharedInformer<KubeObject>({
    transport: transportTo(faults.url),
    path: PODS,
    backoff: { firstMs: 20, capMs: 200 },
  })
  t.teardown(() => informer.stop())
  const updated: string[] = []
  informer.addHandler({ updated: ({ metadata }) => void updated.push(metadata.name) })
  informer.start()
  await informer.whenSynced()
  const backup = app.upstream.snapshot()
  const { clusterId } = await app.upstream.status()
  const held = (): string | undefined => informer.lister.get('a', 'default')?.metadata.labels?.['of']
  const lost = app.put('pods/default/a', pod('a', { labels: { of: 'lost' } }))
  await until(() => held() === 'lost', 'the client has what will be lost')

  // The server ends the watch with 410, and the client cannot list yet.
  faults.fault = () => ({ status: 503 })
  const before = faults.requests.length
  app.upstream.restore(backup, { clusterId })
  await until(() => faults.requests.length > before, 'the client comes back')
  const again = app.put('pods/default/a', pod('a', { labels: { of: 'new' } }))
  t.equal(again, lost, 'the revision is repeated')
  await until(async () => (await (await fetch(app.url + PODS)).text()).includes('"new"'), 'the server has it')
  faults.fault = () => null
  await until(() => held() === 'new', 'and the client')
  t.same(updated, ['a'], 'objects that are the same are not reported')
})
