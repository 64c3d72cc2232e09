import { readFileSync } from 'node:fs'
import t from 'tap'
import { type DefinitionReading, ownerOfDefinition, readDefinition } from '../../../src/kubernetes/dialect/crd.js'
import { ResourceRegistry } from '../../../src/kubernetes/dialect/resource-registry.js'
import { fromShared, toShared } from '../../../src/kubernetes/dialect/shared-resource.js'
import { tableRow } from '../../../src/kubernetes/dialect/table/table-rows.js'

const names = { plural: 'caches', singular: 'cache', kind: 'Cache', listKind: 'CacheList' }
const established = {
  conditions: [
    { type: 'NamesAccepted', status: 'True' },
    { type: 'Established', status: 'True' },
  ],
}
const version = (name: string, storage = false, served = true): Record<string, unknown> => ({ name, storage, served })

function define(spec: object, status: object = established): DefinitionReading {
  const base = { group: 'edge.example.com', names, scope: 'Namespaced', versions: [version('v1', true)] }
  return readDefinition({ spec: { ...base, ...spec }, status }, '/registry')
}

function defined(reading: DefinitionReading): Extract<DefinitionReading, { kind: 'defined' }> {
  if (reading.kind !== 'defined') throw new Error(reading.reason)
  return reading
}

const data = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../../test/data/kube-apiserver-1.20/${name}`, import.meta.url), 'utf8'))

void t.test('a definition stored by an API server (as v1beta1) is read as the one it answered', async (t) => {
  const { resources, storageVersion } = defined(readDefinition(data('stored-crd.json'), '/registry/'))
  t.equal(storageVersion, 'v1')
  t.equal(resources.length, 1)
  t.same(resources[0]?.resource, {
    group: 'edge.example.com',
    version: 'v1',
    plural: 'caches',
    singular: 'cache',
    kind: 'Cache',
    listKind: 'CacheList',
    shortNames: ['ca'],
    categories: ['all'],
    namespaced: true,
    etcdPrefix: '/registry/edge.example.com/caches/',
    holds: 'kubernetes',
  })
  t.match(resources[0]?.schema?.parsed, { type: 'object' })

  const tables = data('tables.json') as {
    path: string
    rows: unknown[][]
    objects: { metadata: { creationTimestamp: string } }[]
  }[]
  const real = tables.find(({ path }) => path === '/apis/edge.example.com/v1/caches')
  const object = real?.objects[0]
  const now = Date.parse(object?.metadata.creationTimestamp ?? '') + 45_000
  if (resources[0]) t.same(tableRow(resources[0], object, now).cells, real?.rows[0], 'and its table too')
})

void t.test('every served version is a separate resource over the same keys', async (t) => {
  const { resources, storageVersion } = defined(
    define({ versions: [version('v1beta1'), version('v1', true), version('v1alpha1', false, false)] }),
  )
  t.same(
    resources.map(({ resource }) => resource.version),
    ['v1beta1', 'v1'],
  )
  t.equal(new Set(resources.map(({ resource }) => resource.etcdPrefix)).size, 1)
  t.equal(storageVersion, 'v1')
})

void t.test('the members of a version take precedence over those for all versions', async (t) => {
  const { resources } = defined(
    define({
      additionalPrinterColumns: [{ name: 'Old', type: 'string', JSONPath: '.spec.old' }],
      validation: { openAPIV3Schema: { type: 'object', description: 'common' } },
      versions: [
        {
          ...version('v2', true),
          additionalPrinterColumns: [{ name: 'New', type: 'integer', jsonPath: '.spec.new', priority: 1 }],
          schema: { openAPIV3Schema: { type: 'object', description: 'own' } },
          selectableFields: [{ jsonPath: '.spec.color' }],
        },
        version('v1'),
      ],
    }),
  )
  t.match(resources[0], {
    printerColumns: [{ name: 'New', type: 'integer', jsonPath: '.spec.new', priority: 1, format: '', description: '' }],
    schema: { parsed: { description: 'own' } },
    selectableFields: ['.spec.color'],
  })
  t.match(resources[1], {
    printerColumns: [{ name: 'Old', jsonPath: '.spec.old' }],
    schema: { parsed: { description: 'common' } },
    selectableFields: [],
  })
})

void t.test('v1beta1 may name its only version as a plain string', async (t) => {
  const { resources } = defined(define({ versions: undefined, version: 'v1alpha1', scope: 'Cluster' }))
  t.match(resources, [{ resource: { version: 'v1alpha1', namespaced: false } }])
})

void t.test('every version is served, even if a webhook converts between them', async (t) => {
  const { resources, conversion } = defined(
    define({ conversion: { strategy: 'Webhook' }, versions: [version('v1'), version('v2', true)] }),
  )
  t.equal(conversion, 'Webhook')
  t.same(
    resources.map(({ resource, convertsByWebhook }) => [resource.version, convertsByWebhook]),
    [
      ['v1', true],
      ['v2', true],
    ],
  )
  const onlyOld = define({ conversion: { strategy: 'Webhook' }, versions: [version('v1'), version('v2', true, false)] })
  t.match(defined(onlyOld).resources, [{ resource: { version: 'v1' }, storageVersion: null }])
})

void t.test('names have defaults', async (t) => {
  const { resources } = defined(define({ names: { plural: 'caches', kind: 'Cache' } }))
  t.match(resources[0]?.resource, { singular: 'cache', listKind: 'CacheList', shortNames: [], categories: [] })
})

void t.test('names that another definition has are not served', async (t) => {
  const taken = { ...names, listKind: 'ThingList', shortNames: ['ca', 'th'], categories: ['all'] }
  const acceptedNames = { ...names, shortNames: ['ca'] }
  const conditions = [
    { type: 'NamesAccepted', status: 'False' },
    { type: 'Established', status: 'True' },
  ]
  const { resources } = defined(define({ names: taken }, { conditions, acceptedNames }))
  t.match(resources[0]?.resource, { listKind: 'CacheList', shortNames: ['ca'], categories: [] })
  const unread = defined(define({ names: taken }, { conditions, acceptedNames: { plural: '', kind: '' } }))
  t.match(unread.resources[0]?.resource, { listKind: 'ThingList' }, 'none were accepted yet')
})

void t.test('a definition is served once it is established; without conditions it counts as established', async (t) => {
  t.equal(define({}, {}).kind, 'defined')
  t.match(define({}, { conditions: [{ type: 'NamesAccepted', status: 'True' }] }), { reason: 'it is not established' })
  t.match(define({}, { conditions: [{ type: 'NamesAccepted', status: 'False', message: 'taken' }] }), {
    reason: 'its names are not accepted: taken',
  })
})

void t.test('an object that is not a definition is rejected with its reason, and nothing is thrown', async (t) => {
  const bad: readonly (readonly [object, RegExp])[] = [
    [{ group: '' }, /spec.group ""/],
    [{ group: 'nodots' }, /spec.group/],
    [{ group: 'a.b/c' }, /spec.group/],
    [{ names: { ...names, plural: 'a/b' } }, /plural/],
    [{ names: { ...names, plural: '' } }, /plural/],
    [{ names: { plural: 'caches' } }, /kind/],
    [{ versions: [] }, /no version/],
    [{ versions: [version('v1')] }, /no version/],
    [{ versions: [version('../v1', true)] }, /no version/],
  ]
  for (const [spec, reason] of bad) t.match(define(spec), { kind: 'not-served', reason }, JSON.stringify(spec))
  for (const odd of [null, 1, 'x', [], {}, { spec: null }, { spec: { names: [] } }]) {
    t.equal(readDefinition(odd, '/registry').kind, 'not-served', JSON.stringify(odd))
  }
  const odd = defined(
    define({ versions: [{ ...version('v1', true), additionalPrinterColumns: [null, 1, {}], schema: [] }] }),
  )
  t.equal(odd.resources[0]?.schema, undefined)
  if (odd.resources[0]) t.same(tableRow(odd.resources[0], { metadata: { name: 'a' } }, 0).cells.length, 4)
})

void t.test('a definition appears, changes and disappears as a unit', async (t) => {
  const registry = new ResourceRegistry()
  const owner = ownerOfDefinition('caches.edge.example.com')
  registry.set(owner, defined(define({ versions: [version('v1', true), version('v2')] })).resources)
  t.ok(registry.find('edge.example.com', 'v2', 'caches'))
  registry.set(owner, defined(define({})).resources)
  t.notOk(registry.find('edge.example.com', 'v2', 'caches'))
  registry.remove(owner)
  t.equal(registry.hasGroup('edge.example.com'), false)
})

void t.test('the versions of a definition share its content, whose fingerprint changes only with it', async (t) => {
  const schema = { openAPIV3Schema: { type: 'object' } }
  const read = (spec: object, more: object = {}): DefinitionReading =>
    readDefinition(
      { spec: { group: 'edge.example.com', names, versions: [{ ...version('v1', true), schema }], ...spec }, ...more },
      '/registry',
    )
  const definitionOf = (reading: DefinitionReading): unknown => defined(reading).resources[0]?.definition
  const first = read({
    versions: [{ ...version('v1', true), schema }, version('v2'), { ...version('v0'), served: false, schema }],
  })
  const [v1, v2] = defined(first).resources
  t.equal(v1?.definition, v2?.definition)
  t.match(v1?.definition, {
    schemas: { v1: { parsed: { type: 'object' } }, v2: undefined, v0: { parsed: { type: 'object' } } },
  })

  const fingerprint = (reading: DefinitionReading): unknown =>
    (definitionOf(reading) as { fingerprint: string }).fingerprint
  t.equal(fingerprint(read({})), fingerprint(read({}, { metadata: { labels: { a: 'b' } } })))
  t.equal(fingerprint(read({})), fingerprint(read({}, { status: { conditions: [] } })))
  t.not(fingerprint(read({})), fingerprint(read({}, { status: { acceptedNames: { plural: 'x' } } })))
  t.not(fingerprint(read({})), fingerprint(read({ conversion: { strategy: 'None' } })))

  t.match(definitionOf(read({})), { preservesUnknownFields: false })
  t.match(definitionOf(read({ preserveUnknownFields: true })), { preservesUnknownFields: true })
  const old = { apiVersion: 'apiextensions.k8s.io/v1beta1' }
  t.match(definitionOf(read({}, old)), { preservesUnknownFields: true }, 'in v1beta1 that is the default')
  t.match(definitionOf(read({ preserveUnknownFields: false }, old)), { preservesUnknownFields: false })
})

void t.test('versions with the same schema share it, also in another thread', async (t) => {
  const schema = { openAPIV3Schema: { type: 'object' } }
  const versions = [version('v1', true), version('v2'), version('v3')]
  for (const spec of [
    { versions, validation: schema },
    { versions: versions.map((one) => ({ ...one, schema: structuredClone(schema) })) },
  ]) {
    const { resources } = defined(define(spec))
    const there = fromShared(structuredClone(resources.map(toShared)))
    for (const each of [resources, there]) t.equal(new Set(each.map((one) => one.schema)).size, 1)
  }
})

void t.test('a definition with very many versions is not served', async (t) => {
  const many = (length: number): object => ({ versions: Array.from({ length }, (_, i) => version(`v${i}`, i === 0)) })
  t.equal(defined(define(many(100))).resources.length, 100)
  t.match(define(many(101)), { kind: 'not-served', reason: 'it has more than 100 versions' })
})
