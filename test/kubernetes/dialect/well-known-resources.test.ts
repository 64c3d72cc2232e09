import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  findWellKnown,
  previewsOf,
  qualifiedName,
  wellKnownResources,
} from '../../../src/kubernetes/dialect/well-known-resources.js'
import { type Key, keyFromText, keyToText } from '../../../src/engine/model/event.js'
import { keyOfName, nameOfKey } from '../../../src/kubernetes/model/api-resource.js'

const table = wellKnownResources()

void t.test('every key that a real API server wrote belongs to the resource and name it answered for it', async (t) => {
  const file = new URL('../../../../test/data/kube-apiserver-1.20/paths.json', import.meta.url)
  const paths = Object.entries(JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>)
  t.ok(paths.length > 30, 'the data is there')
  for (const [key, path] of paths) {
    const match = /^\/(?:api|apis\/([^/]+))\/([^/]+)\/(?:namespaces\/([^/]+)\/(?=.+\/))?([^/]+)\/([^/]+)$/.exec(path)
    if (match === null) throw new Error(path)
    const [, group = '', version, namespace = '', plural, name] = match
    const entry = table.find(({ resource: r }) => r.group === group && r.version === version && r.plural === plural)
    if (group === 'edge.example.com') {
      t.equal(entry, undefined, 'custom resources are not in the table')
      continue
    }
    if (entry === undefined) {
      t.fail(`${path} is not in the table`)
      continue
    }
    t.equal(keyOfName(entry.resource, { namespace, name: name ?? '' }), key, path)
    t.same(nameOfKey(entry.resource, keyFromText(key)), { namespace, name }, key)
  }
})

void t.test('resources with historic prefixes are found there', async (t) => {
  const places: readonly (readonly [string, string])[] = [
    ['nodes', '/registry/minions/'],
    ['services', '/registry/services/specs/'],
    ['endpoints', '/registry/services/endpoints/'],
    ['ingresses', '/registry/ingress/'],
    ['replicationcontrollers', '/registry/controllers/'],
    ['customresourcedefinitions', '/registry/apiextensions.k8s.io/customresourcedefinitions/'],
    ['apiservices', '/registry/apiregistration.k8s.io/apiservices/'],
    ['events.events.k8s.io', '/registry/events/'],
    ['horizontalpodautoscalers', '/registry/horizontalpodautoscalers/'],
    ['endpointslices', '/registry/endpointslices/'],
  ]
  for (const [name, prefix] of places) {
    t.equal(keyToText(findWellKnown(table, name)?.resource.etcdPrefix ?? ('' as Key)), prefix, name)
  }
})

void t.test('names, kinds and paths are unique where they must be', async (t) => {
  const unique = (label: string, values: readonly string[]): void => {
    t.equal(new Set(values).size, values.length, label)
  }
  const rows = table.map(({ resource }) => resource)
  unique(
    'path',
    rows.map((r) => `${r.group}/${r.version}/${r.plural}`),
  )
  unique(
    'kind',
    rows.map((r) => `${r.group}/${r.version}/${r.kind}`),
  )
  const everyVersion = table.filter((row) => row.served === 'default').map(({ resource }) => resource)
  const served = everyVersion.filter((r, i) => everyVersion.findIndex((o) => o.etcdPrefix === r.etcdPrefix) === i)
  t.same(
    everyVersion
      .filter((r) => !served.includes(r))
      .map(({ group, version, plural }) => `${group}/${version} ${plural}`),
    ['events.k8s.io/v1 events', 'autoscaling/v1 horizontalpodautoscalers'],
    'only these share the keys of another',
  )
  unique(
    'short names',
    served.flatMap((r) => r.shortNames),
  )
  const overlaps = served.flatMap((a) =>
    served
      .filter((b) => a !== b && a.etcdPrefix.startsWith(b.etcdPrefix))
      .map((b) => `${a.plural} lies in ${b.plural}`),
  )
  t.same(overlaps, [])
  t.same(
    served.filter((a) => !a.etcdPrefix.endsWith('/')),
    [],
  )
})

void t.test('a row is found by its plural, its group, or its version', async (t) => {
  const version = (name: string): string | undefined => findWellKnown(table, name)?.resource.version
  t.equal(findWellKnown(table, 'events')?.resource.group, '', 'the core one, as in kubectl')
  t.equal(findWellKnown(table, 'events.events.k8s.io')?.resource.group, 'events.k8s.io')
  t.equal(version('horizontalpodautoscalers'), 'v2')
  t.equal(version('horizontalpodautoscalers.v1.autoscaling'), 'v1')
  t.equal(version('cronjobs.v1beta1.batch'), 'v1beta1')
  t.equal(version('pods.v1.'), 'v1')
  t.equal(findWellKnown(table, 'flags'), undefined)
  t.equal(findWellKnown(table, ''), undefined)
})

void t.test('the etcd prefix is interpreted as in the API server', async (t) => {
  for (const [given, expected] of [
    ['/registry', '/registry/pods/'],
    ['registry/', '/registry/pods/'],
    ['/kubernetes.io//prod', '/kubernetes.io/prod/pods/'],
    ['', '/pods/'],
    ['/', '/pods/'],
  ] as const) {
    t.equal(findWellKnown(wellKnownResources(given), 'pods')?.resource.etcdPrefix, expected, given)
  }
})

void t.test('alpha and beta versions are enabled one by one or together, and nothing else with them', async (t) => {
  const named = (name: string): string[] => previewsOf(table, name).map(({ resource }) => qualifiedName(resource))
  t.same(named('resource.k8s.io/v1alpha3'), [
    'devicetaintrules.v1alpha3.resource.k8s.io',
    'resourcepoolstatusrequests.v1alpha3.resource.k8s.io',
  ])
  const [all, beta, alpha] = ['api/all', 'api/beta', 'api/alpha'].map(named)
  t.same([...beta!, ...alpha!].sort(), all!.toSorted())
  t.ok(beta!.includes('leasecandidates.v1beta1.coordination.k8s.io'))
  t.notOk(
    all!.some((name) => /^secrets|\.v1\.|^cronjobs/.test(name)),
    'neither stable ones nor those that are gone',
  )
  for (const name of ['resource.k8s.io/v1', 'api/ga', 'api', 'pods', 'batch/v1beta1', '']) t.same(named(name), [], name)
})

void t.test('only Secrets must be named, and only other versions must be requested', async (t) => {
  t.same(
    table.filter(({ served }) => served === 'by-name').map(({ resource }) => resource.plural),
    ['secrets'],
  )
  for (const row of table.filter(({ served }) => served === 'other-version')) {
    const twin = table.find((other) => other !== row && other.resource.etcdPrefix === row.resource.etcdPrefix)
    t.ok(twin, `${row.resource.plural}.${row.resource.version} shares its keys with a default row`)
  }
})
