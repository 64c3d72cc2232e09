import { readFileSync } from 'node:fs'
import t from 'tap'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import {
  compareVersions,
  Discovery,
  type Document,
  KUBERNETES_RELEASE,
} from '../../../src/kubernetes/dialect/discovery.js'
import { ResourceRegistry, servedResource } from '../../../src/kubernetes/dialect/resource-registry.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import type { ApiResource } from '../../../src/kubernetes/model/api-resource.js'

const SCHEMA_MODULES = '../../../../test/kubernetes/codec/protobuf/kubernetes-types/go.mod'

function custom(group: string, version: string, plural = 'caches'): ReturnType<typeof servedResource> {
  const resource: ApiResource = {
    group,
    version,
    plural,
    singular: 'cache',
    kind: 'Cache',
    listKind: 'CacheList',
    shortNames: ['ca'],
    categories: ['edge'],
    namespaced: true,
    etcdPrefix: keyFromText(`/registry/${group}/${plural}/`),
    holds: 'kubernetes',
  }
  return servedResource(resource, 'custom')
}

function start(options: ConstructorParameters<typeof Discovery>[1] = {}): {
  registry: ResourceRegistry
  discovery: Discovery
} {
  const registry = new ResourceRegistry()
  registry.set('start', resolveResources({ names: ['flags=/flags/'] }).resources)
  return { registry, discovery: new Discovery(registry, options) }
}

const json = (document: Document | null): unknown => JSON.parse(document?.body.toString() ?? 'null')

void t.test('discovery contains a hash of the version in which a kind is stored, if known', async (t) => {
  const { registry, discovery } = start()
  const older = custom('edge.example.com', 'v1beta1').resource
  const versions = [older, { ...older, version: 'v1' }]
  registry.set(
    'definition',
    versions.map((resource) => servedResource(resource, 'custom', { storageVersion: 'v1' })),
  )
  const hashIn = (group: string, version: string, plural: string): string | undefined => {
    const { resources } = json(discovery.apiResources(group, version)) as {
      resources: { name: string; storageVersionHash?: string }[]
    }
    return resources.find(({ name }) => name === plural)?.storageVersionHash
  }
  // Every API server answers the same for these.
  t.equal(hashIn('', 'v1', 'pods'), 'xPOwRZ+Yhw8=')
  t.equal(hashIn('apps', 'v1', 'deployments'), '8aSe+NMegvE=')
  t.equal(hashIn('events.k8s.io', 'v1', 'events'), 'r2yiGXH7wu8=')
  t.equal(hashIn('apiextensions.k8s.io', 'v1', 'customresourcedefinitions'), 'jfWCUB31mvA=')
  registry.set(
    'two versions',
    ['v1', 'v2'].map((version) => servedResource(custom('two.example.com', version).resource, 'well-known')),
  )
  t.equal(hashIn('two.example.com', 'v1', 'caches'), undefined, 'either may be the stored one')
  t.equal(hashIn('edge.example.com', 'v1beta1', 'caches'), hashIn('edge.example.com', 'v1', 'caches'))
  const withdrawn = servedResource(custom('gone.example.com', 'v2').resource, 'custom', { storageVersion: null })
  registry.set('withdrawn', [withdrawn])
  t.equal(hashIn('gone.example.com', 'v2', 'caches'), undefined, 'the stored version is not served')
  t.match(hashIn('edge.example.com', 'v1', 'caches'), /^[\w+/]{11}=$/)
})

void t.test('the old documents list every group and resource', async (t) => {
  const { discovery } = start()
  t.match(json(discovery.apiVersions()), { kind: 'APIVersions', versions: ['v1'] })
  const groups = json(discovery.apiGroups()) as { groups: { name: string; preferredVersion: object }[] }
  t.match(groups, { kind: 'APIGroupList', apiVersion: 'v1' })
  t.notOk(groups.groups.some(({ name }) => name === ''))
  t.same(
    groups.groups.find(({ name }) => name === 'autoscaling'),
    {
      name: 'autoscaling',
      versions: [
        { groupVersion: 'autoscaling/v2', version: 'v2' },
        { groupVersion: 'autoscaling/v1', version: 'v1' },
      ],
      preferredVersion: { groupVersion: 'autoscaling/v2', version: 'v2' },
    },
  )
  t.match(json(discovery.apiGroup('apps')), { kind: 'APIGroup', name: 'apps', preferredVersion: { version: 'v1' } })
  const core = json(discovery.apiResources('', 'v1')) as { resources: { name: string }[] }
  t.match(core, { kind: 'APIResourceList', groupVersion: 'v1' })
  t.same(
    core.resources.find(({ name }) => name === 'pods'),
    {
      name: 'pods',
      singularName: 'pod',
      namespaced: true,
      kind: 'Pod',
      verbs: ['get', 'list', 'watch'],
      shortNames: ['po'],
      categories: ['all'],
      storageVersionHash: 'xPOwRZ+Yhw8=',
    },
  )
  t.match(json(discovery.apiResources('distributary.io', 'v1')), {
    apiVersion: 'v1',
    groupVersion: 'distributary.io/v1',
    resources: [{ name: 'flags', singularName: 'flag', kind: 'Flag', namespaced: false }],
  })
})

void t.test('groups have the API server’s order, reviews included', async (t) => {
  const review = { plural: 'selfsubjectreviews', kind: 'SelfSubjectReview', namespaced: false }
  const { registry, discovery } = start({ reviews: [{ group: 'authentication.k8s.io', ...review }] })
  const versions = [custom('b.example', 'v2'), custom('b.example', 'v1'), custom('a.example', 'v1beta1')]
  registry.set('crd', versions)
  const { groups } = json(discovery.apiGroups()) as { groups: { name: string }[] }
  const names = groups.map(({ name }) => name)
  t.same(names.slice(0, 5), ['apiregistration.k8s.io', 'apps', 'events.k8s.io', 'authentication.k8s.io', 'autoscaling'])
  t.same(names.slice(-3), ['distributary.io', 'b.example', 'a.example'], 'v1.b.example comes first')
  const { items } = json(discovery.aggregated('apis')) as { items: { metadata: { name: string } }[] }
  t.same(
    items.slice(-3).map(({ metadata }) => metadata.name),
    ['distributary.io', 'a.example', 'b.example'],
  )
})

void t.test('resources that are not served are absent', async (t) => {
  const { discovery } = start()
  t.equal(discovery.apiGroup('nope'), null)
  t.equal(discovery.apiGroup(''), null)
  t.equal(discovery.apiResources('', 'v2'), null)
  t.equal(discovery.apiResources('apps', 'v1beta1'), null)
  t.notMatch(discovery.apiResources('', 'v1')?.body.toString(), /secrets/)
})

void t.test('the aggregated documents match', async (t) => {
  const { discovery } = start({ writable: true })
  const core = json(discovery.aggregated('api')) as { items: { versions: { resources: { resource: string }[] }[] }[] }
  t.match(core, { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2' })
  t.equal(core.items.length, 1)
  t.same(
    core.items[0]?.versions[0]?.resources.find(({ resource }) => resource === 'nodes'),
    {
      resource: 'nodes',
      responseKind: { group: '', version: '', kind: 'Node' },
      scope: 'Cluster',
      singularResource: 'node',
      verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
      shortNames: ['no'],
      subresources: [
        {
          subresource: 'status',
          responseKind: { group: '', version: '', kind: 'Node' },
          verbs: ['get', 'patch', 'update'],
        },
      ],
    },
  )
  t.same((core.items[0] as unknown as { metadata: object }).metadata, {}, 'the core group has no name')
  const others = json(discovery.aggregated('apis')) as { items: { metadata: { name?: string }; versions: object[] }[] }
  t.same(others.items[0]?.metadata, { name: 'apiregistration.k8s.io' })
  t.ok(others.items.every(({ metadata }) => metadata.name))
  t.match(others.items.at(-1), {
    metadata: { name: 'distributary.io' },
    versions: [
      {
        version: 'v1',
        freshness: 'Current',
        resources: [{ responseKind: { group: 'distributary.io', version: 'v1' } }],
      },
    ],
  })
})

void t.test('a document is the same bytes until the registry changes', async (t) => {
  const { registry, discovery } = start()
  const before = discovery.aggregated('apis')
  t.equal(discovery.aggregated('apis'), before)
  registry.set('crd', [custom('edge.example.com', 'v1')])
  const after = discovery.aggregated('apis')
  t.not(after.etag, before.etag)
  t.match(json(discovery.apiResources('edge.example.com', 'v1')), {
    resources: [{ name: 'caches', shortNames: ['ca'] }],
  })
  registry.remove('crd')
  t.equal(discovery.aggregated('apis').etag, before.etag, 'and the same again, once it is as it was')
  t.equal(discovery.apiGroup('edge.example.com'), null)
})

void t.test('two replicas that learnt of the same definitions in a different order serve the same', async (t) => {
  const crds = [
    custom('b.example', 'v1'),
    custom('a.example', 'v1beta1', 'zebras'),
    custom('a.example', 'v1', 'zebras'),
  ]
  const one = start()
  for (const [index, crd] of crds.entries()) one.registry.set(`crd ${index}`, [crd])
  const other = start()
  for (const [index, crd] of crds.toReversed().entries()) other.registry.set(`crd ${index}`, [crd])
  t.equal(one.discovery.aggregated('apis').etag, other.discovery.aggregated('apis').etag)
  t.equal(one.discovery.apiGroups().etag, other.discovery.apiGroups().etag)
  t.match(json(one.discovery.apiGroup('a.example')), { preferredVersion: { version: 'v1' } })
})

void t.test('versions are ordered by Kubernetes’ preference', async (t) => {
  const inOrder = ['v10', 'v2', 'v1', 'v11beta2', 'v10beta3', 'v3beta1', 'v12alpha1', 'v11alpha2', 'foo1', 'foo10']
  t.same(inOrder.toReversed().sort(compareVersions), inOrder)
})

void t.test('/version satisfies kubectl, and names this server', async (t) => {
  t.match(json(start({ productVersion: '0.1.0' }).discovery.version()), {
    major: '1',
    minor: '37',
    emulationMinor: '37',
    minCompatibilityMinor: '36',
    gitVersion: 'v1.37.2+distributary.0.1.0',
  })
  const modules = readFileSync(new URL(SCHEMA_MODULES, import.meta.url), 'utf8')
  t.match(modules, `k8s.io/api v0.${KUBERNETES_RELEASE.slice(2)}\n`, 'the schema is generated from this release')
})
