/**
 * Requests that have blocked a server's event loop, here or elsewhere, and similar ones. `bench -- loop` measures what
 * each costs, and a test checks that each is answered.
 *
 * They expect many pods outside the namespace `bad`, and the objects of `preparations`.
 */

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
  /** Send the body in chunks of this many bytes. Default: in one piece, with its length. */
  readonly chunkBytes?: number
  /** The user whose token is sent. Default: an administrator. */
  readonly user?: User
}

export interface BadRequest {
  readonly name: string
  /** @param scale 1 for the measured size; a smaller number makes the request smaller in proportion. */
  readonly request: (scale: number) => HttpRequest
  /** Allowed status codes, at any scale. */
  readonly answers: readonly number[]
  /** Requests that are sent once, before this one. */
  readonly before?: (scale: number) => readonly HttpRequest[]
  /**
   * How many watches of the request to open at once, each with `{i}` replaced by its number. They stay open until the
   * measurement ends.
   */
  readonly watches?: number
}

export type User = 'admin' | 'mallory'

/** The content of a token file, with lines of token, user, uid and groups. Each user's token is the user's name. */
export const TOKEN_FILE = 'admin,admin,1,system:masters\nmallory,mallory,2\nneighbour,neighbour,3,system:masters\n'

const PODS = '/api/v1/namespaces/bad/pods'
const VICTIM = `${PODS}/victim`
/** The pod that bursts get, and the one that another client gets during a burst. No request here changes or deletes them. */
export const [ASKED, BYSTANDER] = [
  '/api/v1/namespaces/calm/pods/asked',
  '/api/v1/namespaces/calm/pods/bystander',
] as const
const CONFIG_MAPS = '/api/v1/namespaces/bad/configmaps'
const REVIEWS = '/apis/authorization.k8s.io/v1'
const ROLES = '/apis/rbac.authorization.k8s.io/v1/clusterroles'
const BINDINGS = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings'
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const WIDGETS = '/apis/bench.example/v1/namespaces/bad/widgets'

const JSON_TYPE = 'application/json'
const JSON_PATCH = 'application/json-patch+json'
const MERGE_PATCH = 'application/merge-patch+json'
const STRATEGIC_PATCH = 'application/strategic-merge-patch+json'
const APPLY = 'application/apply-patch+yaml'
const YAML = 'application/yaml'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'

const WRITTEN = [200, 201] as const
const REFUSED = [400, 403, 409, 413, 422, 500, 504] as const

const count = (scale: number, full: number): number => Math.max(2, Math.round(full * scale))

function times<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => make(index))
}

const accepting = (type: string): { readonly headers: Readonly<Record<string, string>> } => ({
  headers: { accept: type },
})

function sending(method: HttpRequest['method'], path: string, type: string, body: unknown): HttpRequest {
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  return { method, path, headers: { 'content-type': type }, body: text }
}

let made = 0

function configMap(metadata: object, more: object = {}): HttpRequest {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `bad-${++made}`, ...metadata }, ...more }
  return sending('POST', CONFIG_MAPS, JSON_TYPE, object)
}

function widget(spec: object): HttpRequest {
  const object = { apiVersion: 'bench.example/v1', kind: 'Widget', metadata: { name: `bad-${++made}` }, spec }
  return sending('POST', WIDGETS, JSON_TYPE, object)
}

function definition(plural: string, kind: string, properties: object, more: object = {}): HttpRequest {
  const schema = { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties } } } }
  return sending('POST', DEFINITIONS, JSON_TYPE, {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.bench.example` },
    spec: {
      group: 'bench.example',
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
      scope: 'Namespaced',
      versions: [{ name: 'v1', served: true, storage: true, schema, ...more }],
    },
  })
}

function clusterRole(name: string, more: object, labels: object = {}): HttpRequest {
  const kind = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole' }
  return sending('POST', ROLES, JSON_TYPE, { ...kind, metadata: { name, labels }, ...more })
}

function boundToMallory(role: string): HttpRequest {
  return sending('POST', BINDINGS, JSON_TYPE, {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: `mallory-${role}` },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'mallory' }],
    roleRef: { kind: 'ClusterRole', apiGroup: 'rbac.authorization.k8s.io', name: role },
  })
}

/** Returns a protobuf body: an envelope around a pod with this many empty containers. */
function emptyMessages(messages: number): Buffer {
  const lengthDelimited = (field: number, bytes: Buffer): Buffer => {
    const header = [(field << 3) | 2]
    let { length } = bytes
    for (; length > 127; length >>>= 7) header.push((length & 127) | 128)
    return Buffer.concat([Buffer.from([...header, length]), bytes])
  }
  const typeMeta = Buffer.concat([lengthDelimited(1, Buffer.from('v1')), lengthDelimited(2, Buffer.from('Pod'))])
  const pod = lengthDelimited(2, Buffer.alloc(2 * messages, Buffer.from([0x12, 0x00])))
  return Buffer.concat([Buffer.from('k8s\0'), lengthDelimited(1, typeMeta), lengthDelimited(2, pod)])
}

function members(length: number): Record<string, string> {
  return Object.fromEntries(times(length, (i) => [`key-${i}`, `"${i}"`]))
}

function manyProperties(length: number): Record<string, object> {
  return Object.fromEntries(times(length, (i) => [`p${i}`, { type: 'string', description: 'a property' }]))
}

const absentLabels = (n: number): string => encodeURIComponent(times(n, (i) => `!absent-${i}`).join(','))

const large = { data: { text: 'line "one"\n'.repeat(60_000) } }
const LARGE = `${CONFIG_MAPS}/large`

/** The objects that are created before all of these requests. */
export const preparations: readonly HttpRequest[] = [
  sending('POST', '/api/v1/namespaces', JSON_TYPE, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'bad' },
  }),
  sending('POST', '/api/v1/namespaces', JSON_TYPE, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'calm' },
  }),
  ...[VICTIM, ASKED, BYSTANDER].map((path) =>
    sending('POST', path.slice(0, path.lastIndexOf('/')), JSON_TYPE, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: path.slice(path.lastIndexOf('/') + 1) },
      spec: { containers: [{ name: 'main', image: 'x' }] },
    }),
  ),
  definition(
    'widgets',
    'Widget',
    {
      text: { type: 'string', pattern: '^([a-z0-9]+-?)+$' },
      sizes: { type: 'array', items: { type: 'string', maxLength: 5 } },
      parts: {
        type: 'array',
        uniqueItems: false,
        items: { type: 'object', properties: { size: { type: 'integer' } } },
      },
    },
    { selectableFields: [{ jsonPath: '.spec.text' }] },
  ),
  sending('POST', CONFIG_MAPS, JSON_TYPE, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'large' },
    ...large,
  }),
]

export const badRequests: readonly BadRequest[] = [
  {
    name: 'JSON Patch: copies that double, and a test of them',
    request: (scale) => {
      const doubling = times(count(scale, 120), (i) => ({ op: 'copy', from: '/metadata', path: `/metadata/a${i}` }))
      return sending('PATCH', VICTIM, JSON_PATCH, [...doubling, { op: 'test', path: '/metadata', value: {} }])
    },
    answers: REFUSED,
  },
  {
    name: 'JSON Patch: 9,000 moves',
    request: (scale) => {
      const items = times(count(scale, 9_000), (i) => i)
      const add = { op: 'add', path: '/metadata/annotations', value: items }
      const moves = items.map(() => ({ op: 'move', from: '/metadata/annotations/0', path: '/metadata/annotations/-' }))
      return sending('PATCH', VICTIM, JSON_PATCH, [add, ...moves])
    },
    answers: REFUSED,
  },
  {
    name: 'JSON Patch: 9,000 items put in front',
    request: (scale) => {
      const adds = times(count(scale, 9_000), (i) => ({ op: 'add', path: '/metadata/finalizers/0', value: `x.y/${i}` }))
      return sending('PATCH', VICTIM, JSON_PATCH, [{ op: 'add', path: '/metadata/finalizers', value: [] }, ...adds])
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: '190,000 finalizers',
    request: (scale) => configMap({ finalizers: times(count(scale, 190_000), (i) => `a.b/${i}`) }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: '190,000 finalizers of one name',
    request: (scale) => configMap({ finalizers: times(count(scale, 190_000), () => 'a.b/c') }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: '60,000 owners',
    request: (scale) =>
      configMap({
        ownerReferences: times(count(scale, 30_000), (i) => ({
          apiVersion: 'v1',
          kind: 'Pod',
          name: 'p',
          uid: `${i}`,
        })),
      }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: '200,000 bad labels',
    request: (scale) => configMap({ labels: Object.fromEntries(times(count(scale, 200_000), (i) => [`!${i}`, ''])) }),
    answers: REFUSED,
  },
  {
    name: 'YAML of 300 KB with 99 aliases',
    request: (scale) => {
      const list = times(count(scale, 60_000), () => 'a').join(', ')
      const aliases = times(99, (i) => `  a${i}: *list`).join('\n')
      const text = `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: aliases\nlist: &list [${list}]\ndata:\n${aliases}\n`
      return sending('POST', CONFIG_MAPS, YAML, text)
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'YAML of 3 MB',
    request: (scale) => {
      const lines = times(count(scale, 150_000), (i) => `  key-${i}: "${i}"`).join('\n')
      return sending(
        'POST',
        CONFIG_MAPS,
        YAML,
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: lines}\ndata:\n${lines}\n`,
      )
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'strategic merge of 40,000 containers',
    request: (scale) => {
      const containers = times(count(scale, 40_000), (i) => ({ name: `c${i}`, image: 'x' }))
      return sending('PATCH', VICTIM, STRATEGIC_PATCH, { spec: { containers } })
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'apply of 60,000 containers',
    request: (scale) => {
      const containers = times(count(scale, 60_000), (i) => ({ name: `c${i}`, image: 'x' }))
      const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'victim' }, spec: { containers } }
      return sending('PATCH', `${VICTIM}?fieldManager=bench&force=true`, APPLY, object)
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'apply of 20,000 equal containers',
    request: (scale) => {
      const containers = times(count(scale, 20_000), () => ({ name: 'same', image: 'x' }))
      const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'victim' }, spec: { containers } }
      return sending('PATCH', `${VICTIM}?fieldManager=bench&force=true`, APPLY, object)
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'managed fields of 2 MB',
    request: (scale) => {
      const fieldsV1 = Object.fromEntries(times(count(scale, 120_000), (i) => [`f:a${i}`, {}]))
      return configMap({
        managedFields: [{ manager: 'm', operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 }],
      })
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'merge patch of an object of 660 KB',
    request: () => sending('PATCH', LARGE, MERGE_PATCH, { metadata: { labels: { n: String(++made) } } }),
    answers: WRITTEN,
  },
  {
    name: 'merge patch with 200,000 members',
    request: (scale) =>
      sending('PATCH', LARGE, MERGE_PATCH, {
        data: Object.fromEntries(times(count(scale, 200_000), (i) => [`k${i}`, null])),
      }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'JSON nested 400 deep, 1,000 times',
    request: (scale) => {
      const chain = `${'['.repeat(400)}${']'.repeat(400)}`
      const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deep"},"x":[${times(count(scale, 3_000), () => chain).join(',')}]}`
      return sending('POST', CONFIG_MAPS, JSON_TYPE, body)
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'JSON with 200,000 equal keys, checked strictly',
    request: (scale) => {
      const keys = times(count(scale, 200_000), () => '"k":"v"').join(',')
      const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"equal"},"data":{${keys}}}`
      return sending('POST', `${CONFIG_MAPS}?fieldValidation=Strict`, JSON_TYPE, body)
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'a text of 3 MB',
    request: (scale) => configMap({}, { data: { text: 'x'.repeat(count(scale, 3_000_000)) } }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'a body of 500 KB, a byte at a time',
    request: (scale) => ({ ...configMap({}, { data: { text: 'x'.repeat(count(scale, 500_000)) } }), chunkBytes: 1 }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'protobuf of 700,000 empty messages',
    request: (scale) => sending('POST', PODS, PROTOBUF, emptyMessages(count(scale, 700_000))),
    answers: REFUSED,
  },
  {
    name: 'definition of 20,000 properties',
    request: (scale) => {
      const plural = `large${++made}s`
      return definition(plural, `Large${made}`, manyProperties(count(scale, 20_000)))
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'pattern of a definition against 35 characters',
    request: () => widget({ text: `${'a'.repeat(35)}!` }),
    answers: REFUSED,
  },
  {
    name: 'pattern of a definition against 2 MB',
    request: (scale) => widget({ text: `${'a'.repeat(count(scale, 2_000_000))}!` }),
    answers: REFUSED,
  },
  {
    name: '40,000 wrong items of a custom resource',
    request: (scale) => widget({ sizes: times(count(scale, 40_000), () => 1) }),
    answers: REFUSED,
  },
  {
    name: '20,000 items of a custom resource',
    request: (scale) => widget({ parts: times(count(scale, 20_000), (i) => ({ size: i, unknown: i })) }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: '300 ClusterRoles that aggregate each other',
    before: (scale) => [
      ...times(count(scale, 300), (i) =>
        clusterRole(
          `gather-${i}`,
          { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { gather: 'all' } }] }, rules: [] },
          { gather: 'all' },
        ),
      ),
      boundToMallory('gather-0'),
    ],
    request: () => ({ method: 'GET', path: VICTIM, user: 'mallory' }),
    answers: [200, 403],
  },
  {
    name: 'a rule of 120,000 stars',
    before: (scale) => [
      clusterRole('stars', {
        rules: [{ verbs: ['get'], nonResourceURLs: [`/${'a*'.repeat(count(scale, 120_000))}`] }],
      }),
      boundToMallory('stars'),
    ],
    request: () => ({ method: 'GET', path: `/${'a'.repeat(2_000)}b`, user: 'mallory' }),
    answers: [403, 404],
  },
  {
    name: 'a role of 30,000 rules, given away',
    request: (scale) => {
      const rules = times(count(scale, 10_000), (i) => ({
        verbs: ['get'],
        apiGroups: [`g${i}`],
        resources: ['a', 'b'],
      }))
      return { ...clusterRole(`many-${++made}`, { rules }), user: 'mallory' }
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'YAML list of everything',
    request: () => ({ method: 'GET', path: '/api/v1/pods', ...accepting(YAML) }),
    answers: [200],
  },
  {
    name: 'protobuf list of everything',
    request: () => ({
      method: 'GET',
      path: '/api/v1/pods',
      ...accepting(`${PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1`),
    }),
    answers: [200],
  },
  {
    name: 'Table of everything, with the objects',
    request: () => ({
      method: 'GET',
      path: '/api/v1/pods?includeObject=Object',
      ...accepting('application/json;as=Table;g=meta.k8s.io;v=v1'),
    }),
    answers: [200],
  },
  {
    name: 'indented list of everything',
    request: () => ({ method: 'GET', path: '/api/v1/pods?pretty=true' }),
    answers: [200],
  },
  {
    name: 'list of everything with 64 chosen fields',
    request: () => ({ method: 'GET', path: `/api/v1/pods?fields=${times(60, (i) => `spec.f${i}`).join(',')}` }),
    answers: [200],
  },
  {
    name: 'list of everything, compressed',
    request: () => ({ method: 'GET', path: '/api/v1/pods?resourceVersion=0', headers: { 'accept-encoding': 'gzip' } }),
    answers: [200],
  },
  {
    name: 'list by 200 labels that nobody has',
    request: () => ({ method: 'GET', path: `/api/v1/pods?labelSelector=${absentLabels(200)}` }),
    answers: [200, 400, 429],
  },
  {
    name: 'list by a node that nobody has',
    request: () => ({ method: 'GET', path: `/api/v1/pods?fieldSelector=spec.nodeName%3Dx${++made}` }),
    answers: [200, 400],
  },
  {
    name: 'list at an earlier revision',
    request: () => ({ method: 'GET', path: '/api/v1/pods?resourceVersion={past}&resourceVersionMatch=Exact&limit=2' }),
    answers: [200, 400, 410],
  },
  {
    name: 'a page of everything',
    request: () => ({ method: 'GET', path: '/api/v1/pods?limit=1' }),
    answers: [200],
  },
  {
    name: 'YAML of an object of 660 KB',
    request: () => ({ method: 'GET', path: LARGE, ...accepting(YAML) }),
    answers: [200],
  },
  {
    name: 'an indented object of 660 KB',
    request: () => ({ method: 'GET', path: `${LARGE}?pretty=true` }),
    answers: [200],
  },
  {
    name: 'deletion of a collection by labels that nobody has',
    request: () => ({ method: 'DELETE', path: `${PODS}?labelSelector=${absentLabels(100)}%2Cpresent` }),
    answers: [200],
  },
  {
    name: 'deletion among everything of what has a label that nobody has',
    request: () => ({ method: 'DELETE', path: '/api/v1/namespaces/bench/pods?labelSelector=absent%3Dx' }),
    answers: [200],
  },
  {
    name: 'OpenAPI after a definition of 20,000 properties',
    request: () => ({ method: 'GET', path: '/openapi/v2' }),
    answers: [200],
  },
  {
    name: 'a ClusterRole of 10,000 rules',
    request: (scale) => {
      const rules = times(count(scale, 10_000), (i) => ({
        verbs: ['get'],
        apiGroups: [`g${i}`],
        resources: ['a', 'b'],
      }))
      return clusterRole(`rules-${++made}`, { rules })
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'decisions by a bound ClusterRole of 10,000 rules',
    before: (scale) => {
      const rules = times(count(scale, 10_000), (i) => ({
        verbs: ['get'],
        apiGroups: [`g${i}`],
        resources: ['a', 'b'],
      }))
      return [clusterRole('bound-rules', { rules }), boundToMallory('bound-rules')]
    },
    request: () => ({ method: 'GET', path: VICTIM, user: 'mallory' }),
    answers: [200, 403],
  },
  {
    name: 'the rules of a user with 10,000',
    request: () =>
      sending('POST', `${REVIEWS}/selfsubjectrulesreviews`, JSON_TYPE, {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectRulesReview',
        spec: { namespace: 'bad' },
      }),
    answers: [201],
  },
  {
    name: 'a review of 100,000 groups',
    request: (scale) =>
      sending('POST', `${REVIEWS}/subjectaccessreviews`, JSON_TYPE, {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: {
          user: 'x',
          groups: times(count(scale, 100_000), (i) => `group-${i}`),
          resourceAttributes: { verb: 'get', resource: 'pods', namespace: 'bad' },
        },
      }),
    answers: [201, ...REFUSED],
  },
  {
    name: 'YAML of an object of 25,000 members',
    before: (scale) => [configMap({ name: 'members' }, { data: members(count(scale, 25_000)) })],
    request: () => ({ method: 'GET', path: `${CONFIG_MAPS}/members`, ...accepting(YAML) }),
    answers: [200],
  },
  {
    name: 'chosen fields of an object of 25,000 members',
    request: () => ({ method: 'GET', path: `${CONFIG_MAPS}/members?fields=data.key-7,metadata.name` }),
    answers: [200],
  },
  {
    name: 'a Table of 500 objects with 1,000 columns',
    before: (scale) => [
      definition(
        'columns',
        'Column',
        {},
        {
          additionalPrinterColumns: times(count(scale, 1_000), (i) => ({
            name: `Column ${i}`,
            type: 'string',
            jsonPath: `.spec.parts[?(@.size==${i})].name`,
          })),
        },
      ),
      ...times(count(scale, 500), (i) => {
        const object = { apiVersion: 'bench.example/v1', kind: 'Column', metadata: { name: `column-${i}` } }
        return sending('POST', '/apis/bench.example/v1/namespaces/bad/columns', JSON_TYPE, object)
      }),
    ],
    request: () => ({
      method: 'GET',
      path: '/apis/bench.example/v1/columns',
      ...accepting('application/json;as=Table;g=meta.k8s.io;v=v1'),
    }),
    answers: [200],
  },
  {
    name: 'a Table of custom objects of 1 MB with 50 columns that search all of them',
    before: (scale) => [
      definition(
        'searches',
        'Search',
        { parts: { type: 'array', items: { type: 'object', properties: { leaf: { type: 'integer' } } } } },
        {
          additionalPrinterColumns: times(count(scale, 50), (i) => ({
            name: `Column ${i}`,
            type: 'integer',
            jsonPath: '..leaf',
          })),
        },
      ),
      ...times(count(scale, 8), (i) => {
        const spec = { parts: times(count(scale, 60_000), (leaf) => ({ leaf })) }
        const object = { apiVersion: 'bench.example/v1', kind: 'Search', metadata: { name: `search-${i}` }, spec }
        return sending('POST', '/apis/bench.example/v1/namespaces/bad/searches', JSON_TYPE, object)
      }),
    ],
    request: () => ({
      method: 'GET',
      path: '/apis/bench.example/v1/searches',
      ...accepting('application/json;as=Table;g=meta.k8s.io;v=v1'),
    }),
    answers: [200],
  },
  {
    name: 'custom objects of 1 MB',
    before: (scale) =>
      times(count(scale, 8), () => widget({ parts: times(count(scale, 60_000), (i) => ({ size: i })) })),
    request: () => ({ method: 'GET', path: WIDGETS }),
    answers: [200],
  },
  {
    name: 'a custom object of 1 MB by a field that it may have',
    request: () => ({ method: 'GET', path: `${WIDGETS}?fieldSelector=spec.text%3Dx${++made}` }),
    answers: [200, 400],
  },
  {
    name: 'discovery after 300 definitions',
    before: (scale) => times(count(scale, 300), (i) => definition(`kind${i}s`, `Kind${i}`, manyProperties(100))),
    request: () => ({
      method: 'GET',
      path: '/apis',
      ...accepting('application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'),
    }),
    answers: [200],
  },
  {
    name: 'a definition beside 300 others',
    request: () => definition(`one${++made}s`, `One${made}`, manyProperties(10)),
    answers: [201],
  },
  {
    name: 'OpenAPI index after 300 definitions',
    request: () => ({ method: 'GET', path: '/openapi/v3' }),
    answers: [200],
  },
  {
    name: 'OpenAPI v3 after 300 definitions',
    request: () => ({
      method: 'GET',
      path: '/openapi/v3/apis/bench.example/v1',
      ...accepting('application/com.github.proto-openapi.spec.v3@v1.0+protobuf'),
    }),
    answers: [200],
  },
  {
    name: 'an Accept header of 8 KB',
    request: () => ({
      method: 'GET',
      path: '/api/v1/pods?limit=1',
      ...accepting(`${times(500, (i) => `a/b${i};q=0.1`).join(',')},application/json`),
    }),
    answers: [200, 406, 431],
  },
  {
    name: 'a list by 2,000 values of a label',
    request: () => {
      const values = times(2_000, (i) => `v${i}`).join(',')
      return { method: 'GET', path: `/api/v1/pods?labelSelector=${encodeURIComponent(`a in (${values})`)}` }
    },
    answers: [200, 400, 414, 431],
  },
  {
    name: 'a NetworkPolicy of 20,000 label requirements',
    request: (scale) => {
      const matchExpressions = times(count(scale, 20_000), (i) => ({ key: `k${i}`, operator: 'Exists' }))
      return sending('POST', '/apis/networking.k8s.io/v1/namespaces/bad/networkpolicies', JSON_TYPE, {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: `bad-${++made}` },
        spec: { podSelector: { matchExpressions } },
      })
    },
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'a Table of NetworkPolicies of 20,000 label requirements',
    request: () => ({
      method: 'GET',
      path: '/apis/networking.k8s.io/v1/networkpolicies',
      ...accepting('application/json;as=Table;g=meta.k8s.io;v=v1'),
    }),
    answers: [200],
  },
  ...(
    [
      ['protobuf', PROTOBUF, ''],
      ['YAML', YAML, ''],
      ['an indented form', JSON_TYPE, '?pretty=true'],
      ['chosen fields', JSON_TYPE, '?fields=spec.podSelector.matchExpressions.operator'],
    ] as const
  ).map(([form, type, query]) => ({
    name: `NetworkPolicies of 20,000 label requirements in ${form}`,
    request: () => ({
      method: 'GET' as const,
      path: `/apis/networking.k8s.io/v1/networkpolicies${query}`,
      ...accepting(type),
    }),
    answers: [200, 400, 406],
  })),
  {
    name: 'initial states of NetworkPolicies of 20,000 label requirements, as Tables',
    watches: 20,
    request: () => ({
      method: 'GET',
      path: '/apis/networking.k8s.io/v1/networkpolicies?watch=1',
      ...accepting('application/json;as=Table;g=meta.k8s.io;v=v1'),
    }),
    answers: [200],
  },
  {
    name: '200 APIServices',
    before: (scale) =>
      times(count(scale, 200), (i) =>
        sending('POST', '/apis/apiregistration.k8s.io/v1/apiservices', JSON_TYPE, {
          apiVersion: 'apiregistration.k8s.io/v1',
          kind: 'APIService',
          metadata: { name: `v1.remote${i}.example` },
          spec: {
            group: `remote${i}.example`,
            version: 'v1',
            groupPriorityMinimum: 100,
            versionPriority: 100,
            service: { name: 'none', namespace: 'bad' },
          },
        }),
      ),
    request: () => ({ method: 'GET', path: '/apis' }),
    answers: [200],
  },
  {
    name: 'a webhook configuration of 5,000 webhooks',
    request: (scale) =>
      sending('POST', '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations', JSON_TYPE, {
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'ValidatingWebhookConfiguration',
        metadata: { name: `bad-${++made}` },
        webhooks: times(count(scale, 5_000), (i) => ({
          name: `w${i}.bench.example`,
          clientConfig: { url: 'https://example.com/' },
          rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*'] }],
          sideEffects: 'None',
          admissionReviewVersions: ['v1'],
        })),
      }),
    answers: [...WRITTEN, ...REFUSED],
  },
  {
    name: 'a page token of 12 KB',
    request: () => ({ method: 'GET', path: `/api/v1/pods?limit=1&continue=${'A'.repeat(12_000)}` }),
    answers: [400, 410],
  },
  {
    name: 'initial states for 200 selectors that nobody matches',
    watches: 200,
    request: () => ({ method: 'GET', path: `/api/v1/pods?watch=1&labelSelector=absent%3Dv{i}` }),
    answers: [200],
  },
  {
    name: 'initial states in 20 choices of fields',
    watches: 20,
    request: () => ({ method: 'GET', path: '/api/v1/pods?watch=1&fields=spec.f{i},status' }),
    answers: [200],
  },
  {
    name: '5,000 watches, each with fields of its own',
    watches: 5_000,
    request: () => ({
      method: 'GET',
      path: '/api/v1/pods?watch=1&resourceVersion={now}&fields=metadata.annotations,spec.f{i}',
    }),
    answers: [200],
  },
]
