import t from 'tap'
import { fetchTransport, type KubeObject, SharedInformerFactory } from '../../src/client/index.js'
import { startHttpFaults } from './reflector/http-faults.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const PODS = { plural: 'pods' }

void t.test('the parts of a program share one informer of a resource', async (t) => {
  const app = await startApp(t, { objects: { 'pods/shop/a': pod('a', { namespace: 'shop' }) } })
  const faults = await startHttpFaults(t, app.port)
  const factory = new SharedInformerFactory({ transport: fetchTransport({ server: faults.url }) })
  t.teardown(() => factory.stop())
  const pods = factory.informer(PODS)
  const byName = ({ metadata }: KubeObject): string[] => [metadata.name]
  t.equal(factory.informer('/api/v1/pods', { indexes: { name: byName } }), pods)
  t.equal(factory.informer(PODS, { indexes: { name: byName } }), pods)
  t.throws(
    () => factory.informer(PODS, { indexes: { name: () => [] } }),
    /index name is already defined by another function/,
  )
  t.throws(
    () => factory.informer(PODS, { transform: (object) => object }),
    /transform differs from what the first caller/,
  )
  const labelled = factory.informer(PODS, { labelSelector: 'app=web' })
  t.not(labelled, pods)
  const configMaps = factory.informer({ plural: 'configmaps', namespace: 'shop' })
  factory.start()
  await factory.whenSynced(AbortSignal.timeout(20_000))
  t.same([pods.store.size, labelled.store.size, configMaps.store.size], [1, 0, 0])
  t.equal(pods.store.byIndex('name', 'a').length, 1)
  t.equal(faults.requests.length, 3, 'one request for each informer')

  const late = factory.informer({ plural: 'services' })
  factory.start()
  await factory.whenSynced(AbortSignal.timeout(20_000))
  t.ok(late.hasSynced)
  t.equal(faults.requests.length, 4, 'those that run are not started again')

  await factory.stop()
  await until(() => app.watchers === 0, 'its watches have ended')
  t.throws(() => factory.informer(PODS), /was stopped/)
})

void t.test('parts that share an informer have the same options, from the factory or from the parts', (t) => {
  const transport = fetchTransport({ server: 'http://127.0.0.1:1' })
  const factory = new SharedInformerFactory({ transport, pageSize: 100 })
  const pods = factory.informer(PODS)
  t.equal(factory.informer(PODS, { pageSize: 100, labelSelector: '' }), pods, 'what holds anyway may be said')
  const transform = (object: KubeObject): KubeObject => object
  const nodes = factory.informer({ plural: 'nodes' }, { transform, labelSelector: 'a=b' })
  t.equal(factory.informer({ plural: 'nodes' }, { transform, labelSelector: 'a=b' }), nodes)
  t.throws(
    () => factory.informer({ plural: 'nodes' }, { labelSelector: 'a=b' }),
    /transform differs from what the first caller/,
    'without a transform, a caller expects whole objects',
  )
  t.end()
})

void t.test('a factory runs until its signal aborts, and may stop before it has synced', async (t) => {
  const factory = new SharedInformerFactory({ transport: fetchTransport({ server: 'http://127.0.0.1:1' }) })
  factory.informer(PODS)
  const stop = new AbortController()
  const running = factory.run(stop.signal)
  const synced = factory.whenSynced()
  await t.rejects(factory.whenSynced(AbortSignal.timeout(5)), { name: 'TimeoutError' })
  stop.abort()
  await running
  await t.rejects(synced, /stopped before it had synced/)
})
