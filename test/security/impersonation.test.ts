/**
 * Tests that `Impersonate-*` is never ignored: on no transport, on no path that is answered here, and not in forwarded
 * requests.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startApiServer } from '../support/api-server-stand-in.js'
import { wantedUser } from '../../src/server/auth/impersonation.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { hold, TRANSPORTS } from './support/transports.js'

const HEADERS: readonly Readonly<Record<string, string>>[] = [
  { 'impersonate-user': 'bob' },
  { 'Impersonate-User': '' },
  { 'impersonate-group': 'web' },
  { 'impersonate-uid': '7' },
  { 'impersonate-extra-scopes': 'view' },
]
const PATHS = [
  '/api/v1/pods',
  '/api/v1/namespaces/a/pods/x',
  '/api/v1/pods?watch=1&timeoutSeconds=1',
  '/api',
  '/version',
  '/metrics',
]

const OBJECTS = { 'pods/a/x': pod('x', { namespace: 'a' }) }

function folder(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-impersonation-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

function tokenFlags(t: Test): string[] {
  const tokens = join(folder(t), 'tokens.csv')
  writeFileSync(
    tokens,
    'root-token,root,1,"system:masters"\nann-token,ann,2\nbob-token,bob,3\npod-token,pod-lister,4\n',
  )
  return ['--token-auth-file', tokens]
}

async function assertRefused(t: Test, app: AppHarness, token: string | null): Promise<void> {
  for (const headers of HEADERS) {
    for (const path of PATHS) {
      for (const transport of TRANSPORTS) {
        if ((transport === 'SSE' || transport === 'WebSocket') && !path.includes('watch')) continue
        const held = await hold(app.url, transport, path, { token, headers })
        await held.ended
        const what = `${transport} ${path} ${JSON.stringify(headers)}`
        t.equal(held.status, 403, what)
        t.match(held.text, /an anonymous caller cannot impersonate anyone/, what)
      }
    }
  }
}

void t.test('without an authenticator, impersonation is refused', async (t) => {
  await assertRefused(t, await startApp(t, { objects: OBJECTS }), null)
})

const API = 'rbac.authorization.k8s.io'

function role(name: string, rules: readonly object[], subject: object): Record<string, object> {
  return {
    [`clusterroles/${name}`]: { apiVersion: `${API}/v1`, kind: 'ClusterRole', metadata: { name }, rules },
    [`clusterrolebindings/${name}`]: {
      apiVersion: `${API}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name },
      roleRef: { apiGroup: API, kind: 'ClusterRole', name },
      subjects: [subject],
    },
  }
}
const may = (resource: string, name: string, group = ''): object => ({
  verbs: ['impersonate'],
  apiGroups: [group],
  resources: [resource],
  resourceNames: [name],
})
const READ_PODS = [{ verbs: ['get', 'list', 'watch'], apiGroups: [''], resources: ['pods'] }]
const AUTHENTICATION = 'authentication.k8s.io'

const RIGHTS = {
  ...role('bob', READ_PODS, { kind: 'User', name: 'bob' }),
  ...role('web', READ_PODS, { kind: 'Group', name: 'web' }),
  ...role('accounts', READ_PODS, { kind: 'Group', name: 'system:serviceaccounts:default' }),
  ...role(
    'ann',
    [
      may('users', 'bob'),
      may('users', 'zoe'),
      may('groups', 'web'),
      may('serviceaccounts', 'ci'),
      may('uids', '7', AUTHENTICATION),
      may('userextras/scopes', 'view', AUTHENTICATION),
    ],
    { kind: 'User', name: 'ann' },
  ),
  ...role(
    'pod-lister',
    [
      { ...may('users', 'bob', AUTHENTICATION), verbs: ['impersonate:user-info'] },
      {
        verbs: ['impersonate-on:user-info:list', 'impersonate-on:user-info:watch'],
        apiGroups: [''],
        resources: ['pods'],
      },
    ],
    { kind: 'User', name: 'pod-lister' },
  ),
}

const account = (name: string): string => `system:serviceaccount:default:${name}`
const IMPERSONATE = /cannot impersonate(?:-on:\S+|:\S+)? resource \\"(\w+)/

/** The code of a GET of the pods and, where impersonation itself is refused, the resource that the refusal names. */
const CASES: readonly (readonly [token: string, headers: Record<string, string>, code: number, refused?: string])[] = [
  ['ann', {}, 403],
  ['bob', {}, 200],
  ['ann', { user: 'bob' }, 200],
  ['ann', { user: 'zoe' }, 403],
  ['root', { user: 'zoe' }, 403],
  ['root', { user: 'zoe', group: 'web' }, 200],
  ['ann', { user: 'zoe', group: 'web' }, 200],
  ['ann', { user: 'eve' }, 403, 'users'],
  // Refused for this request, before anything is said about the user.
  ['bob', { user: 'ann' }, 403, 'pods'],
  ['pod', { user: 'bob' }, 200],
  ['pod', { user: 'zoe' }, 403, 'users'],
  ['pod', { user: 'bob', group: 'web' }, 403, 'groups'],
  ['ann', { user: 'bob', group: 'system:masters' }, 403, 'groups'],
  ['ann', { user: 'bob', uid: '7' }, 200],
  ['ann', { user: 'bob', uid: '8' }, 403, 'uids'],
  ['ann', { user: 'bob', 'extra-scopes': 'view' }, 200],
  ['ann', { user: 'bob', 'Extra-Scopes': 'view' }, 200],
  ['ann', { user: 'bob', 'extra-scopes': 'edit' }, 403, 'userextras'],
  ['ann', { user: 'bob', 'extra-other': 'view' }, 403, 'userextras'],
  ['ann', { user: account('ci') }, 200],
  ['ann', { user: account('other') }, 403, 'serviceaccounts'],
  ['ann', { user: `${account('ci')}:x` }, 403, 'users'],
  ['root', { user: 'system:anonymous' }, 403],
  ['ann', { user: '' }, 400],
  ['ann', { group: 'web' }, 400],
  ['ann', { uid: '7' }, 400],
  ['ann', { 'extra-scopes': 'view' }, 400],
  ['ann', { user: 'bob', group: '' }, 400],
  ['ann', { user: 'bob', surprise: 'x' }, 400],
]

const prefixed = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [`Impersonate-${name}`, value]))

void t.test(
  'impersonation needs the permission to impersonate, and then gives only the rights of the other user',
  async (t) => {
    const flags = [...tokenFlags(t), '--authorization-mode', 'RBAC', '--anonymous-auth']
    const app = await startApp(t, { objects: { ...OBJECTS, ...RIGHTS }, flags })
    for (const [token, headers, code, refused] of CASES) {
      for (const transport of TRANSPORTS) {
        const path = transport === 'SSE' || transport === 'WebSocket' ? PATHS[2]! : PATHS[0]!
        const options = { token: `${token}-token`, headers: prefixed(headers) }
        const held = await hold(app.url, transport, path, options)
        const what = `${transport}: ${token} as ${JSON.stringify(headers)}`
        t.equal(held.status, code, what)
        if (code !== 200) {
          await held.ended
          t.equal(IMPERSONATE.exec(held.text)?.[1], refused, what)
        }
        held.close()
      }
    }
    await assertRefused(t, app, null)
  },
)

void t.test('a right to impersonate for some requests holds for no other request', async (t) => {
  const app = await startApp(t, {
    objects: { ...OBJECTS, ...RIGHTS },
    flags: [...tokenFlags(t), '--authorization-mode', 'RBAC', '--enable-writes'],
  })
  const headers = { authorization: 'Bearer pod-token', 'impersonate-user': 'bob' }
  const code = async (path: string, method = 'GET'): Promise<number> =>
    (await fetch(`${app.url}${path}`, { method, headers })).status
  t.equal(await code('/api/v1/pods'), 200)
  t.equal(await code('/api/v1/namespaces/a/pods'), 200)
  for (const path of ['/api/v1/namespaces/a/pods/x', '/api/v1/nodes', '/api', '/version'])
    t.equal(await code(path), 403, path)
  t.equal(await code('/apis/authentication.k8s.io/v1/selfsubjectreviews', 'POST'), 403)
  t.equal(await code('/api/v1/pods'), 200, 'and the others stay allowed')
})

void t.test('the watch of an impersonator ends when the right to impersonate is revoked', async (t) => {
  const log = join(folder(t), 'audit.log')
  const flags = [...tokenFlags(t), '--authorization-mode', 'RBAC', '--audit-log-path', log]
  const app = await startApp(t, { objects: { ...OBJECTS, ...RIGHTS }, flags })
  const watch = async (token: string) =>
    await hold(app.url, 'HTTP/1.1', '/api/v1/pods?watch=1', { token, headers: { 'impersonate-user': 'bob' } })
  const [ann, root] = [await watch('ann-token'), await watch('root-token')]
  t.same([ann.status, root.status], [200, 200])
  app.delete('clusterrolebindings/ann')
  await ann.ended
  t.match(ann.text, /"code":403/)
  t.match(ann.text, /cannot impersonate/)
  t.equal(root.hasEnded, false, 'the same user, impersonated by somebody else')
  root.close()
  const lines = (): string[] => readFileSync(log, 'utf8').split('\n')
  await until(() => lines().length > 2, 'both watches are logged')
  t.match(JSON.parse(lines()[0]!), {
    user: 'ann',
    impersonatedUser: 'bob',
    impersonatedGroups: ['system:authenticated'],
    decision: 'allow',
  })
})

void t.test('ambiguous headers are rejected', async (t) => {
  for (const twice of ['Impersonate-User', 'impersonate-uid']) {
    const raw = ['Impersonate-User', 'bob', 'Impersonate-Uid', '7', twice, 'x']
    t.throws(() => wantedUser(raw), { code: 400 })
  }
  t.equal(wantedUser(['X-Impersonate-User', 'bob', 'Accept', 'impersonate-user']), null)
})

void t.test(
  'impersonation is forwarded to the server behind, and the Connection header cannot remove it',
  async (t) => {
    const behind = await startApiServer(t)
    const flags = ['--passthrough', behind.url, ...tokenFlags(t)]
    const app = await startApp(t, { objects: OBJECTS, flags })
    const impersonating = { 'impersonate-user': 'bob', 'impersonate-group': 'web' }
    for (const connection of ['close', 'close, impersonate-user, Impersonate-Group, authorization']) {
      const options = { token: 'root-token', headers: { ...impersonating, connection } }
      const held = await hold(app.url, 'HTTP/1.1', '/api/v1/secrets', options)
      t.equal(held.status, 200)
      t.match(behind.last().headers, { ...impersonating, authorization: 'Bearer root-token' }, connection)
    }
    const cached = await hold(app.url, 'HTTP/1.1', '/api/v1/pods', { token: 'root-token', headers: impersonating })
    t.equal(cached.status, 200, 'what is answered here')
  },
)
