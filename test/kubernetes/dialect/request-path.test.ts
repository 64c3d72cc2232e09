import t from 'tap'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import {
  checkName,
  parseRequestPath,
  type RequestPath,
  type ResourcePath,
} from '../../../src/kubernetes/dialect/request-path.js'
import { ResourceRegistry } from '../../../src/kubernetes/dialect/resource-registry.js'
import { BadRequestError, NotFoundError, StatusError } from '../../../src/kubernetes/model/status.js'
import { seededRandom } from '../../../src/support/random.js'

const registry = new ResourceRegistry()
registry.set(
  'start',
  resolveResources({
    declarations: [
      { name: 'flags', prefix: '/flags/' },
      { name: 'routes', prefix: '/routes/', namespaced: true },
    ],
  }).resources,
)
const parse = (path: string): RequestPath => parseRequestPath(path, (...names) => registry.find(...names))

void t.test('the paths of documents are recognized', async (t) => {
  const table: readonly (readonly [path: string, expected: RequestPath])[] = [
    ['/api', { kind: 'api-versions' }],
    ['/api/', { kind: 'api-versions' }],
    ['/apis', { kind: 'api-groups' }],
    ['/apis/', { kind: 'api-groups' }],
    ['/apis/apps', { kind: 'api-group', group: 'apps' }],
    ['/api/v1', { kind: 'api-resources', group: '', version: 'v1' }],
    ['/api/v1/', { kind: 'api-resources', group: '', version: 'v1' }],
    ['/apis/apps/v1', { kind: 'api-resources', group: 'apps', version: 'v1' }],
    ['/apis/nope/v9', { kind: 'api-resources', group: 'nope', version: 'v9' }],
    ['/version', { kind: 'version' }],
    ['/version/', { kind: 'version' }],
    ['/openapi/v2', { kind: 'openapi-v2' }],
    ['/openapi/v3', { kind: 'openapi-v3-index' }],
    ['/openapi/v3/api/v1', { kind: 'openapi-v3', group: '', version: 'v1' }],
    ['/openapi/v3/apis/apps/v1', { kind: 'openapi-v3', group: 'apps', version: 'v1' }],
    ['/openapi/v3/version', { kind: 'other' }],
    ['/openapi/v4', { kind: 'other' }],
    ['/openapi', { kind: 'other' }],
    ['/', { kind: 'paths' }],
    ['/index.html', { kind: 'paths' }],
    ['//', { kind: 'other' }],
    ['', { kind: 'other' }],
    ['*', { kind: 'other' }],
    ['/healthz', { kind: 'other' }],
    ['/readyz/etcd', { kind: 'other' }],
    ['/ui/', { kind: 'other' }],
    ['/apix/v1/pods', { kind: 'other' }],
    ['//api/v1/pods', { kind: 'other' }],
    ['/%2Fapi/v1/pods', { kind: 'other' }],
    ['http://x/api/v1/pods', { kind: 'other' }],
  ]
  for (const [path, expected] of table) t.same(parse(path), expected, path)
})

type Expected = Partial<Pick<ResourcePath, 'namespace' | 'name' | 'subresource' | 'legacyWatch'>> & {
  of: string | null
}

void t.test('the paths of resources are recognized', async (t) => {
  const table: readonly (readonly [path: string, expected: Expected])[] = [
    ['/api/v1/pods', { of: 'pods' }],
    ['/api/v1/pods/', { of: 'pods' }],
    ['/api/v1/namespaces/a/pods', { of: 'pods', namespace: 'a' }],
    ['/api/v1/namespaces/a/pods/p', { of: 'pods', namespace: 'a', name: 'p' }],
    ['/api/v1/namespaces/a/pods/p/log', { of: 'pods', namespace: 'a', name: 'p', subresource: 'log' }],
    ['/api/v1/namespaces/a/pods/p/proxy/x/y', { of: 'pods', namespace: 'a', name: 'p', subresource: 'proxy/x/y' }],
    ['/api/v1/nodes', { of: 'nodes' }],
    ['/api/v1/nodes/n', { of: 'nodes', name: 'n' }],
    ['/api/v1/nodes/n/status', { of: 'nodes', name: 'n', subresource: 'status' }],
    ['/api/v1/namespaces', { of: 'namespaces' }],
    ['/api/v1/namespaces/a', { of: 'namespaces', name: 'a' }],
    ['/api/v1/namespaces/a/finalize', { of: 'namespaces', name: 'a', subresource: 'finalize' }],
    ['/api/v1/namespaces/a/status', { of: 'namespaces', name: 'a', subresource: 'status' }],
    ['/apis/apps/v1/deployments', { of: 'deployments' }],
    ['/apis/apps/v1/namespaces/a/deployments/d', { of: 'deployments', namespace: 'a', name: 'd' }],
    ['/api/v1/watch/pods', { of: 'pods', legacyWatch: true }],
    ['/api/v1/watch/namespaces/a/pods', { of: 'pods', namespace: 'a', legacyWatch: true }],
    ['/api/v1/watch/namespaces/a/pods/p', { of: 'pods', namespace: 'a', name: 'p', legacyWatch: true }],
    ['/api/v1/watch/nodes/n', { of: 'nodes', name: 'n', legacyWatch: true }],
    ['/api/v1/watch/namespaces', { of: 'namespaces', legacyWatch: true }],
    ['/api/v1/watch/namespaces/a', { of: 'namespaces', name: 'a', legacyWatch: true }],
    ['/apis/apps/v1/watch/deployments', { of: 'deployments', legacyWatch: true }],
    // A path with a scope that the resource does not have is not that resource.
    ['/api/v1/pods/p', { of: null, name: 'p' }],
    ['/api/v1/namespaces/a/nodes', { of: null, namespace: 'a' }],
    ['/apis/apps/v1/namespaces/a', { of: null, name: 'a' }],
    ['/api/v1/secrets', { of: null }],
    ['/api/v1/nope', { of: null }],
    ['/apis/nope/v1/pods', { of: null }],
    ['/apis/apps/v1/pods', { of: null }],
    // Resources whose names encode keys.
    ['/apis/distributary.io/v1/flags', { of: 'flags' }],
    ['/apis/distributary.io/v1/flags/a:b', { of: 'flags', name: 'a:b' }],
    ['/apis/distributary.io/v1/flags/a%3Ab', { of: 'flags', name: 'a:b' }],
    ['/apis/distributary.io/v1/flags/~', { of: 'flags', name: '~' }],
    ['/apis/distributary.io/v1/flags/%E2%98%83', { of: 'flags', name: '☃' }],
    ['/apis/distributary.io/v1/flags/a/b', { of: 'flags', name: 'a', subresource: 'b' }],
    ['/apis/distributary.io/v1/flags/a%2Fb', { of: 'flags', name: 'a', subresource: 'b' }],
    ['/apis/distributary.io/v1/watch/flags/a:b', { of: 'flags', name: 'a:b', legacyWatch: true }],
    ['/apis/distributary.io/v1/namespaces/eu/routes/a:b', { of: 'routes', namespace: 'eu', name: 'a:b' }],
    ['/apis/distributary.io/v1/namespaces/~/routes/a', { of: 'routes', namespace: '~', name: 'a' }],
    // These contain no key: what is stored in them is not what was authorized.
    ['/apis/distributary.io/v1/namespaces/e:u/routes', { of: null, namespace: 'e:u' }],
    ['/apis/distributary.io/v1/namespaces/e~75/routes/a', { of: null, namespace: 'e~75', name: 'a' }],
    // Some role names contain a colon, plain or encoded.
    ['/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node', { of: 'clusterroles', name: 'system:node' }],
    ['/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode', { of: 'clusterroles', name: 'system:node' }],
  ]
  for (const [path, { of, ...expected }] of table) {
    const parsed = parse(path)
    if (parsed.kind !== 'resource') {
      t.fail(path)
      continue
    }
    t.equal(parsed.served?.resource.plural ?? null, of, path)
    t.match(parsed, { namespace: '', name: '', subresource: '', legacyWatch: false, ...expected }, path)
  }
})

void t.test('an old watch path may name an object without its namespace', async (t) => {
  t.match(parse('/api/v1/watch/pods/a'), {
    namespace: '',
    name: 'a',
    legacyWatch: true,
    served: { resource: { plural: 'pods' } },
  })
  t.match(parse('/api/v1/pods/a'), { name: 'a', legacyWatch: false, served: undefined })
})

void t.test('an ambiguous path is rejected', async (t) => {
  const bad = [
    '/api/v1/namespaces/./pods',
    '/api/v1/namespaces/../pods',
    '/api/v1/namespaces/%2e%2e/pods',
    '/api/v1/namespaces/.%2E/pods',
    '/api/v1/namespaces/%2e/pods',
    '/api/v1/namespaces/a/pods/p/proxy/../x',
    '/api/v1/namespaces/a/pods/p/proxy/%2e%2E',
    '/api/v1/namespaces/a/pods/a%00',
    '/api/v1/namespaces/a/pods/%FF',
    '/api/v1/namespaces/a%FF/pods',
    '/api/v1/namespaces/a/pods/%zz',
    '/apis/distributary.io/v1/flags/a%00b',
    '/apis/distributary.io/v1/flags/%FF',
    '/apis/distributary.io/v1/flags/%',
    '/apis/distributary.io/v1/flags/%zz',
    '/apis/distributary.io/v1/namespaces/%2E%2E/routes/x',
  ]
  for (const path of bad) t.throws(() => parse(path), BadRequestError, path)
  for (const path of [
    // A path with an empty segment does not exist, as in the API server.
    '/api/v1//pods',
    '/api//v1/pods',
    '/api/v1/namespaces//pods/web',
    '/api/v1/namespaces//nodes',
    '/apis/distributary.io/v1/namespaces//routes',
    '/apis//apps/v1',
    '/apis/apps//v1',
    '/apis//',
    '/apis/apps/v1//',
    '/apis/../api/v1/pods',
    '/api/v1/namespaces/a/nodes/..',
    '/api/v1/pods/..',
    '/api/v1/Pods',
    '/api/v1/watch',
    '/apis/a b/v1',
    '/apis/__proto__/v1/x',
  ]) {
    t.throws(() => parse(path), NotFoundError, path)
  }
})

void t.test('a path is decoded as a whole and then split, as the API server does', async (t) => {
  const table: readonly (readonly [path: string, same: string])[] = [
    ['/api/v1/pods//', '/api/v1/pods'],
    ['/api/v1/pods%2F', '/api/v1/pods'],
    ['/api/v1/p%6Fds', '/api/v1/pods'],
    ['/%61pi/v1/pods', '/api/v1/pods'],
    ['/%61pi%73%2Fapps', '/apis/apps'],
    ['/%76ersion', '/version'],
    ['/apis/%61pps/v1/deployments', '/apis/apps/v1/deployments'],
    ['/apis/apps%2Fv1/deployments', '/apis/apps/v1/deployments'],
    ['/api/v1/namespaces/a/pods/p%2Flog', '/api/v1/namespaces/a/pods/p/log'],
    ['/api/v1/namespaces/a%2Fpods', '/api/v1/namespaces/a/pods'],
    ['/api/v1/namespaces/a/pods/%2F', '/api/v1/namespaces/a/pods'],
    ['/apis/distributary.io/v1/namespaces%2Feu/routes/x', '/apis/distributary.io/v1/namespaces/eu/routes/x'],
  ]
  for (const [path, same] of table) t.same(parse(path), parse(same), path)
  t.match(parse('/api/v1/namespaces/a/pods/a%252Fb'), { name: 'a%2Fb' }, 'and once')
  t.match(parse('/api/v1/namespaces/a%2Fb/pods'), { plural: 'b', served: undefined })
  t.match(parse('/api/v1/namespaces/a/pods//log'), { plural: 'pods', served: undefined }, 'nothing has no name')
  t.match(parse('/api/v1/namespaces/a/pods/p/proxy/%FF//x'), { subresource: 'proxy/\uFFFD//x' })
})

void t.test('a name that no object can have is rejected with the API server’s message', async (t) => {
  const check = (path: string): void => {
    const parsed = parse(path)
    if (parsed.kind === 'resource') checkName(parsed)
  }
  const table: readonly (readonly [name: string, message: string])[] = [
    ['..', `Name parameter invalid: "..": may not be '..'`],
    ['%2E', `Name parameter invalid: ".": may not be '.'`],
    ['a%25b', `Name parameter invalid: "a%b": may not contain '%'`],
  ]
  for (const [name, message] of table)
    t.throws(() => check(`/api/v1/namespaces/a/pods/${name}`), { constructor: BadRequestError, message }, name)
  t.doesNotThrow(() => check('/api/v1/namespaces/a/pods/p'))
  t.doesNotThrow(() => check('/apis/distributary.io/v1/flags/a:b'))
  t.doesNotThrow(() => check('/apis/distributary.io/v1/flags'))
  t.throws(() => check('/apis/distributary.io/v1/flags/%2e%2e'), { code: 400, message: /may not be '..'/ })
  for (const name of ['~41', 'a~2fb', 'a~', 'a b', '-a', '"']) {
    const message = /no key has this name: a slash is written ":"/
    t.throws(() => check(`/apis/distributary.io/v1/flags/${encodeURI(name)}`), { code: 400, message }, name)
  }
})

void t.test('every possible path is answered or rejected, in time bounded by its length', async (t) => {
  const random = seededRandom(7)
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random.next() * items.length)]!
  const pieces = [
    '/',
    '//',
    'api',
    'apis',
    'v1',
    'watch',
    'namespaces',
    'pods',
    'flags',
    'distributary.io',
    '.',
    '..',
    '%2F',
    '%',
    '%2e',
    '\0',
    'é',
    ' ',
    'a',
  ]
  for (let i = 0; i < 5_000; i++) {
    let path = pick(['/', '/api/v1/', '/apis/distributary.io/v1/', ''])
    for (let n = Math.floor(random.next() * 8); n > 0; n--) path += pick(pieces) + pick(['/', '', '/'])
    try {
      parse(path)
    } catch (error) {
      if (!(error instanceof StatusError) || error.code >= 500) t.fail(`${encodeURI(path)}: ${String(error)}`)
    }
  }
  // The path is twenty times as long as the longest that Node accepts: quadratic time would exceed the test's limit.
  for (const long of [
    '/api/v1/' + 'a/'.repeat(160_000),
    `/api/v1/${'a'.repeat(320_000)}-`,
    `/apis/distributary.io/v1/flags/${'%2F'.repeat(100_000)}`,
  ]) {
    try {
      parse(long)
    } catch (error) {
      t.ok(error instanceof StatusError)
    }
  }
})
