/**
 * Tests permissions restricted to names or a namespace against requests that try to be judged by another name than the
 * one they affect: field selectors and paths on verbs that take their name from elsewhere.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { definitionObject } from '../support/definition.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const API = 'rbac.authorization.k8s.io'
const RIGHTS = { verbs: ['*'], apiGroups: [''], resources: ['pods'], resourceNames: ['p1'] }

const OBJECTS: Readonly<Record<string, object>> = {
  'namespaces/ns1': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'ns1' } },
  'namespaces/ns2': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'ns2' } },
  'pods/ns1/p1': pod('p1', { namespace: 'ns1' }),
  'pods/ns1/p2': pod('p2', { namespace: 'ns1' }),
  'clusterroles/named': { apiVersion: `${API}/v1`, kind: 'ClusterRole', metadata: { name: 'named' }, rules: [RIGHTS] },
  'clusterrolebindings/named': bindingOf('named'),
  'clusterroles/everything': {
    apiVersion: `${API}/v1`,
    kind: 'ClusterRole',
    metadata: { name: 'everything' },
    rules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }],
  },
  'rolebindings/ns2/everything': bindingOf('everything', 'ns2'),
}

function bindingOf(name: string, namespace?: string): object {
  return {
    apiVersion: `${API}/v1`,
    kind: namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    roleRef: { apiGroup: API, kind: 'ClusterRole', name },
    subjects: [{ kind: 'User', name: 'ann' }],
  }
}

const POLICY = `rules:
  - users: [ann]
    verbs: ["*"]
    apiGroups: [""]
    resources: [pods]
    names: [p1]
  - users: [ann]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
    namespaces: [ns2]
`

type Row = readonly [method: string, path: string, body: object | null, code: number]

const PODS = '/api/v1/namespaces/ns1/pods'
const SELECTED = 'fieldSelector=metadata.name%3Dp1'
const EVIL = { ...pod('evil', { namespace: 'ns1' }) }
const NAMESPACE = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'evil' } }

/** ann may do anything to the pods named p1, and everything in the namespace ns2. */
const ROWS: readonly Row[] = [
  ['POST', PODS, EVIL, 403],
  ['POST', `${PODS}?${SELECTED}`, EVIL, 403],
  ['POST', `${PODS}?${SELECTED}&watch=true`, EVIL, 403],
  ['POST', `${PODS}?${SELECTED}&dryRun=All`, EVIL, 403],
  ['POST', `/api/v1/watch/namespaces/ns1/pods?${SELECTED}`, EVIL, 403],
  // The request is authorized by the name in the path, and creates nothing there.
  ['POST', `${PODS}/p1`, EVIL, 405],
  ['PUT', `${PODS}?${SELECTED}`, EVIL, 403],
  ['PUT', `${PODS}/evil?${SELECTED}`, EVIL, 403],
  ['PATCH', `${PODS}?${SELECTED}`, {}, 403],
  ['PATCH', `${PODS}/p2?${SELECTED}`, {}, 403],
  ['POST', '/api/v1/namespaces', NAMESPACE, 403],
  ['POST', '/api/v1/namespaces?fieldSelector=metadata.name%3Dns2', NAMESPACE, 403],
  ['POST', '/api/v1/namespaces/ns2', NAMESPACE, 405],
  ['DELETE', '/api/v1/namespaces?fieldSelector=metadata.name%3Dns2', null, 403],
  ['DELETE', `${PODS}/p2?${SELECTED}`, null, 403],
  ['DELETE', PODS, null, 403],
  ['GET', '/api/v1/namespaces?fieldSelector=metadata.name%3Dns2', null, 403],
  ['GET', '/api/v1/namespaces/ns2', null, 200],
  ['GET', `${PODS}/p2?${SELECTED}`, null, 403],
  ['GET', PODS, null, 403],
  ['GET', `${PODS}?${SELECTED}`, null, 200],
  ['GET', `/api/v1/watch/namespaces/ns1/pods?${SELECTED}`, null, 403],
  // Deletes p1 and nothing else.
  ['DELETE', `${PODS}?${SELECTED}`, null, 200],
]

for (const mode of ['RBAC', 'Policy'] as const) {
  void t.test(`a selected name gives no permission to write another (${mode})`, async (t) => {
    for (const transport of ['HTTP/1.1', 'HTTP/2'] as const) {
      const app = await start(t, mode)
      const send = transport === 'HTTP/1.1' ? overHttp1(app) : overHttp2(t, app)
      for (const [method, path, body, code] of ROWS) {
        t.equal(await send('ann-token', method, path, body), code, `${transport}: ${method} ${path}`)
      }
      t.equal(await send('root-token', 'GET', `${PODS}/evil`, null), 404, 'no pod was made')
      t.equal(await send('root-token', 'GET', '/api/v1/namespaces/evil', null), 404, 'no namespace was made')
      t.equal(await send('root-token', 'GET', `${PODS}/p2`, null), 200, 'the other pod is there')
    }
  })
}

async function start(t: Test, mode: 'RBAC' | 'Policy'): Promise<AppHarness> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-names-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, 'tokens.csv'), 'ann-token,ann,1\nroot-token,root,2,"system:masters"\n')
  const root = '  - groups: ["system:masters"]\n    verbs: ["*"]\n    apiGroups: ["*"]\n    resources: ["*"]\n'
  writeFileSync(join(directory, 'policy.yaml'), POLICY + root)
  const policy = mode === 'Policy' ? ['--authorization-policy-file', join(directory, 'policy.yaml')] : []
  const tokens = join(directory, 'tokens.csv')
  const flags = ['--enable-writes', '--token-auth-file', tokens, '--authorization-mode', mode, ...policy]
  return await startApp(t, { objects: OBJECTS, flags })
}

type Send = (token: string, method: string, path: string, body: object | null) => Promise<number>

const headersFor = (token: string, method: string): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
})

function overHttp1(app: AppHarness): Send {
  return async (token, method, path, body) => {
    const response = await fetch(`${app.url}${path}`, {
      method,
      headers: headersFor(token, method),
      ...(body === null ? {} : { body: JSON.stringify(body) }),
    })
    await response.arrayBuffer()
    return response.status
  }
}

function overHttp2(t: Test, app: AppHarness): Send {
  const session = connect(app.url)
  t.teardown(() => session.destroy())
  return (token, method, path, body) =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ':method': method, ':path': path, ...headersFor(token, method) })
      stream.on('response', (headers) => resolve(headers[':status'] ?? 0)).on('error', reject)
      stream.resume()
      stream.end(body === null ? undefined : JSON.stringify(body))
    })
}

void t.test('a deletion in no namespace is not one in all of them', async (t) => {
  const app = await startApp(t, { objects: OBJECTS, flags: ['--enable-writes'] })
  const empty = `${app.url}/api/v1/namespaces//pods`
  t.equal((await fetch(empty, { method: 'DELETE' })).status, 404)
  const list = async (url: string): Promise<number> => {
    const { items } = (await (await fetch(url)).json()) as { readonly items: readonly object[] }
    return items.length
  }
  t.equal(await list(empty), 2, 'a list of it has all of them, which are still there')
  t.equal((await fetch(`${app.url}/api/v1/pods`, { method: 'DELETE' })).status, 405)
  t.equal(await list(empty), 2)

  const names = { group: 'example.com', kind: 'Widget', plural: 'widgets', scope: 'Namespaced' } as const
  const versions = [{ name: 'v1', served: true, storage: true }]
  const widgets = `${app.url}/apis/example.com/v1`
  const post = async (url: string, body: object): Promise<number> => {
    const headers = { 'content-type': 'application/json' }
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).status
  }
  const definitions = `${app.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions`
  t.equal(await post(definitions, definitionObject({ ...names, versions })), 201)
  const widget = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'w', namespace: 'ns1' } }
  await until(async () => (await post(`${widgets}/namespaces/ns1/widgets`, widget)) === 201, 'widgets are served')
  t.equal(await post(`${widgets}/widgets`, widget), 404, 'the API server has no such path for a custom resource')
  t.equal((await fetch(`${widgets}/widgets`, { method: 'DELETE' })).status, 404)
  t.equal(await list(`${widgets}/widgets`), 1)
})
