/** PROTOCOL section 1: paths, discovery, OpenAPI, version and health. */
import t from 'tap'
import { pod } from '../support/pod.js'
import { type Check, type Row, checkRows, status } from './row.js'
import { overEveryUpstream } from './world.js'
import { column, definitionObject, ESTABLISHED, object } from '../support/definition.js'

const CACHES = {
  ...definitionObject(
    {
      group: 'edge.example.com',
      plural: 'caches',
      kind: 'Cache',
      shortNames: ['ca'],
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1',
          storage: true,
          schema: object({ spec: object({ size: { type: 'string', description: 'How big.' } }) }),
          additionalPrinterColumns: [column('Size', 'string', '.spec.size')],
        },
      ],
    },
    { uid: 'u' },
  ),
  status: ESTABLISHED,
}
const SEEDS = [
  { 'apiextensions.k8s.io/customresourcedefinitions/caches.edge.example.com': CACHES },
  { 'minions/n1': { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n1', uid: 'n' } } },
  { 'namespaces/default': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default', uid: 'd' } } },
  { 'pods/default/a': pod('a') },
  {
    'deployments/default/web': {
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'web', namespace: 'default', uid: 'w' },
      spec: {},
    },
  },
  {
    'edge.example.com/caches/default/front': {
      kind: 'Cache',
      apiVersion: 'edge.example.com/v1',
      metadata: { name: 'front', namespace: 'default', uid: 'f' },
      spec: { size: '1Gi' },
    },
  },
  { '/flags/dark/mode': { on: true } },
]

const V2 = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
const NO_CACHE = { 'cache-control': 'no-cache, private' }
const JSON_TYPE = { ...NO_CACHE, 'content-type': /^application\/json/ }
const unknown = status(404, 'NotFound', 'the server could not find the requested resource')
const text =
  (expected: string | RegExp): Check =>
  (t, { text }) =>
    typeof expected === 'string' ? t.equal(text, expected) : t.match(text, expected)

const ROWS: readonly Row[] = [
  {
    promise: '/api lists the versions',
    path: '/api',
    code: 200,
    has: { kind: 'APIVersions', versions: ['v1'] },
    sends: JSON_TYPE,
  },
  { promise: 'a trailing slash is ignored', path: '/api/', code: 200, has: { kind: 'APIVersions' } },
  {
    promise: '/apis lists the groups',
    path: '/apis',
    code: 200,
    has: { kind: 'APIGroupList', apiVersion: 'v1' },
    sends: JSON_TYPE,
  },
  {
    promise: 'a group',
    path: '/apis/apps',
    code: 200,
    has: { kind: 'APIGroup', name: 'apps', preferredVersion: { groupVersion: 'apps/v1' } },
    sends: JSON_TYPE,
  },
  {
    promise: 'the core resources',
    path: '/api/v1',
    code: 200,
    has: { kind: 'APIResourceList', groupVersion: 'v1' },
    sends: JSON_TYPE,
  },
  {
    promise: 'the resources of a group',
    path: '/apis/apps/v1',
    code: 200,
    has: { kind: 'APIResourceList', groupVersion: 'apps/v1' },
  },
  {
    promise: 'the resources of a custom group',
    path: '/apis/edge.example.com/v1',
    code: 200,
    has: {
      resources: [
        {
          name: 'caches',
          singularName: 'cache',
          namespaced: true,
          kind: 'Cache',
          shortNames: ['ca'],
          verbs: ['get', 'list', 'watch'],
        },
      ],
    },
  },
  {
    promise: 'discovery in YAML',
    path: '/apis/apps/v1',
    headers: { accept: 'application/yaml' },
    code: 200,
    sends: { ...NO_CACHE, 'content-type': 'application/yaml' },
    check: text(/^kind: APIResourceList$/m),
  },
  ...[
    '/apis/nothing',
    '/apis/nothing/v1',
    '/apis/apps/v9',
    '/api/v9',
    '/apis/apps/v1/nothings',
    '/api/v1/nothings',
    '/api/v1/namespaces/default/nothings/a',
    '/api/v1/namespaces/default/nodes/n1',
    '/nothing',
    '/apis/apps/v1/deployments/web',
    '/openapi/v4',
    '/openapi/v3/apis/nothing/v1',
    '/api/v1//pods',
    '/api/v1/namespaces//nodes',
    '/api//v1/pods',
    '/api/v1/../v1/pods',
    '/api/v1/%2e%2e/pods',
    '/api/v1/namespaces/default/pods/a%2Fb',
  ].map((path) => ({
    promise: `${path} is 404`,
    path,
    code: 404,
    has: unknown,
    sends: JSON_TYPE,
  })),
  ...[
    '/api/v1/namespaces/../pods',
    '/api/v1/namespaces/default/pods/%2e%2e',
    '/api/v1/namespaces/default/pods/a%25b',
    '/api/v1/namespaces/default/pods/%ff',
    '/api/v1/namespaces/default/pods/a%00',
  ].map((path) => ({
    promise: `${path} is 400`,
    path,
    code: 400,
    has: status(400, 'BadRequest', /./),
    sends: JSON_TYPE,
  })),
  {
    promise: 'a path is decoded as a whole',
    path: '/api/v1/namespaces/default/p%6Fds%2Fa',
    code: 200,
    has: { kind: 'Pod', metadata: { name: 'a' } },
  },
  ...Object.entries({
    '/%61pi': { kind: 'APIVersions' },
    '/%61pi/%76%31': { kind: 'APIResourceList', groupVersion: 'v1' },
    '/%61pi/v1/pods': { kind: 'PodList' },
    '/api%2Fv1%2Fpods': { kind: 'PodList' },
    '/%61pis': { kind: 'APIGroupList' },
    '/%6fpenapi/v2': { swagger: '2.0' },
    '/version%2F': { gitVersion: /./ },
    '/%76ersion': { gitVersion: /./ },
  }).map(([path, has]) => ({ promise: `so are its first words: ${path}`, path, code: 200, has })),
  { promise: 'but not the first slash', path: '/%2Fapi/v1', code: 404, has: unknown },
  {
    promise: 'an empty namespace means all namespaces, for custom resources',
    path: '/apis/edge.example.com/v1/namespaces//caches',
    code: 200,
    has: { kind: 'CacheList' },
  },
  {
    promise: 'and for lists of built-in kinds',
    path: '/api/v1/namespaces//pods',
    code: 200,
    has: { kind: 'PodList' },
  },
  {
    promise: 'the error for a subresource that needs a kubelet says so',
    path: '/api/v1/namespaces/default/pods/a/log',
    code: 501,
    has: { kind: 'Status', reason: 'NotImplemented', code: 501 },
  },
  {
    promise: 'an object',
    path: '/api/v1/namespaces/default/pods/a',
    code: 200,
    has: { kind: 'Pod', metadata: { name: 'a' } },
  },
  { promise: 'a node, whose key is a historic one', path: '/api/v1/nodes/n1', code: 200, has: { kind: 'Node' } },
  { promise: 'a namespace is an object', path: '/api/v1/namespaces/default', code: 200, has: { kind: 'Namespace' } },
  {
    promise: 'a resource of a group, in all namespaces',
    path: '/apis/apps/v1/deployments',
    code: 200,
    names: ['web'],
    has: { kind: 'DeploymentList', apiVersion: 'apps/v1' },
  },
  { promise: 'and in one', path: '/apis/apps/v1/namespaces/default/deployments', code: 200, names: ['web'] },
  {
    promise: 'a custom resource',
    path: '/apis/edge.example.com/v1/namespaces/default/caches/front',
    code: 200,
    has: { kind: 'Cache', spec: { size: '1Gi' } },
  },
  {
    promise: 'custom resources',
    path: '/apis/edge.example.com/v1/caches',
    code: 200,
    names: ['front'],
    has: { kind: 'CacheList' },
  },
  {
    promise: 'a declared prefix appears under its group',
    path: '/apis/distributary.io/v1',
    code: 200,
    has: { resources: [{ name: 'flags', namespaced: false }] },
  },
  {
    promise: 'its keys become names, with a colon for each slash',
    path: '/apis/distributary.io/v1/flags/dark:mode',
    code: 200,
    has: { metadata: { name: 'dark:mode' }, key: '/flags/dark/mode', value: { on: true } },
  },
  { promise: 'Secrets are not served unless named', path: '/api/v1/secrets', code: 404, has: unknown },
  {
    promise: '/ lists the paths',
    path: '/',
    code: 200,
    check: (t, { text }) => {
      const { paths } = JSON.parse(text) as { paths: string[] }
      t.same(paths, paths.toSorted())
      for (const path of ['/api', '/api/v1', '/apis', '/apis/apps', '/apis/apps/v1', '/readyz', '/version'])
        t.ok(paths.includes(path), path)
    },
    sends: JSON_TYPE,
  },
  {
    promise: 'discovery in protobuf',
    path: '/apis/apps',
    headers: { accept: 'application/vnd.kubernetes.protobuf' },
    code: 200,
    sends: { 'content-type': 'application/vnd.kubernetes.protobuf' },
    check: (t, { text }) => t.match(text, /^k8s\0.*APIGroup.*apps.*apps\/v1/s),
  },
  {
    promise: '/version',
    path: '/version',
    code: 200,
    has: { major: '1', minor: String, gitVersion: /^v1\./ },
    sends: JSON_TYPE,
  },
  {
    promise: 'the OpenAPI v3 index',
    path: '/openapi/v3',
    code: 200,
    has: { paths: { 'api/v1': { serverRelativeURL: /^\/openapi\/v3\/api\/v1\?hash=/ } } },
    sends: JSON_TYPE,
  },
  {
    promise: 'OpenAPI of the core group',
    path: '/openapi/v3/api/v1',
    code: 200,
    has: { openapi: /^3\./, components: { schemas: { 'io.k8s.api.core.v1.Pod': {} } } },
    sends: { 'content-type': /^application\/json/ },
  },
  {
    promise: 'the OpenAPI of a custom group has its schema',
    path: '/openapi/v3/apis/edge.example.com/v1',
    code: 200,
    check: text(/How big\./),
  },
  { promise: 'OpenAPI v2', path: '/openapi/v2', code: 200, has: { swagger: '2.0' }, sends: JSON_TYPE },
  {
    promise: 'OpenAPI v2 with client-go’s Accept header',
    path: '/openapi/v2',
    headers: { accept: 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf' },
    code: 200,
    sends: { 'content-type': 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf' },
  },
  {
    promise: 'OpenAPI in another format is 406',
    path: '/openapi/v2',
    headers: { accept: 'text/html' },
    code: 406,
    has: status(406, 'NotAcceptable', /^only the following media types are accepted: /),
  },
  ...['/livez', '/readyz', '/healthz'].flatMap((path): readonly Row[] => [
    {
      promise: `${path} says ok`,
      path,
      code: 200,
      sends: { ...NO_CACHE, 'content-type': /^text\/plain/ },
      check: text('ok'),
    },
    {
      promise: `${path}?verbose names its checks`,
      path: `${path}?verbose`,
      code: 200,
      check: text(new RegExp(`^\\[\\+\\]ping ok\\n[^]*${path.slice(1)} check passed\\n$`)),
    },
    { promise: `${path}/ping is one check`, path: `${path}/ping`, code: 200, check: text('ok') },
    { promise: `${path}/nothing is 404`, path: `${path}/nothing`, code: 404 },
    {
      promise: `${path}?exclude leaves a check out and says so`,
      path: `${path}?exclude=ping&verbose`,
      code: 200,
      check: text(/^\[\+\]ping excluded: ok$/m),
    },
    { promise: `HEAD ${path} has no body`, path, method: 'HEAD', code: 200, check: text('') },
  ]),
  { promise: 'each resource has its own check', path: '/readyz/cache-pods', code: 200, check: text('ok') },
  { promise: '/metrics', path: '/metrics', code: 200, check: text(/^# HELP distributary_/m) },
  {
    promise: 'HEAD of a document',
    path: '/apis',
    method: 'HEAD',
    code: 200,
    sends: { 'content-length': /^\d+$/ },
    check: text(''),
  },
  { promise: 'HEAD /version', path: '/version', method: 'HEAD', code: 200, check: text('') },
  ...['POST', 'PUT', 'PATCH', 'DELETE'].map((method) => ({
    promise: `${method} of a document is 405`,
    path: '/apis/apps/v1',
    method,
    code: 405,
    has: status(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource'),
    sends: JSON_TYPE,
  })),
]

overEveryUpstream(
  t,
  'paths',
  { seeds: SEEDS, flags: ['--resource', 'flags=/flags/'], uncached: false },
  async (t, w) => {
    while ((await w.ask('/readyz/cache-caches.edge.example.com')).code !== 200)
      await new Promise((resolve) => setImmediate(resolve))
    await checkRows(t, w, ROWS)
    await t.test('clients cache aggregated discovery by its ETag', async (t) => {
      for (const path of ['/api', '/apis']) {
        const first = await w.ask(path, { headers: { accept: `${V2},application/json` } })
        t.equal(first.code, 200)
        t.match(first.headers, { 'content-type': V2, vary: 'Accept', etag: /^"[0-9A-F]+"$/i })
        t.match(first.json, { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2' })
        for (const tag of [first.headers.etag!, `"other", ${first.headers.etag!}`]) {
          const again = await w.ask(path, { headers: { accept: V2, 'if-none-match': tag } })
          t.same([again.code, again.text, again.headers.etag], [304, '', first.headers.etag])
        }
        const other = await w.ask(path, { headers: { accept: V2, 'if-none-match': '"other"' } })
        t.equal(other.code, 200)
        t.same(other.body, first.body)
      }
      const tags = new Set<string>()
      for (const type of ['application/json', 'application/yaml', 'application/vnd.kubernetes.protobuf']) {
        const accept = V2.replace('application/json', type)
        const { code, headers, text } = await w.ask('/apis', { headers: { accept } })
        t.match([code, headers], [200, { 'content-type': accept, vary: 'Accept', etag: /^"[0-9A-F]+(-\w+)?"$/i }])
        t.match(text, 'APIGroupDiscoveryList')
        tags.add(headers.etag!)
        const again = await w.ask('/apis', { headers: { accept, 'if-none-match': headers.etag! } })
        t.equal(again.code, 304)
      }
      t.equal(tags.size, 3, 'each form has its own ETag')
      const { json } = await w.ask('/apis', { headers: { accept: V2 } })
      const custom = json.items.find(({ metadata }) => metadata.name === 'edge.example.com')
      t.match(custom, {
        versions: [
          {
            version: 'v1',
            resources: [
              {
                resource: 'caches',
                responseKind: { kind: 'Cache' },
                scope: 'Namespaced',
                verbs: ['get', 'list', 'watch'],
              },
            ],
          },
        ],
      })
    })
    await t.test('clients cache OpenAPI documents by their ETag and their hash', async (t) => {
      const { json } = await w.ask('/openapi/v3')
      const { serverRelativeURL } = (json['paths'] as Record<string, { serverRelativeURL: string }>)['apis/apps/v1']!
      const immutable = await w.ask(serverRelativeURL)
      t.equal(immutable.code, 200)
      t.match(immutable.headers, { 'cache-control': 'public, immutable', expires: String, etag: /^"/ })
      const stale = await w.ask('/openapi/v3/apis/apps/v1?hash=0')
      t.equal(stale.code, 301)
      t.equal(stale.headers.location, serverRelativeURL)
      for (const path of ['/openapi/v3/apis/apps/v1', '/openapi/v2']) {
        const first = await w.ask(path)
        const again = await w.ask(path, { headers: { 'if-none-match': first.headers.etag! } })
        t.equal(again.code, 304, path)
      }
    })
    await t.test('the resource of a deleted definition is no longer served', async (t) => {
      await w.write({ 'apiextensions.k8s.io/customresourcedefinitions/caches.edge.example.com': null })
      const end = performance.now() + 5_000
      let code = 200
      while (code !== 404 && performance.now() < end) ({ code } = await w.ask('/apis/edge.example.com/v1/caches'))
      t.equal(code, 404)
    })
  },
)
