import t from 'tap'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import {
  fingerprintOf,
  type RegistryChange,
  ResourceRegistry,
  servedResource,
} from '../../../src/kubernetes/dialect/resource-registry.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { resourceId, type ApiResource } from '../../../src/kubernetes/model/api-resource.js'

const cache = (version: string, overrides: Partial<ApiResource> = {}): ApiResource => ({
  group: 'edge.example.com',
  version,
  plural: 'caches',
  singular: 'cache',
  kind: 'Cache',
  listKind: 'CacheList',
  shortNames: [],
  categories: [],
  namespaced: true,
  etcdPrefix: keyFromText('/registry/edge.example.com/caches/'),
  holds: 'kubernetes',
  ...overrides,
})

function start(): { registry: ResourceRegistry; changes: RegistryChange[] } {
  const registry = new ResourceRegistry()
  registry.set('start', resolveResources({}).resources)
  const changes: RegistryChange[] = []
  registry.onChange((change) => changes.push(change))
  return { registry, changes }
}

void t.test('an owner’s entries appear, change and disappear together, and each change is reported once', async (t) => {
  const { registry, changes } = start()
  const before = registry.generation
  t.same(registry.set('crd/caches', [servedResource(cache('v1'), 'custom'), servedResource(cache('v2'), 'custom')]), [])
  t.equal(changes.length, 1)
  t.equal(changes[0]?.added.length, 2)
  t.equal(registry.generation, before + 1)
  t.equal(registry.find('edge.example.com', 'v2', 'caches')?.resource.kind, 'Cache')
  t.equal(registry.list().at(-1)?.resource.version, 'v2')

  const v1 = registry.find('edge.example.com', 'v1', 'caches')
  registry.set('crd/caches', [servedResource(cache('v1'), 'custom')])
  t.equal(changes.length, 2)
  t.same(
    changes[1]?.removed.map(({ resource }) => resource.version),
    ['v2'],
  )
  t.same(changes[1]?.added, [])
  t.equal(registry.find('edge.example.com', 'v1', 'caches'), v1, 'what did not change is the same object')
  t.equal(registry.find('edge.example.com', 'v2', 'caches'), undefined)

  registry.set('crd/caches', [servedResource(cache('v1'), 'custom')])
  t.equal(changes.length, 2, 'rewriting an equal definition notifies nobody')

  registry.set('crd/caches', [servedResource(cache('v1', { shortNames: ['ca'] }), 'custom')])
  t.equal(changes[2]?.removed[0], v1)
  t.same(changes[2]?.added[0]?.resource.shortNames, ['ca'])

  registry.remove('crd/caches')
  t.equal(registry.hasGroup('edge.example.com'), false)
  registry.remove('crd/caches')
  t.equal(changes.length, 4, 'removing an absent definition notifies nobody')
})

void t.test('no owner can take the path of another', async (t) => {
  const { registry, changes } = start()
  const pods = registry.find('', 'v1', 'pods')
  const imposter = servedResource(cache('v1', { group: '', plural: 'pods', kind: 'Pod' }), 'custom')
  const fine = servedResource(cache('v1'), 'custom')
  t.same(registry.set('crd/pods', [imposter, fine, fine]), [imposter, fine], 'refused, and so is naming one twice')
  t.equal(registry.find('', 'v1', 'pods'), pods)
  t.equal(changes[0]?.added.length, 1)
})

void t.test('groups and versions are known, and a listener can be removed', async (t) => {
  const { registry } = start()
  t.ok(registry.hasGroup(''))
  t.ok(registry.hasGroup('apps', 'v1'))
  t.notOk(registry.hasGroup('apps', 'v9'))
  t.notOk(registry.hasGroup('nope'))
  t.equal(registry.find('apps', 'v1', 'pods'), undefined)
  t.equal(registry.find('', 'v1', 'toString'), undefined)
  t.equal(registry.list().filter(({ resource }) => resourceId(resource) === 'pods').length, 1)
  let told = 0
  const stop = registry.onChange(() => told++)
  stop()
  registry.set('x', [servedResource(cache('v1'), 'custom')])
  t.equal(told, 0)
})

void t.test('what an upstream has left out changes every entry, and each change is reported once', async (t) => {
  const { registry, changes } = start()
  registry.set('crd/caches', [servedResource(cache('v1'), 'custom')])
  const stripped = (): unknown => registry.find('edge.example.com', 'v1', 'caches')?.resource.stripped
  const count = registry.list().length
  const before = fingerprintOf(registry.find('', 'v1', 'pods')!)
  registry.upstreamStrips = [{ resource: '*', paths: ['metadata.managedFields'] }]
  t.same(stripped(), ['metadata.managedFields'])
  t.equal(registry.list().length, count)
  t.not(fingerprintOf(registry.find('', 'v1', 'pods')!), before, 'positions and ETags are those of another form')
  const reported = changes.length
  registry.upstreamStrips = [{ resource: '*', paths: ['metadata.managedFields'] }]
  t.equal(changes.length, reported, 'the same rules again change nothing')
  const replaced = changes.slice(1).flatMap(({ added, removed }) => [added.length, removed.length])
  t.equal(
    replaced.reduce((sum, one) => sum + one, 0),
    2 * count,
  )
  registry.upstreamStrips = []
  t.equal(stripped(), undefined)
  t.equal(fingerprintOf(registry.find('', 'v1', 'pods')!), before)
})
