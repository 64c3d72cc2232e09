/**
 * The client accepts the object types of other packages: it is compiled with them here, and reads their members at run
 * time.
 */
import type { V1Pod } from '@kubernetes/client-node'
import type { Deployment } from 'kubernetes-types/apps/v1.js'
import type { Pod } from 'kubernetes-types/core/v1.js'
import t from 'tap'
import {
  fetchTransport,
  type InformerOptions,
  SharedInformer,
  type WatchItem,
  watch,
} from '../../../src/client/index.js'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'

const on = (node: string): object => ({ spec: { nodeName: node, containers: [] } })

void t.test('an informer for another package’s type returns objects of that type', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a', on('n1')) } })
  const options = { transport: fetchTransport({ server: app.url }), path: '/api/v1/pods' }
  const indexes = { node: ({ spec }: Pod | V1Pod): string[] => [spec?.nodeName ?? ''] }
  const ofTypes = new SharedInformer<Pod>({
    ...options,
    indexes,
    transform: ({ metadata, spec }) => ({ metadata: metadata!, spec: spec! }),
  })
  const ofClientNode = new SharedInformer<V1Pod>({ ...options, indexes })
  for (const informer of [ofTypes, ofClientNode]) {
    t.teardown(() => informer.stop())
    informer.start()
    await informer.whenSynced()
  }
  const first: Pod | undefined = ofTypes.lister.get('a', 'default')
  const second: V1Pod | undefined = ofClientNode.lister.get('a', 'default')
  t.equal(first?.spec?.nodeName, 'n1')
  t.equal(second?.metadata?.name, 'a')
  t.equal(ofTypes.store.byIndex('node', 'n1').length, 1)
  t.equal(ofClientNode.store.byIndex('node', 'n1').length, 1)
  // Without a type parameter, the members that every stored object has need no question mark.
  const plain = new SharedInformer(options)
  t.same(
    plain.lister.list().map(({ metadata }) => metadata.name),
    [],
  )
})

void t.test('a watch for another package’s type yields items of that type', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const options: InformerOptions<Deployment> = {
    transport: fetchTransport({ server: app.url }),
    path: '/apis/apps/v1/deployments',
  }
  t.ok(new SharedInformer<Deployment>(options).lister)
  const stop = new AbortController()
  for await (const item of watch<V1Pod>({ ...options, path: '/api/v1/pods', signal: stop.signal })) {
    const one: WatchItem<V1Pod> = item
    t.equal(one.type === 'STATE' ? one.items[0]?.metadata?.name : '', 'a')
    stop.abort()
  }
})
