import t from 'tap'
import { kubernetesSchema, Schema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { readDefinition } from '../../../src/kubernetes/dialect/crd.js'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import { makeOpenApi, OpenApi, type OpenApiOptions } from '../../../src/kubernetes/dialect/openapi.js'
import { ResourceRegistry } from '../../../src/kubernetes/dialect/resource-registry.js'
import { parseLossless } from '../../reference/lossless.js'
import { decodeOpenApi } from '../../reference/openapi.js'
import { anything, definitionObject, integer, listOf, mapOf, object, text as string } from '../../support/definition.js'

/** A small table of messages. */
const TABLE = Schema.parse(`
@ k8s.io.apimachinery.pkg.apis.meta.v1 meta.k8s.io/v1
ObjectMeta name?:1:string creationTimestamp?:8:time labels?:11:{}string
ListMeta resourceVersion?:2:string
@ k8s.io.api.core.v1 v1
Pod* metadata?:1:k8s.io.apimachinery.pkg.apis.meta.v1/ObjectMeta spec?:2:PodSpec
PodSpec containers:1:[]Container :2:Inlined self:3:*PodSpec args:4:Args any:5:Either gone:6:Nowhere grace:7:*int64 limits:8:{}quantity port:9:intorstring raw:10:json data:11:bytes ratio:12:double on:13:bool
Container image:1:string
Inlined inlinedName:1:string
Args[] items:1:[]string
Either|array a:1:string b:2:string
@ k8s.io.api.autoscaling.v1 autoscaling/v1
Scale* metadata?:1:k8s.io.apimachinery.pkg.apis.meta.v1/ObjectMeta
`)

function start({ table = TABLE, writable = false } = {}): { registry: ResourceRegistry; openApi: OpenApi } {
  const registry = new ResourceRegistry()
  registry.set('start', resolveResources({ names: ['flags=/flags/'] }).resources)
  const make: OpenApiOptions['make'] = async (resources, form) => makeOpenApi(resources, form, table, writable)
  return { registry, openApi: new OpenApi(registry, { make, writable }) }
}

interface Spec {
  readonly paths: Record<string, unknown>
  readonly components: { readonly schemas: Record<string, { properties: Record<string, object> }> }
}
const spec = async (openApi: OpenApi, group: string, version: string): Promise<Spec> =>
  JSON.parse((await openApi.groupVersion(group, version))?.body.toString() ?? 'null') as Spec
const paths = (openApi: OpenApi): Record<string, { serverRelativeURL: string }> =>
  (JSON.parse(openApi.index().body.toString()) as { paths: Record<string, { serverRelativeURL: string }> }).paths

/** Returns the $refs of a document that lead nowhere, with which `kubectl explain` fails. */
function danglingReferences(document: Spec): string[] {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)]
  return references.map(([, name = '']) => name).filter((name) => !Object.hasOwn(document.components.schemas, name))
}

void t.test('the fields of a built-in kind are those of the table', async (t) => {
  const document = await spec(start().openApi, '', 'v1')
  t.same(danglingReferences(document), [])
  const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` })
  t.match(document.components.schemas['io.k8s.api.core.v1.Pod'], {
    'x-kubernetes-group-version-kind': [{ group: '', kind: 'Pod', version: 'v1' }],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: ref('io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'),
      spec: ref('io.k8s.api.core.v1.PodSpec'),
    },
  })
  t.same(document.components.schemas['io.k8s.api.core.v1.PodSpec']?.properties, {
    containers: {
      type: 'array',
      items: ref('io.k8s.api.core.v1.Container'),
      'x-kubernetes-list-map-keys': ['name'],
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-patch-merge-key': 'name',
      'x-kubernetes-patch-strategy': 'merge',
    },
    inlinedName: { type: 'string' },
    self: ref('io.k8s.api.core.v1.PodSpec'),
    args: { type: 'array', items: { type: 'string' } },
    any: { 'x-kubernetes-preserve-unknown-fields': true },
    gone: { type: 'object' },
    grace: { type: 'integer', format: 'int64' },
    limits: { type: 'object', additionalProperties: ref('io.k8s.apimachinery.pkg.api.resource.Quantity') },
    port: ref('io.k8s.apimachinery.pkg.util.intstr.IntOrString'),
    raw: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    data: { type: 'string', format: 'byte' },
    ratio: { type: 'number', format: 'double' },
    on: { type: 'boolean' },
  })
  t.same(
    Object.keys(document.paths).filter((path) => /pods/.test(path)),
    [
      '/api/v1/pods',
      '/api/v1/namespaces/{namespace}/pods',
      '/api/v1/namespaces/{namespace}/pods/{name}',
      '/api/v1/namespaces/{namespace}/pods/{name}/status',
      '/api/v1/namespaces/{namespace}/pods/{name}/ephemeralcontainers',
      '/api/v1/namespaces/{namespace}/pods/{name}/resize',
    ],
  )
  t.match(document.paths['/api/v1/pods'], {
    get: { 'x-kubernetes-group-version-kind': { group: '', kind: 'Pod', version: 'v1' } },
  })
})

void t.test(
  'a built-in kind says which members are required, their values, and how its lists are merged',
  async (t) => {
    const document = await spec(start({ table: kubernetesSchema() }).openApi, '', 'v1')
    t.same(danglingReferences(document), [])
    const { schemas: all } = document.components
    t.match(all['io.k8s.api.core.v1.PodSpec'], {
      required: ['containers'],
      properties: { restartPolicy: { type: 'string', enum: ['Always', 'Never', 'OnFailure'] } },
    })
    t.notOk(
      Object.hasOwn(all['io.k8s.api.core.v1.PodSpec']!.properties, 'workloadRef'),
      'what Kubernetes has removed is only read',
    )
    t.match(
      all['io.k8s.api.core.v1.EphemeralContainer']?.properties['ports'],
      { 'x-kubernetes-list-map-keys': ['containerPort', 'protocol'] },
      'also members of an inlined message',
    )
  },
)

void t.test('a kind that is missing from the table has its metadata, in every group', async (t) => {
  const { registry, openApi } = start()
  for (const { resource } of registry.list()) {
    const document = await spec(openApi, resource.group, resource.version)
    const own = Object.values(document.components.schemas).find((schema) =>
      JSON.stringify(schema).includes(`"kind":"${resource.kind}"`),
    )
    t.ok(own?.properties['metadata'], resource.plural)
    t.same(danglingReferences(document), [], resource.group)
  }
  t.equal(await openApi.groupVersion('nope', 'v1'), null)
  t.equal(await openApi.groupVersion('', 'v2'), null)
})

void t.test('a declared prefix has the members of a KeyValue', async (t) => {
  const flag = (await spec(start().openApi, 'distributary.io', 'v1')).components.schemas['io.distributary.v1.Flag']
  t.match(Object.keys(flag?.properties ?? {}), [
    'apiVersion',
    'kind',
    'metadata',
    'key',
    'keyBytes',
    'value',
    'text',
    'bytes',
  ])
})

void t.test('a custom resource has its definition’s schema, and the index changes with it', async (t) => {
  const { registry, openApi } = start()
  const define = (description: string): void => {
    const reading = readDefinition(
      {
        spec: {
          group: 'edge.example.com',
          names: { plural: 'caches', kind: 'Cache' },
          versions: [
            {
              name: 'v1',
              served: true,
              storage: true,
              schema: {
                openAPIV3Schema: JSON.parse(
                  `{"type":"object","description":"${description}","properties":{"__proto__":{"type":"string"},"spec":{"type":"object"},"metadata":{"type":"object"}}}`,
                ) as object,
              },
            },
          ],
        },
      },
      '/registry',
    )
    if (reading.kind === 'defined') registry.set('crd', reading.resources)
  }
  const before = paths(openApi)
  define('one')
  const after = paths(openApi)
  t.match(
    after['apis/edge.example.com/v1']?.serverRelativeURL,
    /^\/openapi\/v3\/apis\/edge\.example\.com\/v1\?hash=[0-9A-F]{64}$/,
  )
  t.same(after['api/v1'], before['api/v1'], 'what did not change keeps its hash')
  const cache = (await spec(openApi, 'edge.example.com', 'v1')).components.schemas['com.example.edge.v1.Cache']
  t.match(cache, { description: 'one', properties: { spec: { type: 'object' } } })
  t.match(cache?.properties['metadata'], { $ref: /ObjectMeta$/ })
  t.ok(Object.hasOwn(cache?.properties ?? {}, '__proto__'))
  define('two')
  t.not(
    paths(openApi)['apis/edge.example.com/v1']?.serverRelativeURL,
    after['apis/edge.example.com/v1']?.serverRelativeURL,
  )
  registry.remove('crd')
  t.same(paths(openApi), before)
})

void t.test('a null in a definition’s schema has no meaning, and breaks no document', async (t) => {
  const nulls = { required: null, enum: null, items: null, additionalProperties: null, minLength: null, nullable: null }
  const { registry, openApi } = start()
  const openAPIV3Schema = {
    type: 'object',
    ...nulls,
    properties: {
      unsaid: null,
      spec: { type: 'object', properties: null, 'x-kubernetes-embedded-resource': null },
      either: { anyOf: [{ ...nulls, type: 'string' }], default: null },
    },
  }
  const versions = [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }]
  const names = { plural: 'caches', kind: 'Cache' }
  const reading = readDefinition({ spec: { group: 'edge.example.com', names, versions } }, '/registry')
  if (reading.kind === 'defined') registry.set('crd', reading.resources)
  const { type, properties, ...rest } = (await spec(openApi, 'edge.example.com', 'v1')).components.schemas[
    'com.example.edge.v1.Cache'
  ] as Readonly<Record<string, unknown>>
  t.same(Object.keys(rest), ['description', 'x-kubernetes-group-version-kind'])
  t.match({ type, properties }, { type: 'object', properties: { unsaid: {}, spec: { type: 'object' } } })
  t.type((await openApi.groupVersion('edge.example.com', 'v1', 'protobuf'))?.body, Buffer)
  for (const encoding of ['json', 'protobuf'] as const) t.type((await openApi.v2(encoding)).body, Buffer)
})

interface V2 {
  readonly paths: Record<string, Record<string, object>>
  readonly definitions: Record<string, { properties?: Record<string, object> }>
}

const WIDGETS = definitionObject({
  group: 'edge.example.com',
  plural: 'widgets',
  kind: 'Widget',
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: object({
        spec: object(
          {
            size: { ...integer, default: 3, minimum: 1 },
            maybe: object({ a: string }, { nullable: true }),
            any: anything,
            port: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, string] },
            by: mapOf(listOf(string)),
          },
          { required: ['size', 'maybe'] },
        ),
      }),
    },
  ],
})

void t.test('the v2 document has every kind, in the grammar of v2', async (t) => {
  const { registry, openApi } = start({ writable: true })
  const read = readDefinition(WIDGETS, '/registry')
  if (read.kind !== 'defined') throw new Error(read.reason)
  registry.set('crd', read.resources)
  const v2 = JSON.parse((await openApi.v2('json')).body.toString()) as V2
  const text = JSON.stringify(v2)
  const references = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, to = '']) => to.replace('#/definitions/', ''))
  t.ok(references.length > 10)
  t.same(
    references.filter((name) => !Object.hasOwn(v2.definitions, name)),
    [],
    'every reference leads somewhere',
  )
  const kind = { group: 'edge.example.com', kind: 'Widget', version: 'v1' }
  const { properties, ...widget } = v2.definitions['com.example.edge.v1.Widget']!
  t.match(widget, { type: 'object', 'x-kubernetes-group-version-kind': [kind] })
  t.same(properties?.['spec'], {
    type: 'object',
    required: ['size'],
    properties: {
      size: { type: 'integer', format: 'int64', minimum: 1 },
      maybe: {},
      any: { 'x-kubernetes-preserve-unknown-fields': true },
      port: { 'x-kubernetes-int-or-string': true },
      by: { type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } },
    },
  })
  t.match(v2.paths['/apis/edge.example.com/v1/namespaces/{namespace}/widgets/{name}'], {
    get: {
      'x-kubernetes-group-version-kind': kind,
      responses: { 200: { schema: { $ref: '#/definitions/com.example.edge.v1.Widget' } } },
    },
    patch: {
      consumes: ['application/apply-patch+yaml', 'application/json-patch+json', 'application/merge-patch+json'],
    },
    parameters: [
      { name: 'namespace', in: 'path', required: true, type: 'string', uniqueItems: true },
      { name: 'name', in: 'path', required: true, type: 'string', uniqueItems: true },
    ],
  })
  t.ok(v2.definitions['io.k8s.api.core.v1.Pod'], 'the built-in kinds as well')
})

void t.test('the v2 document in protobuf has the same content', async (t) => {
  const { registry, openApi } = start({ writable: true })
  const read = readDefinition(WIDGETS, '/registry')
  if (read.kind !== 'defined') throw new Error(read.reason)
  registry.set('crd', read.resources)
  const { body } = await openApi.v2('json')
  // Protobuf does not distinguish an empty list from none.
  const json = body.toString().replaceAll(/,"parameters":\[\]/g, '')
  t.same(decodeOpenApi((await openApi.v2('protobuf')).body, 'v2'), parseLossless(json))
})
