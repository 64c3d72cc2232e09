/**
 * A caller who may write Roles and bindings tries to gain more, with every verb and every kind of patch, over HTTP, on
 * a server that decides by the very objects that are written.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { APPLY, clientOf, JSON_PATCH, MERGE, type Send, STRATEGIC } from '../kubernetes/writes/client.js'

const API = 'rbac.authorization.k8s.io'
const BASE = `/apis/${API}/v1`
const WEB = `${BASE}/namespaces/web`

const meta = (kind: string, name: string, namespace?: string): object => ({
  apiVersion: `${API}/v1`,
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
})
const rule = (verbs: string[], resources: string[], apiGroups = ['']): object => ({ verbs, apiGroups, resources })
const bound = (kind: string, name: string, user: string): object => ({
  roleRef: { apiGroup: API, kind, name },
  subjects: [{ apiGroup: API, kind: 'User', name: user }],
})

const READS_PODS = rule(['get', 'list'], ['pods'])
const ALL = rule(['*'], ['*'], ['*'])
const WRITES_RIGHTS = rule(['*'], ['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'], [API])
/** All permissions on RBAC objects except `escalate` and `bind`. */
const WRITES_ONLY = { ...WRITES_RIGHTS, verbs: ['get', 'create', 'update', 'patch', 'delete'] }

const OBJECTS: Readonly<Record<string, object>> = {
  'namespaces/web': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'web' } },
  'namespaces/db': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'db' } },
  'configmaps/web/c': { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'c', namespace: 'web' } },
  'clusterroles/all': { ...meta('ClusterRole', 'all'), rules: [ALL] },
  'clusterroles/pods': { ...meta('ClusterRole', 'pods'), rules: [READS_PODS] },
  'clusterroles/writer': { ...meta('ClusterRole', 'writer'), rules: [WRITES_ONLY, READS_PODS] },
  'clusterroles/escalator': { ...meta('ClusterRole', 'escalator'), rules: [WRITES_RIGHTS] },
  'clusterrolebindings/escalator': {
    ...meta('ClusterRoleBinding', 'escalator'),
    ...bound('ClusterRole', 'escalator', 'esc'),
  },
  'clusterrolebindings/writer': { ...meta('ClusterRoleBinding', 'writer'), ...bound('ClusterRole', 'writer', 'cat') },
  'rolebindings/web/writer': { ...meta('RoleBinding', 'writer', 'web'), ...bound('ClusterRole', 'writer', 'mallory') },
  'roles/web/mine': { ...meta('Role', 'mine', 'web'), rules: [READS_PODS] },
  'roles/web/secrets': { ...meta('Role', 'secrets', 'web'), rules: [rule(['get'], ['secrets'])] },
  'rolebindings/web/mine': { ...meta('RoleBinding', 'mine', 'web'), ...bound('Role', 'mine', 'mallory') },
  'rolebindings/web/all': { ...meta('RoleBinding', 'all', 'web'), ...bound('ClusterRole', 'all', 'kim') },
}

const role = (name: string, rules: object[]): object => ({ ...meta('Role', name, 'web'), rules })
const binding = (name: string, kind: string, to: string): object => ({
  ...meta('RoleBinding', name, 'web'),
  ...bound(kind, to, 'mallory'),
})

type Row = readonly [
  what: string,
  user: string,
  method: string,
  path: string,
  body: object,
  code: number,
  headers?: object,
]

const LABELLED = { metadata: { labels: { 'aggregate-to': 'admin' } } }
const HELD = { metadata: { finalizers: ['example.com/hold'] } }

const ROWS: readonly Row[] = [
  ['a role of what its writer has', 'mallory', 'POST', `${WEB}/roles`, role('fair', [READS_PODS]), 201],
  ['a role of everything', 'mallory', 'POST', `${WEB}/roles`, role('evil', [ALL]), 403],
  ['the same in a dry run', 'mallory', 'POST', `${WEB}/roles?dryRun=All`, role('evil', [ALL]), 403],
  ['a PUT that makes it', 'mallory', 'PUT', `${WEB}/roles/evil`, role('evil', [ALL]), 403],
  ['a PUT over the caller’s role', 'mallory', 'PUT', `${WEB}/roles/mine`, role('mine', [ALL]), 403],
  ['a merge patch', 'mallory', 'PATCH', `${WEB}/roles/mine`, { rules: [ALL] }, 403, MERGE],
  ['a strategic patch', 'mallory', 'PATCH', `${WEB}/roles/mine`, { rules: [ALL] }, 403, STRATEGIC],
  [
    'a JSON patch of one verb',
    'mallory',
    'PATCH',
    `${WEB}/roles/mine`,
    [{ op: 'add', path: '/rules/0/verbs/-', value: 'delete' }],
    403,
    JSON_PATCH,
  ],
  ['an apply', 'mallory', 'PATCH', `${WEB}/roles/mine?fieldManager=m&force=true`, role('mine', [ALL]), 403, APPLY],
  ['an apply that makes it', 'mallory', 'PATCH', `${WEB}/roles/evil?fieldManager=m`, role('evil', [ALL]), 403, APPLY],
  [
    'a patch that takes a verb away',
    'mallory',
    'PATCH',
    `${WEB}/roles/mine`,
    { rules: [rule(['get'], ['pods'])] },
    200,
    MERGE,
  ],
  ['a label on the caller’s role', 'mallory', 'PATCH', `${WEB}/roles/mine`, LABELLED, 200, MERGE],
  ['a label on a role of other rights', 'mallory', 'PATCH', `${WEB}/roles/secrets`, LABELLED, 403, MERGE],
  ['a finalizer on it', 'mallory', 'PATCH', `${WEB}/roles/secrets`, HELD, 200, MERGE],
  ['a binding to the caller’s role', 'mallory', 'POST', `${WEB}/rolebindings`, binding('fair', 'Role', 'mine'), 201],
  ['a binding to everything', 'mallory', 'POST', `${WEB}/rolebindings`, binding('evil', 'ClusterRole', 'all'), 403],
  ['a PUT that makes it', 'mallory', 'PUT', `${WEB}/rolebindings/evil`, binding('evil', 'ClusterRole', 'all'), 403],
  ['a PUT of another role', 'mallory', 'PUT', `${WEB}/rolebindings/mine`, binding('mine', 'ClusterRole', 'all'), 403],
  [
    'a patch to a binding of others',
    'mallory',
    'PATCH',
    `${WEB}/rolebindings/all`,
    { subjects: [{ kind: 'User', name: 'mallory', apiGroup: API }] },
    403,
    MERGE,
  ],
  ['a finalizer on it', 'mallory', 'PATCH', `${WEB}/rolebindings/all`, HELD, 200, MERGE],
  [
    'a binding to a role that is not there',
    'mallory',
    'POST',
    `${WEB}/rolebindings`,
    binding('gone', 'Role', 'no'),
    404,
  ],
  [
    'a binding of another API group',
    'mallory',
    'POST',
    `${WEB}/rolebindings`,
    { ...binding('evil', 'ClusterRole', 'all'), roleRef: { apiGroup: 'x', kind: 'ClusterRole', name: 'all' } },
    403,
  ],
  [
    'a binding of no kind',
    'mallory',
    'POST',
    `${WEB}/rolebindings`,
    { ...binding('evil', 'ClusterRole', 'all'), roleRef: { apiGroup: API, kind: 'Everything', name: 'all' } },
    403,
  ],
  [
    'a ClusterRole of everything',
    'cat',
    'POST',
    `${BASE}/clusterroles`,
    { ...meta('ClusterRole', 'e'), rules: [ALL] },
    403,
  ],
  [
    'a ClusterRole that gathers',
    'cat',
    'POST',
    `${BASE}/clusterroles`,
    { ...meta('ClusterRole', 'g'), aggregationRule: { clusterRoleSelectors: [{}] } },
    403,
  ],
  [
    'a patch that makes it gather',
    'cat',
    'PATCH',
    `${BASE}/clusterroles/pods`,
    { aggregationRule: { clusterRoleSelectors: [{}] } },
    403,
    MERGE,
  ],
  [
    'a ClusterRoleBinding to everything',
    'cat',
    'POST',
    `${BASE}/clusterrolebindings`,
    { ...meta('ClusterRoleBinding', 'e'), ...bound('ClusterRole', 'all', 'cat') },
    403,
  ],
  ['with escalate, any role', 'esc', 'POST', `${WEB}/roles`, role('given', [ALL]), 201],
  ['with bind, any binding', 'esc', 'POST', `${WEB}/rolebindings`, binding('given', 'ClusterRole', 'all'), 201],
  ['an administrator, anything', 'root', 'PATCH', `${WEB}/roles/mine`, { rules: [ALL] }, 200, MERGE],
]

async function stage(
  t: Test,
  flags: readonly string[],
  users = ['mallory', 'cat', 'esc', 'root'],
): Promise<AppHarness> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-escalation-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, users.map((user) => `${user},${user},1,${user === 'root' ? 'system:masters' : 'x'}\n`).join(''))
  const policy = join(directory, 'policy.yaml')
  writeFileSync(policy, POLICY)
  const more = flags.map((flag) => flag.replace('POLICY', policy))
  return await startApp(t, { objects: OBJECTS, flags: ['--enable-writes', `--token-auth-file=${tokens}`, ...more] })
}

const POLICY = `rules:
  - users: [mallory]
    verbs: [get, create, update, patch]
    apiGroups: ["*"]
    resources: ["*"]
  - users: [esc]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
`

const as =
  (send: Send, user: string) =>
  (method: string, path: string, body?: object, headers: object = {}) =>
    send(method, path, body, { ...headers, authorization: `Bearer ${user}` })

void t.test('no caller grants more than they have, whichever verb they use', async (t) => {
  const h = await stage(t, ['--authorization-mode=RBAC'])
  const send = clientOf(h.url)
  for (const [what, user, method, path, body, code, headers] of ROWS) {
    const answer = await as(send, user)(method, path, body, headers)
    t.equal(answer.code, code, `${user}: ${what}: ${method} ${path}: ${answer.body.message ?? ''}`)
  }
  t.equal(
    (await as(send, 'mallory')('GET', '/api/v1/namespaces/web/configmaps/c')).code,
    200,
    'only by what esc has given',
  )
  t.equal((await as(send, 'mallory')('GET', '/api/v1/namespaces/db/configmaps/c')).code, 403)
})

void t.test('the refusal names the missing permissions', async (t) => {
  const h = await stage(t, ['--authorization-mode=RBAC'])
  const answer = await as(clientOf(h.url), 'mallory')(
    'POST',
    `${WEB}/roles`,
    role('evil', [rule(['get', 'delete'], ['pods'])]),
  )
  t.match(answer.body, {
    reason: 'Forbidden',
    details: { name: 'evil', group: API, kind: 'roles' },
    message:
      `roles.${API} "evil" is forbidden: user "mallory" (groups=["x" "system:authenticated"]) is attempting to grant ` +
      'RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
  })
})

void t.test(
  'under another mode the permission to escalate comes from that mode, and the rest from Roles',
  async (t) => {
    const h = await stage(t, ['--authorization-mode=Policy', '--authorization-policy-file=POLICY'])
    const mallory = as(clientOf(h.url), 'mallory')
    t.equal((await mallory('POST', `${WEB}/roles`, role('evil', [ALL]))).code, 403)
    t.equal((await mallory('POST', `${WEB}/roles`, role('fair', [READS_PODS]))).code, 201)
    t.equal((await mallory('POST', `${WEB}/rolebindings`, binding('evil', 'ClusterRole', 'all'))).code, 403)
    t.equal((await as(clientOf(h.url), 'esc')('POST', `${WEB}/roles`, role('given', [ALL]))).code, 201)
  },
)
