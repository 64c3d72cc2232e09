import t from 'tap'
import { readDefinition } from '../../src/dialect/crd.js'
import { resolveResources } from '../../src/dialect/declared-resource.js'
import { OpenApi, type OpenApiOptions } from '../../src/dialect/openapi.js'
import type { SchemaField, SchemaMessage } from '../../src/dialect/openapi-schema.js'
import { ResourceRegistry } from '../../src/dialect/resource-registry.js'

const META = 'k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta'
const text = (jsonName: string): SchemaField => ({ jsonName, label: 'value', type: 'string', messageName: '' })
const message = (jsonName: string, messageName: string, label: SchemaField['label'] = 'value'): SchemaField => ({
  jsonName,
  label,
  type: 'message',
  messageName,
})
const of = (jsonName: string, type: string, label: SchemaField['label'] = 'value'): SchemaField => ({
  jsonName,
  label,
  type,
  messageName: '',
})

/** A small table of messages in the shape of the protobuf codec's. */
const MESSAGES = new Map<string, Omit<SchemaMessage, 'fullName'>>([
  [META, { form: 'object', fields: [text('name'), of('creationTimestamp', 'time'), of('labels', 'string', 'map')] }],
  [
    'k8s.io.api.core.v1.Pod',
    { form: 'object', fields: [message('metadata', META), message('spec', 'k8s.io.api.core.v1.PodSpec')] },
  ],
  [
    'k8s.io.api.core.v1.PodSpec',
    {
      form: 'object',
      fields: [
        message('containers', 'k8s.io.api.core.v1.Container', 'repeated'),
        message('', 'k8s.io.api.core.v1.Inlined'),
        message('self', 'k8s.io.api.core.v1.PodSpec', 'pointer'),
        message('args', 'k8s.io.api.core.v1.Args'),
        message('any', 'k8s.io.api.core.v1.Either'),
        message('gone', 'k8s.io.api.core.v1.Nowhere'),
        of('grace', 'int64', 'pointer'),
        of('limits', 'quantity', 'map'),
        of('port', 'intorstring'),
        of('raw', 'json'),
        of('data', 'bytes'),
        of('ratio', 'double'),
        of('on', 'bool'),
      ],
    },
  ],
  ['k8s.io.api.core.v1.Container', { form: 'object', fields: [text('image')] }],
  ['k8s.io.api.core.v1.Inlined', { form: 'object', fields: [text('inlinedName')] }],
  ['k8s.io.api.core.v1.Args', { form: 'items', fields: [of('items', 'string', 'repeated')] }],
  ['k8s.io.api.core.v1.Either', { form: 'either', fields: [text('a'), text('b')] }],
])
const schemas: NonNullable<OpenApiOptions['schemas']> = {
  message: (fullName) => {
    const found = MESSAGES.get(fullName)
    return found === undefined ? undefined : { fullName, ...found }
  },
  messageOfKind: (apiVersion, kind) =>
    apiVersion === 'v1' && kind === 'Pod' ? schemas.message('k8s.io.api.core.v1.Pod') : undefined,
}

function start(options: OpenApiOptions = {}): { registry: ResourceRegistry; openApi: OpenApi } {
  const registry = new ResourceRegistry()
  registry.set('start', resolveResources({ names: ['flags=/flags/'] }).resources)
  return { registry, openApi: new OpenApi(registry, options) }
}

interface Spec {
  readonly paths: Record<string, unknown>
  readonly components: { readonly schemas: Record<string, { properties: Record<string, object> }> }
}
const spec = (openApi: OpenApi, group: string, version: string): Spec =>
  JSON.parse(openApi.groupVersion(group, version)?.body.toString() ?? 'null') as Spec
const paths = (openApi: OpenApi): Record<string, { serverRelativeURL: string }> =>
  (JSON.parse(openApi.index().body.toString()) as { paths: Record<string, { serverRelativeURL: string }> }).paths

/** Checks that every $ref of a document leads somewhere; otherwise `kubectl explain` fails. */
function danglingReferences(document: Spec): string[] {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)]
  return references.map(([, name = '']) => name).filter((name) => !Object.hasOwn(document.components.schemas, name))
}

void t.test('the fields of a built-in kind are those of the table', async (t) => {
  const document = spec(start({ schemas }).openApi, '', 'v1')
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
    containers: { type: 'array', items: ref('io.k8s.api.core.v1.Container') },
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
    ['/api/v1/pods', '/api/v1/namespaces/{namespace}/pods', '/api/v1/namespaces/{namespace}/pods/{name}'],
  )
  t.match(document.paths['/api/v1/pods'], {
    get: { 'x-kubernetes-group-version-kind': { group: '', kind: 'Pod', version: 'v1' } },
  })
})

void t.test('without a table a kind still has its metadata, in every group', async (t) => {
  const { registry, openApi } = start()
  for (const { resource } of registry.list()) {
    const document = spec(openApi, resource.group, resource.version)
    const own = Object.values(document.components.schemas).find((schema) =>
      JSON.stringify(schema).includes(`"kind":"${resource.kind}"`),
    )
    t.ok(own?.properties['metadata'], resource.plural)
    t.same(danglingReferences(document), [], resource.group)
  }
  t.equal(openApi.groupVersion('nope', 'v1'), null)
  t.equal(openApi.groupVersion('', 'v2'), null)
})

void t.test('a declared prefix has the members of a KeyValue', async (t) => {
  const flag = spec(start().openApi, 'distributary.io', 'v1').components.schemas['io.distributary.v1.Flag']
  t.match(Object.keys(flag?.properties ?? {}), ['apiVersion', 'kind', 'metadata', 'key', 'text', 'base64'])
})

void t.test('a custom resource has its definition’s schema, and the index changes with it', async (t) => {
  const { registry, openApi } = start({ schemas })
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
  const cache = spec(openApi, 'edge.example.com', 'v1').components.schemas['com.example.edge.v1.Cache']
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

void t.test('the v2 document exists and is empty', async (t) => {
  const { openApi } = start()
  t.match(JSON.parse(openApi.v2('json').body.toString()), { swagger: '2.0', paths: {} })
  t.equal(openApi.v2('protobuf').body.toString('latin1'), '\n\x032.0\x12\x17\n\x0cdistributary\x12\x07v1.32.0B\0')
})
