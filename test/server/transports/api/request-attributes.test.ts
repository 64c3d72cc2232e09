/**
 * Tests the attributes by which a request is authorized. The expected values of the first table come from
 * kubernetes/apiserver's own request info resolver (k8s.io/apiserver v0.37.2); the second lists where we differ.
 */
import t from 'tap'
import { parseRequestPath } from '../../../../src/kubernetes/dialect/request-path.js'
import { attributesOf, verbOf } from '../../../../src/server/transports/api/request-attributes.js'

type Row = readonly [
  method: string,
  url: string,
  verb: string,
  resource: string,
  subresource: string,
  namespace: string,
  name: string,
]

const P1 = 'fieldSelector=metadata.name%3Dp1'
const P2 = 'fieldSelector=metadata.name%3Dp2'
const PODS = '/api/v1/namespaces/a/pods'

const LIKE_THE_API_SERVER: readonly Row[] = [
  ['GET', '/api/v1/pods', 'list', 'pods', '', '', ''],
  ['GET', '/api/v1/pods?watch=1', 'watch', 'pods', '', '', ''],
  ['GET', '/api/v1/pods?watch=false', 'list', 'pods', '', '', ''],
  ['GET', '/api/v1/pods?watch', 'watch', 'pods', '', '', ''],
  ['HEAD', '/api/v1/pods?watch=true', 'watch', 'pods', '', '', ''],
  ['GET', `${PODS}?${P1}`, 'list', 'pods', '', 'a', 'p1'],
  ['GET', `${PODS}?${P1}&watch=1`, 'watch', 'pods', '', 'a', 'p1'],
  ['GET', `${PODS}?fieldSelector=metadata.name!%3Dp1`, 'list', 'pods', '', 'a', ''],
  ['GET', `${PODS}?fieldSelector=metadata.namespace%3Dp1`, 'list', 'pods', '', 'a', ''],
  ['GET', `${PODS}?fieldSelector=spec.nodeName%3Dn,metadata.name%3Dp1`, 'list', 'pods', '', 'a', 'p1'],
  ['GET', `${PODS}?${P1}&${P2}`, 'list', 'pods', '', 'a', 'p1'],
  ['GET', `${PODS}?fieldSelector=%2C%2C%3D`, 'list', 'pods', '', 'a', ''],
  ['GET', `${PODS}/p1?${P2}`, 'get', 'pods', '', 'a', 'p1'],
  ['GET', `${PODS}/p1?watch=1`, 'get', 'pods', '', 'a', 'p1'],
  ['GET', `${PODS}/p1/log`, 'get', 'pods', 'log', 'a', 'p1'],
  ['GET', `${PODS}/p1/proxy/b/c`, 'get', 'pods', 'proxy', 'a', 'p1'],
  ['HEAD', `${PODS}/p1`, 'get', 'pods', '', 'a', 'p1'],
  ['GET', '/api/v1/namespaces', 'list', 'namespaces', '', '', ''],
  ['GET', '/api/v1/namespaces?fieldSelector=metadata.name%3Da', 'list', 'namespaces', '', '', 'a'],
  ['GET', '/api/v1/namespaces/a', 'get', 'namespaces', '', 'a', 'a'],
  ['GET', '/api/v1/namespaces/a/status', 'get', 'namespaces', 'status', 'a', 'a'],
  ['PUT', '/api/v1/namespaces/a/finalize', 'update', 'namespaces', 'finalize', 'a', 'a'],
  ['DELETE', '/api/v1/namespaces/a', 'delete', 'namespaces', '', 'a', 'a'],
  ['GET', '/api/v1/namespaces/a/namespaces/b', 'get', 'namespaces', '', 'a', 'b'],
  ['POST', '/api/v1/namespaces', 'create', 'namespaces', '', '', ''],
  ['POST', '/api/v1/namespaces?fieldSelector=metadata.name%3Da', 'create', 'namespaces', '', '', ''],
  ['POST', '/api/v1/namespaces/a', 'create', 'namespaces', '', 'a', 'a'],
  ['POST', PODS, 'create', 'pods', '', 'a', ''],
  ['POST', `${PODS}?${P1}`, 'create', 'pods', '', 'a', ''],
  ['POST', `${PODS}?${P1}&watch=true`, 'create', 'pods', '', 'a', ''],
  ['POST', `${PODS}?dryRun=All&${P1}`, 'create', 'pods', '', 'a', ''],
  ['POST', `${PODS}/p1`, 'create', 'pods', '', 'a', 'p1'],
  ['POST', `${PODS}/p1/eviction?${P2}`, 'create', 'pods', 'eviction', 'a', 'p1'],
  ['PUT', `${PODS}?${P1}`, 'update', 'pods', '', 'a', ''],
  ['PUT', `${PODS}/p1?watch=true`, 'update', 'pods', '', 'a', 'p1'],
  ['PATCH', `${PODS}?${P1}`, 'patch', 'pods', '', 'a', ''],
  ['PATCH', `${PODS}/p1?${P2}`, 'patch', 'pods', '', 'a', 'p1'],
  ['PATCH', '/apis/apps/v1/namespaces/a/deployments/d/scale', 'patch', 'deployments', 'scale', 'a', 'd'],
  ['DELETE', PODS, 'deletecollection', 'pods', '', 'a', ''],
  ['DELETE', `${PODS}?watch=true`, 'deletecollection', 'pods', '', 'a', ''],
  ['DELETE', `${PODS}/p1?${P2}`, 'delete', 'pods', '', 'a', 'p1'],
  ['GET', '/api/v1/watch/pods', 'watch', 'pods', '', '', ''],
  ['GET', `/api/v1/watch/pods?${P1}`, 'watch', 'pods', '', '', ''],
  ['GET', '/api/v1/watch/namespaces/a/pods/p1', 'watch', 'pods', '', 'a', 'p1'],
  ['GET', '/api/v1/watch/namespaces/a', 'watch', 'namespaces', '', 'a', 'a'],
  ['GET', '/api/v1/watch/namespaces', 'watch', 'namespaces', '', '', ''],
]

const OTHERWISE: readonly Row[] = [
  // Deletes only the selected object, so the selected name counts, but never as a namespace.
  ['DELETE', `${PODS}?${P1}`, 'deletecollection', 'pods', '', 'a', 'p1'],
  ['DELETE', '/api/v1/namespaces?fieldSelector=metadata.name%3Da', 'deletecollection', 'namespaces', '', '', 'a'],
  // 405 for everybody. In the API server the verb is "watch".
  ['DELETE', '/api/v1/watch/namespaces/a/pods/p1', 'delete', 'pods', '', 'a', 'p1'],
  // In the API server the verb is empty. Either way only a rule for every verb covers it.
  ['OPTIONS', `${PODS}?${P1}`, 'other', 'pods', '', 'a', ''],
  ['constructor', `${PODS}?${P1}`, 'other', 'pods', '', 'a', ''],
]

void t.test('a request is authorized with the API server’s attributes', async (t) => {
  for (const [method, url, verb, resource, subresource, namespace, name] of [...LIKE_THE_API_SERVER, ...OTHERWISE]) {
    const [path = '', query] = url.split('?')
    const asked = { request: { method }, path, query: new URLSearchParams(query) }
    const parsed = parseRequestPath(path, () => undefined)
    if (parsed.kind !== 'resource') throw new Error(`${path} is not a resource`)
    t.match(
      attributesOf(asked, parsed, verbOf(asked, parsed)),
      { isResourceRequest: true, verb, resource, subresource, namespace, name },
      `${method} ${url}`,
    )
  }
})

void t.test('lists, watches and deletecollections are authorized with their selectors', async (t) => {
  const rows: readonly (readonly [method: string, query: string, fields: object | undefined, labels?: object])[] = [
    ['GET', 'fieldSelector=spec.nodeName==n1', [{ key: 'spec.nodeName', operator: 'In', values: ['n1'] }]],
    ['GET', 'watch=1&fieldSelector=a!=b,c=', [{ key: 'a', operator: 'NotIn', values: ['b'] }, { key: 'c', operator: 'In', values: [''] }]],
    ['DELETE', 'fieldSelector=a=b', [{ key: 'a', operator: 'In', values: ['b'] }]],
    ['POST', 'fieldSelector=a=b', undefined],
    ['GET', 'fieldSelector=a', undefined],
    ['GET', 'fieldSelector=', undefined],
    ['GET', 'labelSelector=a=1,b!=2,c in (x,y),d,!e,f>3', undefined, [
      { key: 'a', operator: 'In', values: ['1'] },
      { key: 'b', operator: 'NotIn', values: ['2'] },
      { key: 'c', operator: 'In', values: ['x', 'y'] },
      { key: 'd', operator: 'Exists' },
      { key: 'e', operator: 'DoesNotExist' },
    ]],
    ['GET', 'labelSelector=a in', undefined],
  ] // prettier-ignore
  const byKey = (selector: unknown): unknown =>
    (selector as { key: string }[] | undefined)?.toSorted((a, b) => (a.key < b.key ? -1 : 1))
  for (const [method, query, fields, labels] of rows) {
    const asked = { request: { method }, path: PODS, query: new URLSearchParams(query) }
    const parsed = parseRequestPath(PODS, () => undefined)
    if (parsed.kind !== 'resource') throw new Error('pods are a resource')
    const { fieldSelector, labelSelector } = attributesOf(asked, parsed, verbOf(asked, parsed))
    t.same(byKey(fieldSelector), fields, query)
    t.same(byKey(labelSelector), labels, query)
  }
})
