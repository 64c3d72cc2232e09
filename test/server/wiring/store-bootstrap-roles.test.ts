/** Kubernetes' own Roles and bindings in the store of a server that stands alone. */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { KUBERNETES_RELEASE } from '../../../src/kubernetes/dialect/discovery.js'
import { connectEtcd } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../../src/engine/upstream/upstream.js'
import { startEtcd } from '../../support/etcd-process.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { type AppHarness, startApp } from '../../support/app.js'

const RBAC = '/apis/rbac.authorization.k8s.io/v1'
const TOKENS = 'root-token,root,1,"system:masters"\nweb-token,web,2\nadmin-token,admin,3\n'

const BUILT_IN = JSON.parse(readFileSync('src/server/auth/authz/bootstrap-roles.json', 'utf8')) as readonly object[]

type Store = ReturnType<typeof createEmbeddedUpstream>

const newStore = (objects: Readonly<Record<string, object>> = {}): Store => {
  const store = createEmbeddedUpstream({})
  for (const [key, object] of Object.entries(objects)) {
    const value = Buffer.from(JSON.stringify(object))
    store.commit([{ type: 'put', key: keyFromText(`/registry/${key}`), value }])
  }
  return store
}

async function start(t: Test, upstream: Upstream, ...flags: readonly string[]): Promise<AppHarness> {
  const folder = t.testdir({ 'tokens.csv': TOKENS })
  return await startApp(t, {
    upstream,
    flags: [`--token-auth-file=${folder}/tokens.csv`, '--authorization-mode=RBAC', ...flags],
  })
}

interface Body {
  readonly metadata: { readonly name: string; readonly uid: string }
  readonly items: readonly Body[]
  readonly rules: unknown
}

async function ask(url: string, path: string, token = 'root-token', method = 'GET', body?: object) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const answer = await fetch(`${url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  return { code: answer.status, body: (await answer.json()) as Body }
}

const namesOf = async (url: string, path: string): Promise<readonly string[]> =>
  (await ask(url, `${RBAC}${path}`)).body.items.map(({ metadata }) => metadata.name)

void t.test('a server with writes and RBAC has the roles of Kubernetes when it is ready', async (t) => {
  const { url } = await start(t, newStore(), '--enable-writes')
  const roles = await namesOf(url, '/clusterroles')
  for (const name of ['admin', 'edit', 'view', 'cluster-admin', 'system:node', 'system:controller:job-controller'])
    t.ok(roles.includes(name), name)
  t.ok((await namesOf(url, '/clusterrolebindings')).includes('system:discovery'))
  t.ok((await namesOf(url, '/namespaces/kube-system/roles')).includes('extension-apiserver-authentication-reader'))
  t.ok((await namesOf(url, '/namespaces/kube-public/rolebindings')).includes('system:controller:bootstrap-signer'))

  t.equal((await ask(url, '/apis', 'web-token')).code, 200, 'discovery is open to those with a name')
  t.equal((await ask(url, '/api/v1/namespaces/web/configmaps', 'admin-token')).code, 403)
  await ask(url, '/api/v1/namespaces', 'root-token', 'POST', { metadata: { name: 'web' } })
  const binding = {
    metadata: { name: 'admins' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'admin' }],
  }
  t.equal((await ask(url, `${RBAC}/namespaces/web/rolebindings`, 'root-token', 'POST', binding)).code, 201)
  const created = { metadata: { name: 'x' } }
  t.equal((await ask(url, '/api/v1/namespaces/web/configmaps', 'admin-token', 'POST', created)).code, 201)
  t.equal((await ask(url, `${RBAC}/clusterroles`, 'admin-token')).code, 403)
})

void t.test('replicas that start at once on one etcd store each role once', async (t) => {
  const etcd = await startEtcd(t)
  const replica = async (): Promise<AppHarness> => {
    const upstream = connectEtcd({ endpoints: [etcd.url] })
    t.teardown(() => upstream.close())
    return await start(t, upstream, '--enable-writes')
  }
  const replicas = await Promise.all([replica(), replica()])
  const names = ['/clusterroles', '/clusterrolebindings', '/roles', '/rolebindings']
  for (const { url } of replicas) {
    const found = await Promise.all(names.map(async (path) => (await namesOf(url, path)).length))
    t.equal(
      found.reduce((sum, count) => sum + count),
      BUILT_IN.length,
    )
  }
  const versions = await Promise.all(
    replicas.map(async ({ url }) => (await ask(url, `${RBAC}/clusterroles/cluster-admin`)).body),
  )
  t.strictSame(versions[0], versions[1])
})

void t.test('the roles are those of the release that /version names', (t) => {
  const modules = readFileSync('test/reference/built-in/go.mod', 'utf8')
  t.match(modules, `k8s.io/kubernetes v${KUBERNETES_RELEASE}\n`)
  t.end()
})

void t.test('without writes, or without RBAC, no roles are stored', async (t) => {
  const store = newStore()
  const before = store.revision
  await start(t, store)
  await startApp(t, { upstream: store, flags: ['--enable-writes'] })
  t.equal(store.revision, before)
})

const discovery = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:discovery' }
const role = (name: string, more: object, metadata: object = {}): object => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name, uid: `uid-of-${name}`, ...metadata },
  ...more,
})
const binding = (name: string, more: object, metadata: object = {}): object => ({
  ...role(name, more, metadata),
  kind: 'ClusterRoleBinding',
})

void t.test('stored roles get missing rules and keep their own, unless they are protected', async (t) => {
  const own = { verbs: ['get'], apiGroups: ['own'], resources: ['own'] }
  const reviews = { verbs: ['create'], apiGroups: ['authorization.k8s.io'], resources: ['*'] }
  const isProtected = { annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'false' } }
  const store = newStore({
    'clusterroles/system:basic-user': role('system:basic-user', { rules: [own, reviews] }, { labels: { a: 'b' } }),
    'clusterroles/system:discovery': role('system:discovery', { rules: [] }, isProtected),
    'clusterrolebindings/system:basic-user': binding('system:basic-user', { roleRef: discovery, subjects: [] }),
    'clusterrolebindings/system:discovery': binding('system:discovery', { roleRef: discovery }),
  })
  const { url } = await start(t, store, '--enable-writes')
  const get = async (path: string): Promise<Body> => (await ask(url, `${RBAC}${path}`)).body

  const basic = await get('/clusterroles/system:basic-user')
  t.strictSame(basic.rules, [
    own,
    reviews,
    { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'] },
  ])
  t.match(basic.metadata, {
    uid: 'uid-of-system:basic-user',
    labels: { a: 'b', 'kubernetes.io/bootstrapping': 'rbac-defaults' },
    annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'true' },
  })
  t.strictSame((await get('/clusterroles/system:discovery')).rules, [])
  const replaced = await get('/clusterrolebindings/system:basic-user')
  t.match(replaced, { roleRef: { name: 'system:basic-user' }, subjects: [{ name: 'system:authenticated' }] })
  t.not(replaced.metadata.uid, 'uid-of-system:basic-user', 'a binding cannot change its role')
  t.match(await get('/clusterrolebindings/system:discovery'), {
    metadata: { uid: 'uid-of-system:discovery' },
    subjects: [{ kind: 'Group', name: 'system:authenticated' }],
  })

  const before = store.revision
  await start(t, store, '--enable-writes')
  t.equal(store.revision, before, 'the next start writes nothing')
})
