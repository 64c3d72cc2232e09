/**
 * Writes as users of kubectl, client-go and Argo CD send them, with ordinary and odd objects. A scenario is a few
 * requests in order, each of which is answered by a kube-apiserver and by this server. Scenarios share nothing but the
 * definition of `things`: each has an object of its own name.
 */
import { definitionObject } from '../../support/definition.js'

export interface Step {
  readonly method: string
  readonly path: string
  readonly body?: string
  /** Default: application/json. */
  readonly type?: string
}

export interface Scenario {
  readonly name: string
  readonly steps: readonly Step[]
}

const CORE = '/api/v1/namespaces/default'
export const CONFIG_MAPS = `${CORE}/configmaps`
const SECRETS = `${CORE}/secrets`
const TEMPLATES = `${CORE}/podtemplates`
const CONTROLLERS = `${CORE}/replicationcontrollers`
const DEPLOYMENTS = '/apis/apps/v1/namespaces/default/deployments'
const ROLES = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles'
export const THINGS = '/apis/writes.example.com/v1/namespaces/default/things'

export const DEFINITION = definitionObject({
  group: 'writes.example.com',
  plural: 'things',
  kind: 'Thing',
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      subresources: { scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
      schema: {
        type: 'object',
        properties: {
          spec: {
            type: 'object',
            properties: {
              n: { type: 'integer' },
              s: { type: 'string', default: 'some' },
              nullable: { type: 'string', nullable: true },
              m: { type: 'object', additionalProperties: { type: 'string' } },
              l: { type: 'array', items: { type: 'string' } },
              set: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
              any: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
              f: { type: 'number' },
              replicas: { type: 'integer' },
              when: { type: 'string', format: 'date-time' },
              amount: { 'x-kubernetes-int-or-string': true },
              numbers: { type: 'array', items: { type: 'number' }, 'x-kubernetes-list-type': 'set' },
              embedded: {
                type: 'object',
                'x-kubernetes-embedded-resource': true,
                'x-kubernetes-preserve-unknown-fields': true,
              },
              ports: {
                type: 'array',
                'x-kubernetes-list-type': 'map',
                'x-kubernetes-list-map-keys': ['port', 'protocol'],
                items: {
                  type: 'object',
                  required: ['port'],
                  properties: {
                    port: { type: 'integer' },
                    protocol: { type: 'string', default: 'TCP' },
                    name: { type: 'string' },
                  },
                },
              },
            },
          },
        },
      },
    },
  ],
})

const TYPES = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
  yaml: 'application/yaml',
} as const

function text(body: unknown): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

const create = (path: string, body: unknown, query = ''): Step => ({
  method: 'POST',
  path: path + query,
  body: text(body),
})
const createYaml = (path: string, body: string, query = ''): Step => ({
  ...create(path, body, query),
  type: TYPES.yaml,
})
const get = (path: string): Step => ({ method: 'GET', path })
const replace = (path: string, body: unknown, query = ''): Step => ({
  method: 'PUT',
  path: path + query,
  body: text(body),
})
const patch = (how: keyof typeof TYPES, path: string, body: unknown, query = ''): Step => ({
  method: 'PATCH',
  path: path + query,
  body: text(body),
  type: TYPES[how],
})
const apply = (path: string, body: unknown, manager = 'one', query = ''): Step =>
  patch('apply', path, body, `?fieldManager=${manager}${query}`)
const remove = (path: string, body?: unknown, query = ''): Step => ({
  method: 'DELETE',
  path: path + query,
  ...(body === undefined ? {} : { body: text(body) }),
})

type Fields = Readonly<Record<string, unknown>>

const configMap = (name: string, rest: Fields = {}, metadata: Fields = {}): Fields => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...metadata },
  ...rest,
})
const secret = (name: string, rest: Fields): Fields => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  ...rest,
})
const thing = (name: string, spec: unknown = {}, metadata: Fields = {}): Fields => ({
  apiVersion: 'writes.example.com/v1',
  kind: 'Thing',
  metadata: { name, ...metadata },
  spec,
})
const CONTAINER = { name: 'c', image: 'i' }
const template = (name: string, spec: Fields, metadata: unknown = {}): Fields => ({
  apiVersion: 'v1',
  kind: 'PodTemplate',
  metadata: { name },
  template: { metadata, spec: { containers: [CONTAINER], ...spec } },
})
const deployment = (name: string, spec: Fields = {}): Fields => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: 'a' } },
    template: { metadata: { labels: { app: 'a' } }, spec: { containers: [CONTAINER] } },
    ...spec,
  },
})

const scenarios: Scenario[] = []
function scenario(name: string, ...steps: readonly Step[]): void {
  scenarios.push({ name, steps })
}

/** Creates the object in its own scenario, and reads it again. */
function creates(name: string, path: string, object: Fields, query = ''): void {
  const { name: own } = object['metadata'] as { name: string }
  scenario(name, create(path, object, query), get(`${path}/${own}`))
}

// Members that are null.
creates('null in data', CONFIG_MAPS, configMap('null-data', { data: { q: null, a: '1' } }))
creates('null data', CONFIG_MAPS, configMap('null-all', { data: null, binaryData: null, immutable: null }))
creates('null in binaryData', CONFIG_MAPS, configMap('null-binary', { binaryData: { q: null } }))
creates('null in a secret', SECRETS, secret('null-secret', { data: { q: null }, stringData: { s: null } }))
creates('null label', CONFIG_MAPS, configMap('null-label', {}, { labels: { q: null }, annotations: { a: null } }))
creates('null finalizer', CONFIG_MAPS, configMap('null-finalizer', {}, { finalizers: [null] }))
creates('null owner', CONFIG_MAPS, configMap('null-owner', {}, { ownerReferences: [null] }))
creates('null label of a thing', THINGS, thing('null-label', {}, { labels: { q: null }, annotations: { a: null } }))
creates('null finalizer of a thing', THINGS, thing('null-finalizer', {}, { finalizers: [null] }))
creates(
  'null metadata members',
  CONFIG_MAPS,
  configMap(
    'null-meta',
    {},
    {
      labels: null,
      annotations: null,
      finalizers: null,
      ownerReferences: null,
      generateName: null,
      namespace: null,
      uid: null,
      resourceVersion: null,
      creationTimestamp: null,
      managedFields: null,
    },
  ),
)
creates(
  'null in things',
  THINGS,
  thing('null-things', { n: null, s: null, nullable: null, m: { a: null }, any: { a: null, b: [null] } }),
)
creates('null in a list of things', THINGS, thing('null-list', { l: [null] }))
creates('null in a map of things', THINGS, thing('null-map', { m: { a: null, b: 'x' } }))
creates('null port of things', THINGS, thing('null-port', { ports: [null] }))
creates('null spec of things', THINGS, thing('null-spec', null))
creates(
  'null in a template',
  TEMPLATES,
  template('null-template', { nodeSelector: { a: null }, volumes: null, hostNetwork: null }, null),
)
creates(
  'null argument',
  TEMPLATES,
  template('null-argument', { containers: [{ ...CONTAINER, args: [null, 'a'], env: null }] }),
)
creates('null env', TEMPLATES, template('null-env', { containers: [{ ...CONTAINER, env: [null] }] }))
creates('null toleration', TEMPLATES, template('null-toleration', { tolerations: [null] }))
creates(
  'null quantity',
  TEMPLATES,
  template('null-quantity', { containers: [{ ...CONTAINER, resources: { limits: { cpu: null } } }] }),
)
creates(
  'null port',
  TEMPLATES,
  template('null-port', { containers: [{ ...CONTAINER, ports: [{ containerPort: 1, hostPort: null }] }] }),
)
creates('null verb', ROLES, {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'Role',
  metadata: { name: 'null-verb' },
  rules: [{ apiGroups: [null], resources: ['pods'], verbs: ['get', null] }],
})
creates('null rule', ROLES, {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'Role',
  metadata: { name: 'null-rule' },
  rules: null,
})
creates(
  'null in a deployment',
  DEPLOYMENTS,
  deployment('null-deployment', {
    replicas: null,
    strategy: null,
    minReadySeconds: null,
    paused: null,
    revisionHistoryLimit: null,
  }),
)
creates(
  'null rolling update',
  DEPLOYMENTS,
  deployment('null-rolling', { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: null } } }),
)
scenario(
  'null in YAML',
  createYaml(CONFIG_MAPS, 'metadata:\n  name: null-yaml\ndata:\n  q:\n  r: ~\n'),
  get(`${CONFIG_MAPS}/null-yaml`),
)
for (const how of ['merge', 'strategic'] as const) {
  const own = `null-${how}`
  scenario(
    `null in a ${how} patch`,
    create(CONFIG_MAPS, configMap(own, { data: { a: '1', b: '2' } }, { labels: { x: 'y' } })),
    patch(how, `${CONFIG_MAPS}/${own}`, {
      data: { a: null, none: null },
      metadata: { labels: null, annotations: { none: null } },
    }),
    patch(how, `${CONFIG_MAPS}/${own}`, { data: null }),
    patch(how, `${CONFIG_MAPS}/${own}`, { metadata: null }),
    patch(how, `${CONFIG_MAPS}/${own}`, { kind: null, apiVersion: null }),
  )
}
scenario(
  'null in a JSON patch',
  create(CONFIG_MAPS, configMap('null-json', { data: { a: '1' } })),
  patch('json', `${CONFIG_MAPS}/null-json`, [{ op: 'add', path: '/data/q', value: null }]),
  patch('json', `${CONFIG_MAPS}/null-json`, [{ op: 'replace', path: '/data', value: null }]),
  patch('json', `${CONFIG_MAPS}/null-json`, [{ op: 'add', path: '/metadata/labels', value: { l: null } }]),
)
scenario(
  'null in an apply',
  apply(
    `${CONFIG_MAPS}/null-apply`,
    configMap('null-apply', { data: { a: '1', q: null } }, { labels: { x: null, y: 'z' } }),
  ),
  apply(`${CONFIG_MAPS}/null-apply`, configMap('null-apply', { data: null })),
)
scenario(
  'null in an apply of a thing',
  apply(`${THINGS}/null-apply`, thing('null-apply', { n: null, m: { a: null }, l: null, nullable: null })),
  apply(`${THINGS}/null-apply`, thing('null-apply', { n: 1, m: null })),
)
scenario(
  'null in a replace',
  create(CONFIG_MAPS, configMap('null-replace', { data: { a: '1' } })),
  replace(`${CONFIG_MAPS}/null-replace`, configMap('null-replace', { data: { a: null } })),
  replace(`${CONFIG_MAPS}/null-replace`, configMap('null-replace', { data: null })),
)

// Empty members.
creates(
  'empty maps',
  CONFIG_MAPS,
  configMap(
    'empty',
    { data: {}, binaryData: {}, immutable: false },
    { labels: {}, annotations: {}, finalizers: [], ownerReferences: [], generateName: '', namespace: '' },
  ),
)
creates(
  'empty in a deployment',
  DEPLOYMENTS,
  deployment('empty-deployment', { paused: false, minReadySeconds: 0, strategy: {} }),
)
creates(
  'empty in a template',
  TEMPLATES,
  template('empty-template', {
    nodeSelector: {},
    volumes: [],
    hostNetwork: false,
    serviceAccountName: '',
    tolerations: [{}],
    securityContext: {},
    affinity: {},
  }),
)
creates(
  'empty in a container',
  TEMPLATES,
  template('empty-container', {
    containers: [
      {
        ...CONTAINER,
        env: [{ name: 'A', value: '' }],
        args: [],
        resources: {},
        ports: [{ containerPort: 80, name: '' }],
        stdin: false,
      },
    ],
  }),
)
creates('empty in things', THINGS, thing('empty', { m: {}, l: [], any: {}, ports: [] }, { labels: {}, finalizers: [] }))
creates('no spec of things', THINGS, {
  apiVersion: 'writes.example.com/v1',
  kind: 'Thing',
  metadata: { name: 'no-spec' },
})
creates('status of a new deployment', DEPLOYMENTS, { ...deployment('with-status'), status: { replicas: 3 } })

// Finalizers.
const FINALIZERS: Readonly<Record<string, readonly string[]>> = {
  plain: ['foo'],
  dotted: ['foo.example.com'],
  qualified: ['example.com/foo'],
  kubernetes: ['kubernetes'],
  twice: ['example.com/foo', 'example.com/foo'],
  both: ['orphan', 'foregroundDeletion'],
  spaced: ['a b'],
  none: [''],
  slashes: ['a/b/c'],
  prefix: ['/a'],
  long: ['a'.repeat(64)],
  capital: ['Example.com/foo'],
}
for (const [name, finalizers] of Object.entries(FINALIZERS)) {
  const own = `finalizer-${name}`
  creates(`finalizer ${name}`, CONFIG_MAPS, configMap(own, {}, { finalizers }))
  creates(`finalizer ${name} of a thing`, THINGS, thing(own, {}, { finalizers }))
  scenario(
    `finalizer ${name} later`,
    create(CONFIG_MAPS, configMap(`${own}-later`)),
    patch('merge', `${CONFIG_MAPS}/${own}-later`, { metadata: { finalizers } }),
    patch('merge', `${CONFIG_MAPS}/${own}-later`, { metadata: { labels: { a: 'b' } } }),
  )
  scenario(
    `finalizer ${name} of a thing later`,
    create(THINGS, thing(`${own}-later`)),
    patch('merge', `${THINGS}/${own}-later`, { metadata: { finalizers } }),
    patch('merge', `${THINGS}/${own}-later`, { metadata: { labels: { a: 'b' } } }),
  )
}

// Keys.
const KEYS: Readonly<Record<string, string>> = {
  space: 'a b',
  empty: '',
  dot: '.',
  dots: '..',
  hidden: '..a',
  three: '...',
  slash: 'a/b',
  long: 'k'.repeat(254),
  longest: 'k'.repeat(253),
  umlaut: 'ä',
  good: '-._A9',
}
for (const [name, key] of Object.entries(KEYS)) {
  creates(`key ${name}`, CONFIG_MAPS, configMap(`key-${name}`, { data: { [key]: 'v' } }))
  creates(`binary key ${name}`, CONFIG_MAPS, configMap(`binary-key-${name}`, { binaryData: { [key]: 'dg==' } }))
  creates(`secret key ${name}`, SECRETS, secret(`key-${name}`, { data: { [key]: 'dg==' } }))
}
creates('a key in both', CONFIG_MAPS, configMap('key-both', { data: { a: '1' }, binaryData: { a: 'dg==' } }))
creates(
  'a bad key and a bad label',
  CONFIG_MAPS,
  configMap('key-and-label', { data: { 'a b': '1' } }, { labels: { 'a b': 'c' } }),
)
scenario(
  'a bad key later',
  create(CONFIG_MAPS, configMap('key-later', { data: { a: '1' } })),
  patch('merge', `${CONFIG_MAPS}/key-later`, { data: { 'a b': '1' } }),
  patch('merge', `${CONFIG_MAPS}/key-later`, { binaryData: { a: 'dg==' } }),
  replace(`${CONFIG_MAPS}/key-later`, configMap('key-later', { data: { 'a/b': '' } })),
  apply(`${CONFIG_MAPS}/key-later`, configMap('key-later', { data: { 'a/b': '' } })),
)
creates('data that is too large', CONFIG_MAPS, configMap('too-large', { data: { a: 'x'.repeat(1_048_577) } }))
creates('a secret that is too large', SECRETS, secret('too-large', { data: { a: 'eHh4'.repeat(349_526) } }))
creates('bad base64', CONFIG_MAPS, configMap('bad-base64', { binaryData: { a: 'not base64!' } }))
creates('a number in data', CONFIG_MAPS, configMap('number-data', { data: { a: 1 } }))
creates('a boolean in data', CONFIG_MAPS, configMap('boolean-data', { data: { a: true } }))
creates('a map in data', CONFIG_MAPS, configMap('map-data', { data: { a: {} } }))
creates('a list for data', CONFIG_MAPS, configMap('list-data', { data: ['a'] }))
creates('TLS without a key', SECRETS, secret('tls', { type: 'kubernetes.io/tls', data: { 'tls.crt': 'dg==' } }))
creates(
  'a service account token without its account',
  SECRETS,
  secret('token', { type: 'kubernetes.io/service-account-token' }),
)
creates(
  'docker configuration that is no JSON',
  SECRETS,
  secret('docker', { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': 'dg==' } }),
)
creates('docker configuration', SECRETS, secret('docker-none', { type: 'kubernetes.io/dockerconfigjson' }))
creates('basic authentication', SECRETS, secret('basic', { type: 'kubernetes.io/basic-auth', stringData: {} }))
creates(
  'ssh authentication',
  SECRETS,
  secret('ssh', { type: 'kubernetes.io/ssh-auth', stringData: { 'ssh-privatekey': '' } }),
)
scenario(
  'the type of a secret',
  create(SECRETS, secret('type', { stringData: { a: 'b' } })),
  patch('merge', `${SECRETS}/type`, { type: 'other' }),
  patch('merge', `${SECRETS}/type`, { stringData: { c: 'd' } }),
  patch('merge', `${SECRETS}/type`, { immutable: true }),
  patch('merge', `${SECRETS}/type`, { data: { a: 'dg==' } }),
  patch('merge', `${SECRETS}/type`, { immutable: false }),
)

// Names, labels and annotations.
const NAMES: Readonly<Record<string, string>> = {
  capital: 'A',
  space: 'a b',
  long: 'n'.repeat(254),
  dash: '-a',
  underscore: 'a_b',
}
for (const [name, own] of Object.entries(NAMES)) {
  scenario(`name ${name}`, create(CONFIG_MAPS, configMap(own)))
  scenario(`name ${name} of a thing`, create(THINGS, thing(own)))
  scenario(`name ${name} applied`, apply(`${CONFIG_MAPS}/${encodeURIComponent(own)}`, configMap(own)))
}
scenario('no name', create(CONFIG_MAPS, { metadata: {} }))
scenario('no metadata', create(CONFIG_MAPS, {}))
scenario('no name of a thing', create(THINGS, { apiVersion: 'writes.example.com/v1', kind: 'Thing', metadata: {} }))
scenario('no type of a thing', create(THINGS, { metadata: { name: 'no-type' } }))
scenario('no kind of a thing', create(THINGS, { apiVersion: 'writes.example.com/v1', metadata: { name: 'no-kind' } }))
scenario('no version of a thing', create(THINGS, { kind: 'Thing', metadata: { name: 'no-version' } }))
scenario('no type', create(CONFIG_MAPS, { metadata: { name: 'no-type' } }))
scenario('another kind', create(CONFIG_MAPS, { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'other-kind' } }))
scenario(
  'an unknown kind',
  create(CONFIG_MAPS, { apiVersion: 'v1', kind: 'Unknown', metadata: { name: 'unknown-kind' } }),
)
scenario(
  'another version',
  create(CONFIG_MAPS, { apiVersion: 'v2', kind: 'ConfigMap', metadata: { name: 'other-version' } }),
)
scenario(
  'another group',
  create(CONFIG_MAPS, { apiVersion: 'apps/v1', kind: 'ConfigMap', metadata: { name: 'other-group' } }),
)
scenario(
  'another kind of a thing',
  create(THINGS, { apiVersion: 'writes.example.com/v1', kind: 'Other', metadata: { name: 'other-kind' } }),
)
scenario(
  'another version of a thing',
  create(THINGS, { apiVersion: 'writes.example.com/v2', kind: 'Thing', metadata: { name: 'other-version' } }),
)
scenario('another namespace', create(CONFIG_MAPS, configMap('other-namespace', {}, { namespace: 'other' })))
scenario('a namespace that is not there', create('/api/v1/namespaces/nowhere/configmaps', configMap('nowhere')))
scenario('an empty body', create(CONFIG_MAPS, ''))
scenario(
  'no object',
  create(CONFIG_MAPS, '[]'),
  create(CONFIG_MAPS, '"text"'),
  create(CONFIG_MAPS, 'null'),
  create(CONFIG_MAPS, '1'),
)
scenario('broken JSON', create(CONFIG_MAPS, '{"metadata":'), create(CONFIG_MAPS, '{metadata: {name: a}}'))
scenario('broken YAML', createYaml(CONFIG_MAPS, 'metadata: {name: a'), createYaml(CONFIG_MAPS, 'a: b: c'))
scenario('metadata is a list', create(CONFIG_MAPS, { metadata: [] }), create(CONFIG_MAPS, { metadata: 'text' }))
scenario(
  'a type is no text',
  create(CONFIG_MAPS, { kind: 1, metadata: { name: 'a' } }),
  create(CONFIG_MAPS, { apiVersion: {}, metadata: { name: 'a' } }),
)
scenario(
  'a name is no text',
  create(CONFIG_MAPS, { metadata: { name: 1 } }),
  create(THINGS, { ...thing('a'), metadata: { name: 1 } }),
)
scenario('an unknown media type', { ...create(CONFIG_MAPS, configMap('media')), type: 'text/plain' })
scenario('a body in no given type', { ...create(CONFIG_MAPS, configMap('media')), type: '' })
scenario('a create that exists', create(CONFIG_MAPS, configMap('exists')), create(CONFIG_MAPS, configMap('exists')))
scenario('a create that exists of a thing', create(THINGS, thing('exists')), create(THINGS, thing('exists')))
scenario('a resourceVersion in a create', create(CONFIG_MAPS, configMap('version', {}, { resourceVersion: '1' })))
scenario(
  'a uid in a create',
  create(
    CONFIG_MAPS,
    configMap(
      'uid',
      {},
      {
        uid: 'u',
        creationTimestamp: '2020-01-01T00:00:00Z',
        generation: 7,
        selfLink: '/x',
        deletionTimestamp: '2020-01-01T00:00:00Z',
        deletionGracePeriodSeconds: 3,
      },
    ),
  ),
)
scenario(
  'generation in a create',
  create(DEPLOYMENTS, { ...deployment('generation'), metadata: { name: 'generation', generation: 9 } }),
)
scenario(
  'managedFields in a create',
  create(
    CONFIG_MAPS,
    configMap(
      'managed',
      { data: { a: '1' } },
      {
        managedFields: [
          { manager: 'm', operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { 'f:data': {} } },
        ],
      },
    ),
  ),
)
scenario('a bad time', create(CONFIG_MAPS, configMap('bad-time', {}, { creationTimestamp: 'yesterday' })))
for (const [name, labels] of Object.entries({
  key: { 'a b': 'c' },
  value: { a: 'b c' },
  long: { a: 'v'.repeat(64) },
  prefix: { 'Example.com/a': 'b' },
  'empty prefix': { '/a': 'b' },
  'two slashes': { 'a/b/c': 'd' },
  'long key': { ['k'.repeat(64)]: 'b' },
  'empty key': { '': 'b' },
  fine: { 'example.com/a.b_c': '' },
})) {
  const own = `label-${name.replace(/ /g, '-')}`
  creates(`label ${name}`, CONFIG_MAPS, configMap(own, {}, { labels }))
  creates(`annotation ${name}`, CONFIG_MAPS, configMap(`annotated-${own}`, {}, { annotations: labels }))
  creates(`label ${name} of a thing`, THINGS, thing(own, {}, { labels }))
}
creates(
  'annotations that are too long',
  CONFIG_MAPS,
  configMap('long-annotations', {}, { annotations: { a: 'x'.repeat(262_144) } }),
)
creates('a label that is a number', CONFIG_MAPS, configMap('number-label', {}, { labels: { a: 1 } }))
creates('a label that is a number of a thing', THINGS, thing('number-label', {}, { labels: { a: 1 } }))
creates('labels that are a list', THINGS, thing('list-labels', {}, { labels: ['a'] }))
creates('finalizers that are text', THINGS, thing('text-finalizers', {}, { finalizers: 'a' }))
const OWNER = { apiVersion: 'v1', kind: 'ConfigMap', name: 'o', uid: 'u' }
for (const [name, ownerReferences] of Object.entries({
  fine: [OWNER],
  twice: [OWNER, OWNER],
  controllers: [
    { ...OWNER, controller: true },
    { ...OWNER, uid: 'v', controller: true },
  ],
  nothing: [{}],
  event: [{ ...OWNER, kind: 'Event' }],
  version: [{ ...OWNER, apiVersion: 'a/b/c' }],
  unknown: [{ ...OWNER, other: 1 }],
})) {
  creates(`owner ${name}`, CONFIG_MAPS, configMap(`owner-${name}`, {}, { ownerReferences }))
  creates(`owner ${name} of a thing`, THINGS, thing(`owner-${name}`, {}, { ownerReferences }))
}
scenario(
  'the same owner in a patch',
  create(CONFIG_MAPS, configMap('owner-patch', {}, { ownerReferences: [OWNER] })),
  patch('json', `${CONFIG_MAPS}/owner-patch`, [{ op: 'add', path: '/metadata/ownerReferences/-', value: OWNER }]),
  patch('strategic', `${CONFIG_MAPS}/owner-patch`, {
    metadata: { ownerReferences: [{ ...OWNER, blockOwnerDeletion: true }] },
  }),
)

// generateName.
const generated = (generateName: string, rest: Fields = {}): Fields => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { generateName, ...rest },
})
scenario('generateName', create(CONFIG_MAPS, generated('made-')))
scenario('generateName with a dot', create(CONFIG_MAPS, generated('made.')))
scenario('generateName without a dash', create(CONFIG_MAPS, generated('made')))
scenario('generateName that is bad', create(CONFIG_MAPS, generated('A_')))
scenario('generateName that is long', create(CONFIG_MAPS, generated('m'.repeat(100))))
scenario('generateName with a name', create(CONFIG_MAPS, generated('made-', { name: 'named' })))
scenario('generateName that is bad with a name', create(CONFIG_MAPS, generated('A_', { name: 'named-too' })))
scenario('generateName in a dry run', create(CONFIG_MAPS, generated('dry-'), '?dryRun=All'))
scenario(
  'generateName of a thing',
  create(THINGS, { apiVersion: 'writes.example.com/v1', kind: 'Thing', metadata: { generateName: 'made-' } }),
)
scenario('generateName in an apply', apply(`${CONFIG_MAPS}/applied-name`, generated('made-')))
scenario(
  'generateName in a replace',
  create(CONFIG_MAPS, configMap('not-generated')),
  replace(`${CONFIG_MAPS}/not-generated`, generated('made-', { name: 'not-generated' })),
)

// Field validation.
const ODD: Readonly<Record<string, string>> = {
  unknown:
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","odd":1},"other":{"a":1,"a":2},"data":{"a":"1"}}',
  duplicate:
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"a":"1","a":"2"},"data":{"b":"3"}}',
  both: '{"odd":1,"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","name":"NAME","labels":{"l":"1","l":"2"},"odd":2},"data":{"a":"1","a":"2"},"more":3,"more":4}',
  case: '{"apiVersion":"v1","kind":"ConfigMap","Metadata":{"name":"other"},"metadata":{"name":"NAME"},"Data":{"a":"1"}}',
  type: '{"apiVersion":"v1","apiVersion":"v1","kind":"ConfigMap","kind":"ConfigMap","metadata":{"name":"NAME"}}',
}
const VALIDATIONS = [
  '',
  '?fieldValidation=Strict',
  '?fieldValidation=Warn',
  '?fieldValidation=Ignore',
  '?fieldValidation=strict',
] as const
for (const [name, body] of Object.entries(ODD)) {
  VALIDATIONS.forEach((query, i) => {
    const own = `strict-${name}-${i}`
    const named = body.replaceAll('NAME', own)
    scenario(`${name} fields in a create${query}`, create(CONFIG_MAPS, named, query), get(`${CONFIG_MAPS}/${own}`))
    scenario(
      `${name} fields in a replace${query}`,
      create(CONFIG_MAPS, configMap(`put-${own}`)),
      replace(`${CONFIG_MAPS}/put-${own}`, body.replaceAll('NAME', `put-${own}`), query),
    )
    for (const how of ['merge', 'strategic', 'apply'] as const) {
      const it = `${how}-${own}`
      const more = how === 'apply' ? `?fieldManager=m${query.replace('?', '&')}` : query
      scenario(
        `${name} fields in ${how}${query}`,
        create(CONFIG_MAPS, configMap(it, { data: { z: '0' } })),
        patch(how, `${CONFIG_MAPS}/${it}`, body.replaceAll('NAME', it), more),
      )
    }
    scenario(
      `${name} fields in YAML${query}`,
      createYaml(CONFIG_MAPS, named.replaceAll('NAME', own).replaceAll(own, `yaml-${own}`), query),
    )
    const asThing = body
      .replaceAll('NAME', own)
      .replace(/"v1"/g, '"writes.example.com/v1"')
      .replaceAll('ConfigMap', 'Thing')
      .replace(/"data":/g, '"spec":')
    scenario(`${name} fields in a thing${query}`, create(THINGS, asThing, query), get(`${THINGS}/${own}`))
    scenario(
      `${name} fields in an applied thing${query}`,
      apply(`${THINGS}/applied-${own}`, asThing.replaceAll(own, `applied-${own}`), 'm', query.replace('?', '&')),
    )
    scenario(
      `${name} fields in a patched thing${query}`,
      create(THINGS, thing(`patched-${own}`)),
      patch('merge', `${THINGS}/patched-${own}`, asThing.replaceAll(own, `patched-${own}`), query),
    )
  })
}
const TEMPLATE_ODD =
  '{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"NAME"},"template":{"spec":{"containers":[{"name":"a","image":"i","image":"j","odd":1,"env":[{"name":"A","value":"1"}],"env":[{"name":"B"}]},{"name":"b","image":"i","ports":[{"containerPort":1,"containerPort":2,"other":{}}]}],"nodeName":"a","nodeName":"b","odd":[{"x":1,"x":2}]}}}'
VALIDATIONS.forEach((query, i) => {
  scenario(`odd containers${query}`, create(TEMPLATES, TEMPLATE_ODD.replace('NAME', `odd-${i}`), query))
  scenario(
    `odd containers in YAML${query}`,
    createYaml(TEMPLATES, TEMPLATE_ODD.replace('NAME', `odd-yaml-${i}`), query),
  )
  scenario(
    `odd containers applied${query}`,
    apply(
      `${TEMPLATES}/odd-applied-${i}`,
      TEMPLATE_ODD.replace('NAME', `odd-applied-${i}`),
      'm',
      query.replace('?', '&'),
    ),
  )
  scenario(
    `odd strategic patch${query}`,
    create(TEMPLATES, template(`odd-strategic-${i}`, {})),
    patch('strategic', `${TEMPLATES}/odd-strategic-${i}`, TEMPLATE_ODD.replace('NAME', `odd-strategic-${i}`), query),
  )
  scenario(
    `odd JSON patch${query}`,
    create(CONFIG_MAPS, configMap(`odd-json-${i}`)),
    patch(
      'json',
      `${CONFIG_MAPS}/odd-json-${i}`,
      '[{"op":"add","path":"/odd","value":1,"other":2},{"op":"add","path":"/data","value":{"a":"1"},"value":{"a":"2","a":"3"}},{"op":"add","path":"/metadata/x","value":1}]',
      query,
    ),
  )
})
scenario(
  'duplicates in YAML blocks',
  createYaml(CONFIG_MAPS, 'metadata:\n  name: block-a\n  name: block-b\ndata:\n  a: x\n  a: y\nother: 1\n'),
  createYaml(
    CONFIG_MAPS,
    'metadata:\n  name: block-c\ndata:\n  a: x\n  a: y\nother: 1\nother: 2\n',
    '?fieldValidation=Strict',
  ),
)
scenario(
  'a wrong type and an unknown field',
  create(CONFIG_MAPS, '{"metadata":{"name":"wrong-odd","odd":1},"data":{"a":1}}'),
  create(CONFIG_MAPS, '{"metadata":{"name":"wrong-odd","odd":1},"data":{"a":1}}', '?fieldValidation=Strict'),
)
scenario(
  'many unknown fields',
  create(
    CONFIG_MAPS,
    { ...configMap('many'), ...Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`u${i}`, i])) },
    '?fieldValidation=Strict',
  ),
)
for (const option of [
  'dryRun=Some',
  'dryRun=',
  'dryRun=All&dryRun=All',
  'dryRun=all',
  'fieldManager=',
  `fieldManager=${'m'.repeat(129)}`,
  'fieldManager=a%0ab',
  'force=true',
  'pretty=true',
  'timeout=1s',
  'timeout=abc',
  'timeout=0',
  'fieldValidation=',
  'fieldValidation=Warn&fieldValidation=Strict',
  'unknown=1',
]) {
  const own = `option-${option
    .replace(/[^a-z0-9]+/gi, '-')
    .toLowerCase()
    .slice(0, 40)}x`
  scenario(
    `?${option.slice(0, 40)}`,
    create(CONFIG_MAPS, configMap(own), `?${option}`),
    replace(`${CONFIG_MAPS}/${own}`, configMap(own), `?${option}`),
    patch('merge', `${CONFIG_MAPS}/${own}`, {}, `?${option}`),
    patch('apply', `${CONFIG_MAPS}/${own}`, configMap(own), `?${option}`),
    remove(`${CONFIG_MAPS}/${own}`, undefined, `?${option}`),
    get(`${CONFIG_MAPS}/${own}`),
  )
}
scenario('an apply without a manager', patch('apply', `${CONFIG_MAPS}/no-manager`, configMap('no-manager')))

// Applies.
const ports = (...list: readonly Fields[]): Fields => ({ ports: list })
scenario(
  'a conflict',
  create(CONFIG_MAPS, configMap('conflict', { data: { a: '1', b: '2', c: '3' } }), '?fieldManager=creator'),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '9' } })),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '9', b: '9' } })),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '9', b: '9' } }), 'one', '&force=true'),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '8', c: '8' } }), 'two'),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '8', b: '8', c: '8' } }), 'two'),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '8' } }), 'two', '&force=true&dryRun=All'),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', { data: { a: '8' } }), 'two', '&force=false'),
  patch('merge', `${CONFIG_MAPS}/conflict`, { data: { a: '7' } }, '?fieldManager=merger'),
  apply(`${CONFIG_MAPS}/conflict`, configMap('conflict', {}), 'one'),
)
scenario(
  'a conflict of applies',
  apply(
    `${CONFIG_MAPS}/conflict-applies`,
    configMap('conflict-applies', { data: { a: '1', b: '1' } }, { labels: { l: '1' } }),
    'one',
  ),
  apply(`${CONFIG_MAPS}/conflict-applies`, configMap('conflict-applies', { data: { a: '1', c: '1' } }), 'two'),
  apply(
    `${CONFIG_MAPS}/conflict-applies`,
    configMap('conflict-applies', { data: { a: '2', b: '2' } }, { labels: { l: '2' } }),
    'three',
  ),
  apply(`${CONFIG_MAPS}/conflict-applies`, configMap('conflict-applies', { data: { b: '1' } }), 'one'),
  apply(`${CONFIG_MAPS}/conflict-applies`, configMap('conflict-applies', {}), 'two'),
)
scenario(
  'a conflict of ports',
  apply(
    `${THINGS}/conflict-ports`,
    thing('conflict-ports', ports({ port: 80, name: 'a' }, { port: 80, protocol: 'UDP', name: 'u' })),
    'one',
  ),
  apply(
    `${THINGS}/conflict-ports`,
    thing('conflict-ports', ports({ port: 80, name: 'b' }, { port: 81, name: 'c' })),
    'two',
  ),
  apply(
    `${THINGS}/conflict-ports`,
    thing('conflict-ports', { ...ports({ port: 80, name: 'b' }, { port: 80, protocol: 'UDP', name: 'b' }), s: 'x' }),
    'two',
  ),
  apply(`${THINGS}/conflict-ports`, thing('conflict-ports', ports({ port: 80, name: 'b' })), 'two', '&force=true'),
  apply(`${THINGS}/conflict-ports`, thing('conflict-ports', ports({ port: 80, name: 'd' }, { port: 80 })), 'one'),
  apply(`${THINGS}/conflict-ports`, thing('conflict-ports', { set: ['a', 'a'] }), 'one'),
  apply(`${THINGS}/conflict-ports`, thing('conflict-ports', { set: ['a', 'b'], l: ['x'] }), 'three'),
  apply(`${THINGS}/conflict-ports`, thing('conflict-ports', { set: ['b', 'c'], l: ['y'] }), 'four'),
)
scenario(
  'a conflict with a subresource',
  create(DEPLOYMENTS, deployment('conflict-scale'), '?fieldManager=creator'),
  patch('merge', `${DEPLOYMENTS}/conflict-scale/scale`, { spec: { replicas: 3 } }, '?fieldManager=scaler'),
  apply(`${DEPLOYMENTS}/conflict-scale`, deployment('conflict-scale', { replicas: 5 })),
  apply(
    `${DEPLOYMENTS}/conflict-scale`,
    deployment('conflict-scale', {
      replicas: 5,
      template: { metadata: { labels: { app: 'a' } }, spec: { containers: [{ ...CONTAINER, image: 'other' }] } },
    }),
  ),
  apply(
    `${DEPLOYMENTS}/conflict-scale/status`,
    { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'conflict-scale' }, status: { replicas: 2 } },
    'stater',
  ),
  apply(
    `${DEPLOYMENTS}/conflict-scale/status`,
    { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'conflict-scale' }, status: { replicas: 4 } },
    'other',
  ),
)
scenario(
  'applies that are not taken',
  apply(`${CONFIG_MAPS}/untaken`, { metadata: { name: 'untaken' } }),
  apply(`${CONFIG_MAPS}/untaken`, { apiVersion: 'v1', metadata: { name: 'untaken' } }),
  apply(`${CONFIG_MAPS}/untaken`, configMap('another')),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', {}, { namespace: 'other' })),
  apply(`${CONFIG_MAPS}/untaken`, { ...configMap('untaken'), kind: 'Secret' }),
  apply(`${CONFIG_MAPS}/untaken`, { ...configMap('untaken'), apiVersion: 'v2' }),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', {}, { managedFields: [{ manager: 'a' }] })),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', {}, { resourceVersion: '5' })),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', {}, { uid: 'abc' })),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', { data: { a: 1 } })),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', { data: ['a'] })),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', { other: 1 })),
  apply(`${CONFIG_MAPS}/untaken`, ''),
  apply(`${CONFIG_MAPS}/untaken`, '[]'),
  apply(`${CONFIG_MAPS}/untaken`, 'a: b: c'),
  apply(`${CONFIG_MAPS}/untaken`, { apiVersion: 'v1', kind: 'ConfigMap' }),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', {}, { resourceVersion: '5' })),
  apply(`${CONFIG_MAPS}/untaken`, configMap('untaken', {}, { uid: 'abc' })),
  apply(`${TEMPLATES}/untaken`, template('untaken', { containers: [CONTAINER, CONTAINER] })),
  apply(`${TEMPLATES}/untaken`, template('untaken', { containers: [{ image: 'i' }] })),
  apply(`${THINGS}/untaken`, thing('untaken', { n: 'text' })),
  apply(`${THINGS}/untaken`, thing('untaken', { odd: 1 })),
  apply(`${THINGS}/untaken`, thing('untaken', ports({ name: 'x' }))),
)
scenario(
  'an apply of everything',
  apply(
    `${DEPLOYMENTS}/applied`,
    deployment('applied', {
      template: {
        metadata: { labels: { app: 'a' } },
        spec: {
          containers: [
            {
              ...CONTAINER,
              env: [{ name: 'A', value: '1' }],
              ports: [{ containerPort: 80 }, { containerPort: 81, protocol: 'UDP' }],
              args: ['x'],
            },
          ],
          imagePullSecrets: [{ name: 's' }],
        },
      },
    }),
  ),
  apply(
    `${DEPLOYMENTS}/applied`,
    deployment('applied', {
      template: {
        metadata: { labels: { app: 'a' } },
        spec: { containers: [{ ...CONTAINER, env: [{ name: 'B', value: '1' }], ports: [{ containerPort: 80 }] }] },
      },
    }),
  ),
  apply(
    `${DEPLOYMENTS}/applied`,
    deployment('applied', {
      template: { metadata: { labels: { app: 'a' } }, spec: { containers: [{ name: 'd', image: 'j' }] } },
    }),
    'two',
  ),
  apply(
    `${DEPLOYMENTS}/applied`,
    deployment('applied', { selector: { matchLabels: { app: 'b' } } }),
    'one',
    '&force=true',
  ),
)

// Replaces.
scenario(
  'replaces',
  create(CONFIG_MAPS, configMap('replaced', { data: { a: '1' } })),
  replace(`${CONFIG_MAPS}/replaced`, configMap('replaced', { data: { a: '2' } })),
  replace(`${CONFIG_MAPS}/replaced`, configMap('replaced', { data: { a: '3' } }, { resourceVersion: '1' })),
  replace(`${CONFIG_MAPS}/replaced`, configMap('replaced', { data: { a: '3' } }, { resourceVersion: 'x' })),
  replace(`${CONFIG_MAPS}/replaced`, configMap('replaced', { data: { a: '3' } }, { resourceVersion: '0' })),
  replace(`${CONFIG_MAPS}/replaced`, configMap('replaced', { data: { a: '3' } }, { uid: 'other' })),
  replace(`${CONFIG_MAPS}/replaced`, configMap('another')),
  replace(`${CONFIG_MAPS}/replaced`, configMap('replaced', {}, { namespace: 'other' })),
  replace(`${CONFIG_MAPS}/replaced`, { apiVersion: 'v1', kind: 'ConfigMap', metadata: {} }),
  replace(`${CONFIG_MAPS}/replaced`, {}),
  replace(`${CONFIG_MAPS}/replaced`, ''),
  replace(`${CONFIG_MAPS}/not-there`, configMap('not-there')),
  replace(`${CONFIG_MAPS}/not-there`, configMap('not-there', {}, { resourceVersion: '5' })),
  replace(`${CONFIG_MAPS}/not-there`, configMap('not-there', {}, { uid: 'u' })),
  replace(
    `${CONFIG_MAPS}/replaced`,
    configMap(
      'replaced',
      {},
      { deletionTimestamp: '2020-01-01T00:00:00Z', creationTimestamp: '2020-01-01T00:00:00Z', generation: 5 },
    ),
  ),
)
scenario(
  'replaces of a thing',
  create(THINGS, thing('replaced', { n: 1 })),
  replace(`${THINGS}/replaced`, thing('replaced', { n: 2 })),
  replace(`${THINGS}/replaced`, thing('replaced', { n: 2 }, { resourceVersion: '1' })),
  replace(`${THINGS}/replaced`, thing('replaced', { n: 2 }, { resourceVersion: 'x' })),
  replace(`${THINGS}/not-there`, thing('not-there')),
  patch('json', `${THINGS}/replaced`, [{ op: 'remove', path: '/metadata/resourceVersion' }]),
  patch('merge', `${THINGS}/replaced`, { metadata: { resourceVersion: '1' } }),
  patch('merge', `${THINGS}/replaced`, { metadata: { resourceVersion: '' } }),
)
scenario(
  'immutable configuration',
  create(CONFIG_MAPS, configMap('immutable', { data: { a: '1' }, immutable: true })),
  patch('merge', `${CONFIG_MAPS}/immutable`, { data: { a: '2' } }),
  patch('merge', `${CONFIG_MAPS}/immutable`, { immutable: false, binaryData: { b: 'dg==' }, data: null }),
  patch('merge', `${CONFIG_MAPS}/immutable`, { immutable: null }),
  patch('merge', `${CONFIG_MAPS}/immutable`, { metadata: { labels: { a: 'b' } } }),
)

// Patches.
scenario(
  'patches',
  create(CONFIG_MAPS, configMap('patched', { data: { a: '1' } })),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { name: 'other' } }),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { namespace: 'other' } }),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { uid: 'other' } }),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { resourceVersion: '1' } }),
  patch('merge', `${CONFIG_MAPS}/patched`, { kind: 'Secret' }),
  patch('merge', `${CONFIG_MAPS}/patched`, { apiVersion: 'v2' }),
  patch('merge', `${CONFIG_MAPS}/patched`, { data: { a: 1 } }),
  patch('merge', `${CONFIG_MAPS}/patched`, { data: 'text' }),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { labels: { 'a b': 'c' } } }),
  patch('merge', `${CONFIG_MAPS}/patched`, {
    metadata: { creationTimestamp: null, generation: 7, deletionTimestamp: '2020-01-01T00:00:00Z' },
  }),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { managedFields: [] } }),
  patch('merge', `${CONFIG_MAPS}/patched`, { metadata: { managedFields: [{}] } }),
  patch('merge', `${CONFIG_MAPS}/patched`, '{'),
  patch('merge', `${CONFIG_MAPS}/patched`, '1'),
  patch('merge', `${CONFIG_MAPS}/patched`, '"text"'),
  patch('merge', `${CONFIG_MAPS}/patched`, 'null'),
  patch('merge', `${CONFIG_MAPS}/patched`, ''),
  patch('strategic', `${CONFIG_MAPS}/patched`, ''),
  patch('strategic', `${CONFIG_MAPS}/patched`, '[]'),
  patch('strategic', `${CONFIG_MAPS}/patched`, 'null'),
  patch('strategic', `${CONFIG_MAPS}/patched`, { metadata: { name: 'other' } }),
  patch('strategic', `${CONFIG_MAPS}/patched`, { data: { a: 1 } }),
  patch('strategic', `${CONFIG_MAPS}/patched`, { data: 'text' }),
  patch('json', `${CONFIG_MAPS}/patched`, ''),
  patch('json', `${CONFIG_MAPS}/patched`, '{}'),
  patch('json', `${CONFIG_MAPS}/patched`, []),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'test', path: '/data/z', value: '2' }]),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'remove', path: '/data/none' }]),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'odd', path: '/data' }]),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'add', path: '/data/n', value: 1 }]),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'replace', path: '/metadata/name', value: 'other' }]),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'remove', path: '/metadata' }]),
  patch('json', `${CONFIG_MAPS}/patched`, [{ op: 'remove', path: '/kind' }]),
  patch('strategic', `${THINGS}/patched`, {}),
  patch('merge', `${CONFIG_MAPS}/not-there`, {}),
  patch('json', `${CONFIG_MAPS}/not-there`, []),
  patch('strategic', `${CONFIG_MAPS}/not-there`, {}),
  { ...patch('merge', `${CONFIG_MAPS}/patched`, {}), type: 'application/json' },
  { ...patch('merge', `${CONFIG_MAPS}/patched`, {}), type: 'application/odd' },
  { ...patch('merge', `${CONFIG_MAPS}/patched`, {}), type: '' },
  { ...patch('merge', `${CONFIG_MAPS}/patched`, {}), type: 'application/merge-patch+json; charset=utf-8' },
)
scenario(
  'patches of a thing',
  create(THINGS, thing('patched', { n: 1, m: { a: 'b' }, l: ['a'], ports: [{ port: 1 }] })),
  patch('merge', `${THINGS}/patched`, { spec: { n: 'text' } }),
  patch('merge', `${THINGS}/patched`, { spec: { ports: [{ port: 2 }, { port: 2 }] } }),
  patch('merge', `${THINGS}/patched`, { spec: { set: ['a', 'a'] } }),
  patch('merge', `${THINGS}/patched`, { spec: { l: 'text', n: 1.5 } }),
  patch('merge', `${THINGS}/patched`, { spec: { m: { a: null, b: 'c' } } }),
  patch('merge', `${THINGS}/patched`, { metadata: { name: 'other' } }),
  patch('merge', `${THINGS}/patched`, { metadata: { uid: 'other' } }),
  patch('merge', `${THINGS}/patched`, { metadata: { namespace: 'other' } }),
  patch('merge', `${THINGS}/patched`, { kind: 'Other' }),
  patch('merge', `${THINGS}/patched`, { apiVersion: 'writes.example.com/v2' }),
  patch('merge', `${THINGS}/patched`, { metadata: { labels: { 'a b': 'c' }, generation: 9 } }),
  patch('merge', `${THINGS}/patched`, { metadata: { labels: { a: 1 } } }),
  patch('json', `${THINGS}/patched`, [{ op: 'remove', path: '/spec' }]),
  patch('json', `${THINGS}/patched`, [{ op: 'remove', path: '/metadata' }]),
  patch('json', `${THINGS}/patched`, [{ op: 'remove', path: '/kind' }]),
  patch('merge', `${THINGS}/patched`, { metadata: null }),
  patch('merge', `${THINGS}/patched`, { spec: { ports: [{ name: 'x' }] } }),
)
scenario(
  'strategic patches',
  create(DEPLOYMENTS, deployment('strategic')),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    spec: { template: { spec: { containers: [{ name: 'd', image: 'j' }] } } },
  }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    spec: { template: { spec: { containers: [{ name: 'd', $patch: 'delete' }] } } },
  }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { spec: { template: { spec: { containers: [{ image: 'j' }] } } } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    spec: { template: { spec: { containers: [{ name: 'c', ports: [{ containerPort: 80 }] }] } } },
  }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    spec: {
      template: {
        spec: { containers: [{ name: 'c', ports: [{ containerPort: 80, protocol: 'UDP' }, { containerPort: 81 }] }] },
      },
    },
  }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { spec: { template: { spec: { $setElementOrder: 1 } } } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    spec: {
      template: {
        spec: {
          '$setElementOrder/containers': [{ name: 'e' }, { name: 'c' }],
          containers: [{ name: 'e', image: 'e' }],
        },
      },
    },
  }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { spec: { strategy: { $retainKeys: ['type'], type: 'Recreate' } } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    metadata: { finalizers: ['example.com/a'], '$deleteFromPrimitiveList/finalizers': ['example.com/b'] },
  }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { spec: { replicas: 'many' } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { spec: { replicas: 3000000000 } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { odd: 1, spec: { odd: 2 } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, { status: { replicas: 3 } }),
  patch('strategic', `${DEPLOYMENTS}/strategic`, {
    spec: { template: { metadata: { annotations: { 'kubectl.kubernetes.io/restartedAt': 'now' } } } },
  }),
)

// Subresources.
scenario(
  'scale',
  create(DEPLOYMENTS, deployment('scaled')),
  get(`${DEPLOYMENTS}/scaled/scale`),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { spec: { replicas: 3 } }),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { spec: { replicas: -1 } }),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { spec: { replicas: 'x' } }),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { metadata: { resourceVersion: '1' }, spec: { replicas: 4 } }),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { metadata: { name: 'other' } }),
  patch('json', `${DEPLOYMENTS}/scaled/scale`, [{ op: 'replace', path: '/spec/replicas', value: 2 }]),
  patch('strategic', `${DEPLOYMENTS}/scaled/scale`, { spec: { replicas: 1 } }),
  replace(`${DEPLOYMENTS}/scaled/scale`, {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name: 'scaled', namespace: 'default' },
    spec: { replicas: 5 },
  }),
  replace(`${DEPLOYMENTS}/scaled/scale`, { metadata: { name: 'scaled' }, spec: { replicas: 6 } }),
  replace(`${DEPLOYMENTS}/scaled/scale`, {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name: 'other' },
    spec: { replicas: 6 },
  }),
  replace(`${DEPLOYMENTS}/scaled/scale`, {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name: 'scaled', resourceVersion: '1' },
    spec: { replicas: 6 },
  }),
  replace(`${DEPLOYMENTS}/scaled/scale`, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'scaled' },
    spec: { replicas: 6 },
  }),
  replace(`${DEPLOYMENTS}/scaled/scale`, {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name: 'scaled' },
    spec: {},
  }),
  apply(
    `${DEPLOYMENTS}/scaled/scale`,
    { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'scaled' }, spec: { replicas: 7 } },
    'scaler',
  ),
  apply(
    `${DEPLOYMENTS}/scaled/scale`,
    { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'scaled' }, spec: { replicas: 7 } },
    'scaler',
    '&force=true',
  ),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { spec: { replicas: 3, odd: 1 } }, '?fieldValidation=Strict'),
  patch('merge', `${DEPLOYMENTS}/scaled/scale`, { spec: { replicas: 9 } }, '?dryRun=All'),
  get(`${DEPLOYMENTS}/scaled`),
  get(`${DEPLOYMENTS}/not-there/scale`),
  patch('merge', `${DEPLOYMENTS}/not-there/scale`, { spec: { replicas: 3 } }),
  get(`${CONFIG_MAPS}/scaled/scale`),
  create(`${DEPLOYMENTS}/scaled/scale`, {}),
  remove(`${DEPLOYMENTS}/scaled/scale`),
)
scenario(
  'status',
  create(DEPLOYMENTS, deployment('stated')),
  get(`${DEPLOYMENTS}/stated/status`),
  patch('merge', `${DEPLOYMENTS}/stated/status`, {
    status: { replicas: 3 },
    spec: { replicas: 9 },
    metadata: { labels: { a: 'b' } },
  }),
  patch('strategic', `${DEPLOYMENTS}/stated/status`, {
    status: { conditions: [{ type: 'Available', status: 'True' }] },
  }),
  replace(`${DEPLOYMENTS}/stated/status`, { ...deployment('stated'), status: { replicas: 1, availableReplicas: 2 } }),
  replace(`${DEPLOYMENTS}/stated/status`, { ...deployment('stated'), status: { replicas: 1 } }),
  replace(`${DEPLOYMENTS}/stated/status`, { ...deployment('stated'), status: {} }),
  patch('merge', `${DEPLOYMENTS}/stated`, { status: { replicas: 7 } }),
  patch('merge', `${DEPLOYMENTS}/not-there/status`, {}),
  remove(`${DEPLOYMENTS}/stated/status`),
  create(`${DEPLOYMENTS}/stated/status`, {}),
  get(`${CONFIG_MAPS}/stated/status`),
  get(`${THINGS}/stated/status`),
  patch('merge', `${THINGS}/stated/status`, {}),
  get(`${DEPLOYMENTS}/stated/odd`),
)

// Deletes.
scenario(
  'deletes',
  remove(`${CONFIG_MAPS}/not-there`),
  create(CONFIG_MAPS, configMap('deleted')),
  remove(`${CONFIG_MAPS}/deleted`, { preconditions: { uid: 'other' } }),
  remove(`${CONFIG_MAPS}/deleted`, { preconditions: { resourceVersion: '1' } }),
  remove(`${CONFIG_MAPS}/deleted`, { preconditions: { uid: '' } }),
  remove(`${CONFIG_MAPS}/deleted`, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'deleted' } }),
  create(CONFIG_MAPS, configMap('deleted')),
  remove(`${CONFIG_MAPS}/deleted`, { kind: 'Odd', apiVersion: 'v1' }),
  remove(`${CONFIG_MAPS}/deleted`, { odd: 1 }),
  create(CONFIG_MAPS, configMap('deleted')),
  remove(`${CONFIG_MAPS}/deleted`, '{'),
  remove(`${CONFIG_MAPS}/deleted`, '[]'),
  remove(`${CONFIG_MAPS}/deleted`, { gracePeriodSeconds: 'x' }),
  remove(`${CONFIG_MAPS}/deleted`, { gracePeriodSeconds: -1, propagationPolicy: 'Odd' }),
  remove(`${CONFIG_MAPS}/deleted`, { orphanDependents: true, propagationPolicy: 'Background' }),
  remove(`${CONFIG_MAPS}/deleted`, { dryRun: ['Odd'] }),
  remove(`${CONFIG_MAPS}/deleted`, { dryRun: ['All'] }),
  remove(`${CONFIG_MAPS}/deleted`, undefined, '?dryRun=All'),
  remove(`${CONFIG_MAPS}/deleted`, undefined, '?propagationPolicy=Odd'),
  remove(`${CONFIG_MAPS}/deleted`, undefined, '?gracePeriodSeconds=x'),
  remove(`${CONFIG_MAPS}/deleted`, undefined, '?gracePeriodSeconds=-5'),
  create(CONFIG_MAPS, configMap('deleted')),
  remove(`${CONFIG_MAPS}/deleted`, { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: 'Background' }),
  remove(`${CONFIG_MAPS}/deleted`, { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: 'Background' }),
  create(CONFIG_MAPS, configMap('deleted')),
  remove(
    `${CONFIG_MAPS}/deleted`,
    { apiVersion: 'meta.k8s.io/v1', kind: 'DeleteOptions' },
    '?propagationPolicy=Background',
  ),
)
for (const policy of ['Foreground', 'Orphan', 'Background']) {
  const own = `propagated-${policy.toLowerCase()}`
  scenario(
    `a delete in the way of ${policy}`,
    create(CONFIG_MAPS, configMap(own)),
    remove(`${CONFIG_MAPS}/${own}`, { propagationPolicy: policy }),
    get(`${CONFIG_MAPS}/${own}`),
    remove(`${CONFIG_MAPS}/${own}`),
    patch('merge', `${CONFIG_MAPS}/${own}`, { metadata: { finalizers: null } }),
    get(`${CONFIG_MAPS}/${own}`),
    create(THINGS, thing(own)),
    remove(`${THINGS}/${own}`, undefined, `?propagationPolicy=${policy}`),
    get(`${THINGS}/${own}`),
    patch('json', `${THINGS}/${own}`, [{ op: 'remove', path: '/metadata/finalizers' }]),
    get(`${THINGS}/${own}`),
  )
}
scenario(
  'a delete with a finalizer',
  create(CONFIG_MAPS, configMap('held', {}, { finalizers: ['example.com/a', 'example.com/b'] })),
  remove(`${CONFIG_MAPS}/held`),
  get(`${CONFIG_MAPS}/held`),
  remove(`${CONFIG_MAPS}/held`),
  remove(`${CONFIG_MAPS}/held`, undefined, '?dryRun=All'),
  patch('merge', `${CONFIG_MAPS}/held`, { data: { a: 'b' } }),
  patch('merge', `${CONFIG_MAPS}/held`, { metadata: { finalizers: ['example.com/a', 'example.com/c'] } }),
  patch('merge', `${CONFIG_MAPS}/held`, { metadata: { finalizers: ['example.com/a'], deletionTimestamp: null } }),
  create(CONFIG_MAPS, configMap('held')),
  patch('merge', `${CONFIG_MAPS}/held`, { metadata: { finalizers: [] } }, '?dryRun=All'),
  patch('merge', `${CONFIG_MAPS}/held`, { metadata: { finalizers: [] } }),
  get(`${CONFIG_MAPS}/held`),
)
scenario(
  'a delete of a thing with a finalizer',
  create(THINGS, thing('held', { n: 1 }, { finalizers: ['example.com/a'] })),
  remove(`${THINGS}/held`),
  patch('merge', `${THINGS}/held`, { spec: { n: 2 } }),
  patch('merge', `${THINGS}/held`, { metadata: { finalizers: ['example.com/b'] } }),
  replace(`${THINGS}/held`, thing('held', { n: 3 }, { finalizers: ['example.com/a'] })),
  patch('merge', `${THINGS}/held`, { metadata: { finalizers: null } }),
  get(`${THINGS}/held`),
)
scenario(
  'a delete of a deployment',
  create(DEPLOYMENTS, deployment('deleted')),
  remove(`${DEPLOYMENTS}/deleted`, { propagationPolicy: 'Foreground' }),
  remove(`${DEPLOYMENTS}/deleted`, { propagationPolicy: 'Orphan' }),
  patch('merge', `${DEPLOYMENTS}/deleted`, { metadata: { finalizers: null } }),
)
scenario(
  'a delete of a collection',
  create(CONFIG_MAPS, configMap('collected-a', {}, { labels: { collected: 'yes' } })),
  create(CONFIG_MAPS, configMap('collected-b', {}, { labels: { collected: 'yes' }, finalizers: ['example.com/a'] })),
  remove(CONFIG_MAPS, undefined, '?labelSelector=collected%3Dyes&dryRun=All'),
  remove(CONFIG_MAPS, undefined, '?labelSelector=collected%3Dyes'),
  remove(CONFIG_MAPS, undefined, '?labelSelector=collected%3D%3D%3D'),
  remove(CONFIG_MAPS, { propagationPolicy: 'Odd' }, '?labelSelector=collected%3Dno'),
  remove(CONFIG_MAPS, undefined, '?labelSelector=collected%3Dno'),
  get(`${CONFIG_MAPS}/collected-b`),
)

// The requests that kubectl sends for one object.
const LAST = 'kubectl.kubernetes.io/last-applied-configuration'
scenario(
  'kubectl apply on the client side',
  create(
    DEPLOYMENTS,
    {
      ...deployment('client-side'),
      metadata: { name: 'client-side', namespace: 'default', annotations: { [LAST]: '{}\n' } },
    },
    '?fieldManager=kubectl-client-side-apply&fieldValidation=Strict',
  ),
  patch(
    'strategic',
    `${DEPLOYMENTS}/client-side`,
    {
      metadata: { annotations: { [LAST]: '{"a":1}\n' } },
      spec: {
        replicas: 2,
        template: {
          spec: { '$setElementOrder/containers': [{ name: 'c' }], containers: [{ name: 'c', image: 'new' }] },
        },
      },
    },
    '?fieldManager=kubectl-client-side-apply&fieldValidation=Strict',
  ),
  patch(
    'strategic',
    `${DEPLOYMENTS}/client-side`,
    { metadata: { annotations: { [LAST]: '{"a":2}\n' } }, spec: { replicas: null } },
    '?fieldManager=kubectl-client-side-apply&fieldValidation=Strict',
  ),
)
scenario(
  'kubectl apply on the server side after the client side',
  create(
    DEPLOYMENTS,
    {
      ...deployment('migrated'),
      metadata: {
        name: 'migrated',
        annotations: {
          [LAST]:
            '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{},"name":"migrated","namespace":"default"},"spec":{"replicas":1}}\n',
        },
      },
    },
    '?fieldManager=kubectl-client-side-apply',
  ),
  patch(
    'apply',
    `${DEPLOYMENTS}/migrated`,
    deployment('migrated', { replicas: 2 }),
    '?fieldManager=kubectl&force=false',
  ),
  patch(
    'apply',
    `${DEPLOYMENTS}/migrated`,
    deployment('migrated', { replicas: 2 }),
    '?fieldManager=kubectl&force=true',
  ),
)
scenario(
  'kubectl label and annotate',
  create(CONFIG_MAPS, configMap('labelled')),
  patch('merge', `${CONFIG_MAPS}/labelled`, { metadata: { labels: { app: 'web' } } }, '?fieldManager=kubectl-label'),
  patch(
    'merge',
    `${CONFIG_MAPS}/labelled`,
    { metadata: { annotations: { note: 'x' } } },
    '?fieldManager=kubectl-annotate',
  ),
  patch('merge', `${CONFIG_MAPS}/labelled`, { metadata: { labels: { app: null } } }, '?fieldManager=kubectl-label'),
  patch(
    'merge',
    `${CONFIG_MAPS}/labelled`,
    { metadata: { annotations: { note: null } } },
    '?fieldManager=kubectl-annotate',
  ),
)
scenario(
  'a replication controller',
  create(CONTROLLERS, {
    apiVersion: 'v1',
    kind: 'ReplicationController',
    metadata: { name: 'controller' },
    spec: {
      replicas: 0,
      selector: { a: 'b' },
      template: { metadata: { labels: { a: 'b' } }, spec: { containers: [CONTAINER] } },
    },
  }),
  patch('merge', `${CONTROLLERS}/controller/scale`, { spec: { replicas: 2 } }),
  get(`${CONTROLLERS}/controller/scale`),
)

// Keys and numbers of YAML.
const YAML_KEYS = [
  '1',
  '-1',
  '2147483647',
  '2147483648',
  '-2147483649',
  '4294967296',
  '9007199254740993',
  '9223372036854775807',
  '9223372036854775808',
  '-9223372036854775808',
  '-9223372036854775809',
  '18446744073709551615',
  '18446744073709551616',
  '1e3',
  '1.5',
  '1000000.5',
  '123456789.125',
  '1e30',
  '1e300',
  '0x1F',
  '0o17',
  '017',
  '0b11',
  '1_000',
  'true',
  'yes',
  'on',
  'null',
  '~',
  '.inf',
  '-.inf',
  '.nan',
  '.5',
  '5.',
  '+1',
  '-0',
  '0.1',
  '2020-01-01',
  '1:30',
  '0xFFFFFFFFFFFFFFFF',
  '-0x8000000000000000',
  '"1"',
  '!!str 1',
  '!!int 1',
  '!!float 1',
]
YAML_KEYS.forEach((key, i) => {
  const head = `apiVersion: writes.example.com/v1\nkind: Thing\nmetadata:\n  name: yaml-${i}`
  scenario(`YAML key ${key}`, createYaml(THINGS, `${head}-key\nspec:\n  any:\n    ${key}: v\n`))
  scenario(`YAML value ${key}`, createYaml(THINGS, `${head}-value\nspec:\n  any:\n    v: ${key}\n`))
})

// What PUT creates.
const PUTS: readonly (readonly [path: string, object: Fields])[] = [
  ['/apis/node.k8s.io/v1/runtimeclasses', { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', handler: 'h' }],
  [
    '/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates',
    {
      apiVersion: 'coordination.k8s.io/v1beta1',
      kind: 'LeaseCandidate',
      spec: { leaseName: 'l', strategy: 'OldestEmulationVersion', binaryVersion: '1.37.0', emulationVersion: '1.37.0' },
    },
  ],
  [
    '/apis/coordination.k8s.io/v1alpha2/namespaces/default/leasecandidates',
    {
      apiVersion: 'coordination.k8s.io/v1alpha2',
      kind: 'LeaseCandidate',
      spec: { leaseName: 'l', strategy: 'OldestEmulationVersion', binaryVersion: '1.37.0', emulationVersion: '1.37.0' },
    },
  ],
  [
    '/apis/coordination.k8s.io/v1/namespaces/default/leases',
    { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', spec: {} },
  ],
  [`${CORE}/limitranges`, { apiVersion: 'v1', kind: 'LimitRange', spec: { limits: [] } }],
  [`${CORE}/endpoints`, { apiVersion: 'v1', kind: 'Endpoints' }],
  [ROLES, { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', rules: [] }],
  [
    '/apis/rbac.authorization.k8s.io/v1/clusterroles',
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', rules: [] },
  ],
  [
    '/apis/storage.k8s.io/v1/storageclasses',
    { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', provisioner: 'p' },
  ],
  [
    '/apis/scheduling.k8s.io/v1/priorityclasses',
    { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', value: 1 },
  ],
  [`${CORE}/serviceaccounts`, { apiVersion: 'v1', kind: 'ServiceAccount' }],
  ['/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace' }],
]
for (const [path, object] of PUTS) {
  const kind = String(object['kind'])
  const named = (metadata: Fields): Fields => ({ ...object, metadata: { name: 'put', ...metadata } })
  scenario(
    `a PUT of a ${kind} at ${path.split('/')[3] ?? ''}`,
    replace(`${path}/put`, named({ resourceVersion: '4' })),
    replace(`${path}/put`, named({ uid: 'u' })),
    replace(`${path}/put`, named({})),
    replace(`${path}/put`, named({ labels: { a: 'b' } })),
    remove(`${path}/put`),
  )
}

// How values are spelled: numbers, text, and the types of Go that are text. A body is text, because `JSON.stringify`
// would spell them its own way.
const HALVES = '\\ud800'
/** Every way to write the member of a spec, each to a fresh object, and an update that spells it in the same way. */
function spelled(
  name: string,
  path: string,
  [head, field]: readonly [string, string],
  values: readonly string[],
): void {
  const patches = (value: string): readonly (readonly [keyof typeof TYPES, string])[] => [
    ['json', `[{"op":"add","path":"/${field.replaceAll('.', '/')}","value":${value}}]`],
    ['merge', nested(value)],
    ...(path === THINGS ? [] : [['strategic', nested(value)] as const]),
  ]
  const nested = (value: string): string => field.split('.').reduceRight((inner, one) => `{"${one}":${inner}}`, value)
  const whole = (object: string, value: string): string =>
    `{${head},"metadata":{"name":"${object}"},${nested(value).slice(1)}`
  values.forEach((value, i) => {
    const object = `${name.replaceAll(' ', '-')}-${i}`
    scenario(
      `${name} ${value}`,
      create(path, whole(object, value)),
      ...(path === THINGS ? [] : [replace(`${path}/${object}`, whole(object, value))]),
      ...patches(value).map(([type, body]) => patch(type, `${path}/${object}`, body)),
      apply(`${path}/${object}-applied`, whole(`${object}-applied`, value)),
      apply(`${path}/${object}-applied`, whole(`${object}-applied`, value), 'two'),
      createYaml(path, whole(`${object}-yaml`, value)),
    )
  })
}
const THING_HEAD = '"apiVersion":"writes.example.com/v1","kind":"Thing"'
const NUMBERS = [
  '0',
  '-0',
  '-0.0',
  '0.0',
  '1.0',
  '1.50',
  '1e3',
  '1E3',
  '10e-1',
  '1e-7',
  '1e21',
  '0.1e1',
  '-1.0',
  '123456789012.0',
  '9007199254740993',
  '-9007199254740993',
  '9223372036854775807',
  '9223372036854775808',
  '-9223372036854775808',
  '-9223372036854775809',
  '18446744073709551615',
  '1e-400',
  '0.30000000000000004000',
]
for (const field of ['n', 'f', 'any.v', 'replicas'])
  spelled(`number in ${field.replace('.', '-')}`, THINGS, [THING_HEAD, `spec.${field}`], NUMBERS)
spelled('text of a thing', THINGS, [THING_HEAD, 'spec.s'], [`"${HALVES}!"`, `"\\ud83d\\ude00"`, `"\\udfff${HALVES}"`])
spelled(
  'preserved text',
  THINGS,
  [THING_HEAD, 'spec.any'],
  [`{"${HALVES}":["${HALVES}",{"a":"b\\udc00"}]}`, `{"l":[1.0,[2e0,-0.0]],"m":{"x":9223372036854775808}}`],
)
spelled('amount', THINGS, [THING_HEAD, 'spec.amount'], ['"1000m"', '1.0', '1e3', '-0', '"1.0"', '9007199254740993'])
spelled('date-time', THINGS, [THING_HEAD, 'spec.when'], ['"2020-01-01T01:02:03.5+01:00"', '"2020-01-01t00:00:00z"'])
spelled(
  'set of numbers',
  THINGS,
  [THING_HEAD, 'spec.numbers'],
  ['[1,1.0]', '[1.0,2]', '[1e3,1000]', '[0,-0.0]', '[-0]'],
)
spelled(
  'keyed by numbers',
  THINGS,
  [THING_HEAD, 'spec.ports'],
  ['[{"port":1},{"port":1.0}]', '[{"port":80.0,"name":"a"}]', '[{"port":1e3,"name":"a"},{"port":2}]'],
)
spelled(
  'embedded',
  THINGS,
  [THING_HEAD, 'spec.embedded'],
  [
    '{"apiVersion":"v1","kind":"X","metadata":{"creationTimestamp":"2020-01-01T01:02:03.5+01:00","generation":1.0}}',
    '{"apiVersion":"v1","kind":"X","metadata":{"creationTimestamp":"2020-01-01T01:02:03.5+01:00","labels":{"a":null}}}',
    '{"apiVersion":"v1","kind":"X","metadata":{"creationTimestamp":null,"generation":0,"name":""},"n":1.0}',
  ],
)
scenario(
  'items found by other spellings',
  apply(`${THINGS}/spellings`, `{${THING_HEAD},"spec":{"numbers":[1,2],"ports":[{"port":80,"name":"a"}],"n":3}}`),
  apply(
    `${THINGS}/spellings`,
    `{${THING_HEAD},"spec":{"numbers":[1.0,3],"ports":[{"port":8e1,"name":"b"}],"n":3.0}}`,
    'two',
  ),
  apply(`${THINGS}/spellings`, `{${THING_HEAD},"spec":{"numbers":[2.0],"ports":[],"n":3}}`),
  patch('json', `${THINGS}/spellings`, '[{"op":"test","path":"/spec/n","value":3.0}]'),
  patch('json', `${THINGS}/spellings`, '[{"op":"test","path":"/spec/n","value":30e-1}]'),
)
scenario(
  'scale of a thing',
  create(THINGS, `{${THING_HEAD},"metadata":{"name":"scaled"},"spec":{"replicas":2.0}}`),
  create(THINGS, `{${THING_HEAD},"metadata":{"name":"scaled"},"spec":{"replicas":2}}`),
  get(`${THINGS}/scaled/scale`),
  ...['3.0', '1e0', '-0', '2.5', '"1"', '9223372036854775808'].flatMap((value) => [
    patch('merge', `${THINGS}/scaled/scale`, `{"spec":{"replicas":${value}}}`),
    patch('json', `${THINGS}/scaled/scale`, `[{"op":"add","path":"/spec/replicas","value":${value}}]`),
    replace(
      `${THINGS}/scaled/scale`,
      `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"scaled"},"spec":{"replicas":${value}}}`,
    ),
  ]),
  get(`${THINGS}/scaled`),
)

const QUANTITIES = [
  '1',
  '1.0',
  '0.5',
  '1e9',
  '1E3',
  '-0',
  '0',
  '1e-10',
  '0.1e1',
  '1.500',
  '1000',
  '9223372036854775808',
  '12e2',
  '"1000m"',
  '"1"',
  '"+1"',
  '"01"',
  '"1.5Gi"',
  '"1024Mi"',
  '"8Gi"',
  '"+8Gi"',
  '"1500Mi"',
  '"0Gi"',
  '"0.5Ki"',
  '"-1.5k"',
  '"1.3Ki"',
  '"100000Ti"',
  '"16Ei"',
  '"1000E"',
  '"1e3"',
  '"1E-3"',
  '"1e1"',
  '"100e1"',
  '"1.5e3"',
  '"123456789012345678901"',
  '"0.0000000001"',
  '"1.23456789012k"',
  '"1000000"',
  '"1,5"',
  '"1 "',
  '" 1"',
  '"1kk"',
  '""',
  '"."',
  '".5"',
  '"5."',
  '"1n"',
  '"1000n"',
  '"0.1234567890123456789Mi"',
  '"-8.5Mi"',
  '"-1e-12"',
  '"1.000"',
  '"-1000"',
  '"1500u"',
  '"1e-9"',
  'null',
  'true',
]
spelled(
  'quantity',
  `${CORE}/limitranges`,
  ['"apiVersion":"v1","kind":"LimitRange"', 'spec'],
  QUANTITIES.map((value) => `{"limits":[{"type":"Pod","max":{"example.com/a":${value}}}]}`),
)
const TIMES = [
  '2020-01-01T01:02:03+01:00',
  '2020-01-01T01:02:03.5Z',
  '2020-01-01T01:02:03,5Z',
  '2020-01-01T01:02:03.123456-23:59',
  '0001-01-01T00:00:00Z',
  '2020-01-01T23:59:59.999999+24:60',
  '2020-02-30T00:00:00Z',
  '0000-01-01T00:00:00+01:00',
  '',
]
spelled(
  'time',
  `${CORE}/events`,
  ['"apiVersion":"v1","kind":"Event","involvedObject":{"namespace":"default"}', 'firstTimestamp'],
  [...TIMES.map((time) => `"${time}"`), 'null', '1'],
)
spelled(
  'micro time',
  '/apis/coordination.k8s.io/v1/namespaces/default/leases',
  ['"apiVersion":"coordination.k8s.io/v1","kind":"Lease"', 'spec.renewTime'],
  [...TIMES.map((time) => `"${time}"`), '"2020-01-01T01:02:03.500000+01:30"', '"0001-01-01T00:00:00.000000Z"', 'null'],
)
spelled(
  'bytes',
  SECRETS,
  ['"apiVersion":"v1","kind":"Secret"', 'data'],
  ['"YR=="', '"YW\\nJj"', '"YQ"', '""', 'null', '"!"', '"YWJj\\r\\n"', '1'].map((value) => `{"a":${value}}`),
)
spelled(
  'integer',
  DEPLOYMENTS,
  ['"apiVersion":"apps/v1","kind":"Deployment"', 'spec'],
  ['2.0', '1e0', '-0', '-0.0', '2.5', '"2"', '2147483648', '9223372036854775808'].map(
    (value) =>
      `{"replicas":${value},"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}`,
  ),
)
spelled(
  'port',
  TEMPLATES,
  ['"apiVersion":"v1","kind":"PodTemplate"', 'template'],
  ['80.0', '8e1', '"80"', '"http"', '-0', '80'].map(
    (port) => `{"spec":{"containers":[{"name":"c","image":"i","livenessProbe":{"tcpSocket":{"port":${port}}}}]}}`,
  ),
)
spelled(
  'text',
  CONFIG_MAPS,
  ['"apiVersion":"v1","kind":"ConfigMap"', 'data'],
  [`{"a":"${HALVES}!"}`, `{"a":"\\udc00\\ud800"}`, `{"${HALVES}":"a"}`, `{"a":"\\ud83d\\ude00"}`],
)
spelled(
  'raw',
  '/apis/apps/v1/namespaces/default/controllerrevisions',
  ['"apiVersion":"apps/v1","kind":"ControllerRevision","revision":-0', 'data'],
  [`{"a":1.0,"b":"${HALVES}","c":[1e3,-0.0,9223372036854775808]}`],
)

// Members that are unknown where they are not stored.
const UNKNOWN_STATUS = {
  spec: {
    replicas: 0,
    selector: { matchLabels: { a: 'b' } },
    template: { metadata: { labels: { a: 'b' } }, spec: { containers: [CONTAINER] } },
  },
  status: { nope: 1 },
}
const deploymentOf = (name: string, rest: Fields): Fields => ({ ...deployment(name), ...rest })
for (const validation of ['Strict', 'Warn', 'Ignore']) {
  const name = `status-${validation.toLowerCase()}`
  const query = `?fieldValidation=${validation}`
  scenario(
    `unknown members of a status, ${validation}`,
    create(DEPLOYMENTS, deploymentOf(name, UNKNOWN_STATUS), query),
    create(DEPLOYMENTS, deploymentOf(name, { spec: UNKNOWN_STATUS.spec })),
    replace(`${DEPLOYMENTS}/${name}`, deploymentOf(name, UNKNOWN_STATUS), query),
    replace(`${DEPLOYMENTS}/${name}/status`, deploymentOf(name, { spec: { nope: 1 }, status: {} }), query),
    patch('merge', `${DEPLOYMENTS}/${name}`, { status: { nope: 1 } }, query),
    patch('merge', `${DEPLOYMENTS}/${name}/status`, { spec: { nope: 1 } }, query),
    apply(
      `${DEPLOYMENTS}/${name}`,
      deploymentOf(name, { status: { nope: 1 } }),
      'one',
      `&fieldValidation=${validation}`,
    ),
    replace(
      `${DEPLOYMENTS}/${name}`,
      { ...deploymentOf(name, UNKNOWN_STATUS), metadata: { name, resourceVersion: '1' } },
      query,
    ),
  )
}
scenario(
  'warnings of refused writes',
  create(CONFIG_MAPS, configMap('refused', { data: { '/': 'x' }, nope: 1 })),
  create(CONFIG_MAPS, configMap('refused', { data: { a: 'x' } })),
  create(CONFIG_MAPS, configMap('refused', { data: { a: 'x' }, nope: 1 })),
  replace(`${CONFIG_MAPS}/refused`, configMap('refused', { data: { '/': 'x' }, nope: 1 })),
  replace(`${CONFIG_MAPS}/refused`, configMap('refused', { nope: 1 }, { resourceVersion: '1' })),
  patch('merge', `${CONFIG_MAPS}/refused`, { data: { '/': 'x' }, nope: 1 }),
  create(THINGS, thing('refused', { n: 'x', nope: 1 })),
  create('/api/v1/namespaces/absent/configmaps', configMap('refused', { nope: 1 })),
)

export const SCENARIOS: readonly Scenario[] = scenarios
