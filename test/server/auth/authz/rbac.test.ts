import t from 'tap'

import { type Attributes, pathAttributes, resourceAttributes } from '../../../../src/server/auth/authz/authorizer.js'
import { rbac, RbacRules, type RbacSource } from '../../../../src/server/auth/authz/rbac.js'
import type { User } from '../../../../src/server/auth/user.js'
import { type Random, randomInteger, seededRandom } from '../../../../src/support/random.js'
import { type BindingObject, mayDo, type Question, type RoleObject, type World } from '../rbac-reference.js'
import { type RbacJson, rbacObjects } from '../rbac-json.js'
import { testSeed } from '../../../support/test-seeds.js'

class Source implements RbacSource {
  readonly #listeners = new Set<() => void>()
  constructor(private objects: RbacJson | null) {}
  get unread() {
    return this.objects === null ? 'roles and bindings have not been read yet' : null
  }
  list = () => Promise.resolve(rbacObjects(this.objects!))
  onChange(listener: () => void) {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }
  set(objects: RbacJson | null) {
    this.objects = objects
    for (const listener of this.#listeners) listener()
  }
}

const userOf = (q: Pick<Question, 'user' | 'groups'>): User => ({
  name: q.user,
  uid: '',
  groups: q.groups,
  extra: {},
  expiresAt: null,
})

function attributesOf(q: Question): Attributes {
  if (q.path !== undefined) return pathAttributes(q.verb, q.path)
  const [plural = '', subresource = ''] = (q.resource ?? '').split('/')
  return resourceAttributes({
    verb: q.verb,
    resource: { group: q.group ?? '', version: 'v1', plural },
    subresource,
    namespace: q.namespace ?? '',
    name: q.name ?? '',
    path: '/',
  })
}

/** Aggregation is evaluated here, as on a server without controllers. */
const AGGREGATING = { isAggregating: true }

const allowedBy = async (objects: RbacJson, q: Question): Promise<boolean> =>
  (await rbac(new RbacRules(new Source(objects), AGGREGATING)).authorize(userOf(q), attributesOf(q))).allowed

const clusterRole = (name: string, rules: RoleObject['rules'], labels?: Record<string, string>): RoleObject => ({
  metadata: { name, ...(labels === undefined ? {} : { labels }) },
  ...(rules === undefined ? {} : { rules }),
})
const aggregated = (name: string, label: string, labels?: Record<string, string>): RoleObject => ({
  ...clusterRole(name, [], labels),
  aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [label]: 'true' } }] },
})
const role = (namespace: string, name: string, rules: NonNullable<RoleObject['rules']>): RoleObject => ({
  metadata: { name, namespace },
  rules,
})
const binding = (
  namespace: string,
  name: string,
  kind: string,
  to: string,
  subjects: BindingObject['subjects'],
): BindingObject => ({
  metadata: namespace === '' ? { name } : { name, namespace },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: to },
  ...(subjects === undefined ? {} : { subjects }),
})
const user = (name: string) => ({ kind: 'User', name })
const group = (name: string) => ({ kind: 'Group', name })
const account = (name: string, namespace?: string) => ({
  kind: 'ServiceAccount',
  name,
  ...(namespace === undefined ? {} : { namespace }),
})

const READ = ['get', 'list', 'watch']

const WORLD: World = {
  clusterRoles: [
    clusterRole('cluster-admin', [
      { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
      { verbs: ['*'], nonResourceURLs: ['*'] },
    ]),
    clusterRole('pod-reader', [{ verbs: READ, apiGroups: [''], resources: ['pods'] }]),
    clusterRole('log-reader', [{ verbs: ['get'], apiGroups: [''], resources: ['pods/log'] }]),
    clusterRole('scaler', [{ verbs: ['get', 'update'], apiGroups: ['*'], resources: ['*/scale'] }]),
    clusterRole('core-all', [{ verbs: ['*'], apiGroups: [''], resources: ['*'] }]),
    clusterRole('one-config', [{ verbs: READ, apiGroups: [''], resources: ['configmaps'], resourceNames: ['flags'] }]),
    clusterRole('discovery', [
      { verbs: ['get'], nonResourceURLs: ['/api', '/api/*', '/apis', '/apis/*', '/healthz', '/version'] },
    ]),
    clusterRole('metrics', [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }]),
    clusterRole('node-reader', [{ verbs: READ, apiGroups: [''], resources: ['nodes', 'namespaces'] }]),
    clusterRole('empty', undefined),
    clusterRole('odd', [{ verbs: ['get'], apiGroups: [''], resources: ['*/', 'po*', '/log', 'pods/*'] }]),
    aggregated('view', 'aggregate-to-view', { 'aggregate-to-edit': 'true' }),
    aggregated('edit', 'aggregate-to-edit'),
    clusterRole('view-apps', [{ verbs: READ, apiGroups: ['apps'], resources: ['deployments'] }], {
      'aggregate-to-view': 'true',
    }),
    clusterRole('edit-apps', [{ verbs: ['update'], apiGroups: ['apps'], resources: ['deployments'] }], {
      'aggregate-to-edit': 'true',
    }),
    aggregated('loop-a', 'loop', { loop: 'true' }),
    clusterRole('loop-leaf', [{ verbs: ['get'], apiGroups: ['x'], resources: ['loops'] }], { loop: 'true' }),
  ],
  roles: [
    role('web', 'pod-reader', [{ verbs: ['get'], apiGroups: [''], resources: ['pods'] }]),
    role('web', 'deployer', [{ verbs: ['*'], apiGroups: ['apps'], resources: ['deployments', 'deployments/status'] }]),
    role('db', 'secret-one', [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'], resourceNames: ['a', 'b'] }]),
  ],
  clusterRoleBindings: [
    binding('', 'admins', 'ClusterRole', 'cluster-admin', [group('admins')]),
    binding('', 'everyone-discovers', 'ClusterRole', 'discovery', [
      group('system:authenticated'),
      group('system:unauthenticated'),
    ]),
    binding('', 'pods-everywhere', 'ClusterRole', 'pod-reader', [user('ann'), group('watchers')]),
    binding('', 'prometheus', 'ClusterRole', 'metrics', [account('prometheus', 'monitoring')]),
    binding('', 'accounts-read-nodes', 'ClusterRole', 'node-reader', [group('system:serviceaccounts')]),
    binding('', 'ns-accounts-log', 'ClusterRole', 'log-reader', [group('system:serviceaccounts:web')]),
    binding('', 'scalers', 'ClusterRole', 'scaler', [user('sam')]),
    binding('', 'viewers', 'ClusterRole', 'view', [group('viewers')]),
    binding('', 'editors', 'ClusterRole', 'edit', [group('editors')]),
    binding('', 'loopers', 'ClusterRole', 'loop-a', [user('lou')]),
    binding('', 'dangling', 'ClusterRole', 'gone', [user('dan')]),
    binding('', 'a-role-cannot-be-cluster-wide', 'Role', 'pod-reader', [user('dan')]),
    binding('', 'account-without-namespace', 'ClusterRole', 'cluster-admin', [account('lost')]),
    binding('', 'nobody', 'ClusterRole', 'cluster-admin', undefined),
    binding('', 'odd', 'ClusterRole', 'odd', [user('odd')]),
    binding('', 'nothing', 'ClusterRole', 'empty', [user('eve')]),
  ],
  roleBindings: [
    binding('web', 'bob-reads', 'Role', 'pod-reader', [user('bob')]),
    binding('web', 'bob-deploys', 'Role', 'deployer', [user('bob')]),
    binding('web', 'cluster-role-here', 'ClusterRole', 'core-all', [group('web-admins')]),
    binding('web', 'own-account', 'ClusterRole', 'pod-reader', [account('app'), account('other', 'db')]),
    binding('web', 'all-powerful-here', 'ClusterRole', 'cluster-admin', [user('kim')]),
    binding('db', 'secrets', 'Role', 'secret-one', [user('bob')]),
    binding('db', 'config', 'ClusterRole', 'one-config', [user('bob')]),
    binding('db', 'no-such-role-here', 'Role', 'pod-reader', [user('cat')]),
    binding('web', 'namespace-itself', 'ClusterRole', 'node-reader', [user('nat')]),
  ],
}

const sa = (namespace: string, name: string) => ({
  user: `system:serviceaccount:${namespace}:${name}`,
  groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
})
const CALLERS: Readonly<Record<string, Pick<Question, 'user' | 'groups'>>> = {
  root: { user: 'root', groups: ['admins', 'system:authenticated'] },
  master: { user: 'm', groups: ['system:masters', 'system:authenticated'] },
  ann: { user: 'ann', groups: ['system:authenticated'] },
  watcher: { user: 'w', groups: ['watchers', 'system:authenticated'] },
  bob: { user: 'bob', groups: ['system:authenticated'] },
  cat: { user: 'cat', groups: ['system:authenticated'] },
  dan: { user: 'dan', groups: ['system:authenticated'] },
  odd: { user: 'odd', groups: ['system:authenticated'] },
  eve: { user: 'eve', groups: ['system:authenticated'] },
  kim: { user: 'kim', groups: ['system:authenticated'] },
  lou: { user: 'lou', groups: ['system:authenticated'] },
  nat: { user: 'nat', groups: ['system:authenticated'] },
  sam: { user: 'sam', groups: ['system:authenticated'] },
  webAdmin: { user: 'wa', groups: ['web-admins', 'system:authenticated'] },
  viewer: { user: 'v', groups: ['viewers', 'system:authenticated'] },
  editor: { user: 'e', groups: ['editors', 'system:authenticated'] },
  prometheus: sa('monitoring', 'prometheus'),
  app: sa('web', 'app'),
  other: sa('db', 'other'),
  lost: sa('', 'lost'),
  anonymous: { user: 'system:anonymous', groups: ['system:unauthenticated'] },
  // A group is not a user of the same name, nor the reverse.
  namedAdmins: { user: 'admins', groups: ['ann', 'system:authenticated'] },
}

const QUESTIONS: readonly Omit<Question, 'user' | 'groups'>[] = [
  { verb: 'get', resource: 'pods', namespace: 'web', name: 'p' },
  { verb: 'list', resource: 'pods', namespace: 'web' },
  { verb: 'watch', resource: 'pods', namespace: 'web' },
  { verb: 'list', resource: 'pods' },
  { verb: 'watch', resource: 'pods' },
  { verb: 'get', resource: 'pods', namespace: 'webb', name: 'p' },
  { verb: 'delete', resource: 'pods', namespace: 'web', name: 'p' },
  { verb: 'get', resource: 'pods/log', namespace: 'web', name: 'p' },
  { verb: 'get', resource: 'pods/status', namespace: 'web', name: 'p' },
  { verb: 'get', resource: 'pods', group: 'metrics.k8s.io', namespace: 'web', name: 'p' },
  { verb: 'get', resource: 'Pods', namespace: 'web', name: 'p' },
  { verb: 'list', resource: 'deployments', group: 'apps', namespace: 'web' },
  { verb: 'update', resource: 'deployments', group: 'apps', namespace: 'web', name: 'd' },
  { verb: 'get', resource: 'deployments/scale', group: 'apps', namespace: 'web', name: 'd' },
  { verb: 'update', resource: 'deployments/status', group: 'apps', namespace: 'web', name: 'd' },
  { verb: 'list', resource: 'deployments', group: 'apps' },
  { verb: 'list', resource: 'deployments', namespace: 'web' },
  { verb: 'get', resource: 'scale', group: 'apps', namespace: 'web' },
  { verb: 'get', resource: 'secrets', namespace: 'db', name: 'a' },
  { verb: 'get', resource: 'secrets', namespace: 'db', name: 'c' },
  { verb: 'list', resource: 'secrets', namespace: 'db' },
  { verb: 'get', resource: 'secrets', namespace: 'web', name: 'a' },
  { verb: 'watch', resource: 'configmaps', namespace: 'db', name: 'flags' },
  { verb: 'watch', resource: 'configmaps', namespace: 'db' },
  { verb: 'list', resource: 'nodes' },
  { verb: 'get', resource: 'namespaces', name: 'web', namespace: 'web' },
  { verb: 'get', resource: 'namespaces', name: 'db', namespace: 'db' },
  { verb: 'list', resource: 'namespaces' },
  { verb: 'get', resource: 'loops', group: 'x' },
  { verb: 'get', path: '/metrics' },
  { verb: 'get', path: '/metrics/cadvisor' },
  { verb: 'get', path: '/api' },
  { verb: 'get', path: '/api/v1' },
  { verb: 'get', path: '/apiserver' },
  { verb: 'post', path: '/api' },
  { verb: 'get', path: '/healthz' },
  { verb: 'get', path: '/healthz/' },
  { verb: 'get', path: '/' },
]

/** Decisions checked by hand, so that reference and code cannot be wrong together. */
const BY_HAND: readonly (readonly [keyof typeof CALLERS, string, boolean])[] = [
  ['root', 'watch pods', true],
  ['root', 'post /api', true],
  ['master', 'delete pods web p', true],
  ['ann', 'watch pods', true],
  ['ann', 'watch pods web', true],
  ['ann', 'delete pods web p', false],
  ['ann', 'get pods/log web p', false],
  ['watcher', 'list pods', true],
  ['bob', 'get pods web p', true],
  ['bob', 'list pods web', false],
  ['bob', 'get pods webb p', false],
  ['bob', 'watch pods', false],
  ['bob', 'update deployments.apps web d', true],
  ['bob', 'list deployments.apps', false],
  ['bob', 'get secrets db a', true],
  ['bob', 'get secrets db c', false],
  ['bob', 'list secrets db', false],
  ['bob', 'get secrets web a', false],
  ['bob', 'watch configmaps db flags', true],
  ['bob', 'watch configmaps db', false],
  ['cat', 'get pods web p', false],
  ['dan', 'list pods', false],
  ['dan', 'get pods web p', false],
  ['odd', 'get pods web p', false],
  ['odd', 'get pods/log web p', false],
  ['eve', 'get /healthz', true],
  ['eve', 'get pods web p', false],
  ['kim', 'get secrets web a', true],
  ['kim', 'get secrets db a', false],
  ['kim', 'watch pods', false],
  ['kim', 'get /metrics', false],
  ['lou', 'get loops.x', true],
  ['nat', 'get namespaces web web', true],
  ['nat', 'get namespaces db db', false],
  ['nat', 'list namespaces', false],
  ['nat', 'list nodes', false],
  ['sam', 'get deployments/scale.apps web d', true],
  ['sam', 'list deployments.apps web', false],
  ['sam', 'get scale.apps web', false],
  ['webAdmin', 'get pods/log web p', true],
  ['webAdmin', 'list deployments.apps web', false],
  ['viewer', 'list deployments.apps', true],
  ['viewer', 'update deployments.apps web d', false],
  ['editor', 'list deployments.apps', true],
  ['editor', 'update deployments.apps web d', true],
  ['prometheus', 'get /metrics', true],
  ['prometheus', 'get /metrics/cadvisor', false],
  ['prometheus', 'list nodes', true],
  ['app', 'watch pods web', true],
  ['app', 'watch pods', false],
  ['app', 'get pods/log web p', true],
  ['other', 'watch pods web', true],
  ['other', 'get pods/log web p', false],
  ['lost', 'get /metrics', false],
  ['anonymous', 'get /api/v1', true],
  ['anonymous', 'get /apiserver', false],
  ['anonymous', 'get /healthz/', false],
  ['anonymous', 'list pods', false],
  ['namedAdmins', 'list nodes', false],
  ['namedAdmins', 'list pods', false],
]

function said(q: Omit<Question, 'user' | 'groups'>): string {
  if (q.path !== undefined) return `${q.verb} ${q.path}`
  const what = q.group ? `${q.resource}.${q.group}` : q.resource
  return [q.verb, what, q.namespace, q.name].filter(Boolean).join(' ')
}

void t.test(`${Object.keys(CALLERS).length * QUESTIONS.length} decisions equal the reference's`, async (t) => {
  let allowed = 0
  let cases = 0
  for (const [caller, who] of Object.entries(CALLERS)) {
    for (const what of QUESTIONS) {
      const q = { ...who, ...what }
      const expected = mayDo(WORLD, q)
      t.equal(await allowedBy(WORLD, q), expected, `${caller}: ${said(what)}`)
      cases++
      if (expected) allowed++
    }
  }
  t.ok(cases >= 200, 'enough of them')
  t.ok(allowed > cases / 10 && allowed < cases / 2, 'some requests are allowed and some are not')
})

void t.test('code and reference agree with the manual decisions', async (t) => {
  for (const [caller, text, expected] of BY_HAND) {
    const what = QUESTIONS.find((one) => said(one) === text)
    const who = CALLERS[caller]
    if (what === undefined || who === undefined) throw new Error(`no such case: ${caller} ${text}`)
    t.equal(mayDo(WORLD, { ...who, ...what }), expected, `reference: ${caller} ${text}`)
    t.equal(await allowedBy(WORLD, { ...who, ...what }), expected, `code: ${caller} ${text}`)
  }
})

void t.test('in random worlds no decision differs from the reference', async (t) => {
  const seed = testSeed(1)
  const random = seededRandom(seed)
  let allowed = 0
  for (let i = 0; i < 200; i++) {
    const world = randomWorld(random)
    const authorizer = rbac(new RbacRules(new Source(world), AGGREGATING))
    for (let k = 0; k < 20; k++) {
      const q = randomQuestion(random)
      const expected = mayDo(world, q)
      const decision = await authorizer.authorize(userOf(q), attributesOf(q))
      if (decision.allowed !== expected) t.fail(`seed ${seed}: ${JSON.stringify({ q, expected, decision, world })}`)
      if (expected) allowed++
    }
  }
  t.ok(allowed > 100 && allowed < 3_900, `seed ${seed}: ${allowed} of 4000 allowed`)
})

function randomWorld(random: Random): World {
  const some = <T>(items: readonly T[], most: number): T[] =>
    Array.from({ length: randomInteger(random, 1, most) }, () => one(random, items))
  const rules = () =>
    Array.from({ length: randomInteger(random, 0, 4) }, () =>
      random.next() < 0.2
        ? { verbs: some(['get', '*'], 2), nonResourceURLs: some(['/a', '/a/*', '*', '/b*'], 2) }
        : {
            verbs: some(['get', 'list', 'watch', '*'], 2),
            apiGroups: some(['', 'apps', '*'], 2),
            resources: some(['pods', 'pods/log', '*/log', '*', 'nodes'], 2),
            ...(random.next() < 0.3 ? { resourceNames: some(['x', 'y'], 2) } : {}),
          },
    )
  const subjects = () =>
    some([user('u'), user('v'), group('g'), group('h'), account('s', 'a'), account('s'), account('t', 'b')], 3)
  const names = ['r1', 'r2', 'r3']
  const labels = () => (random.next() < 0.5 ? { labels: { l: one(random, ['1', '2']) } } : {})
  return {
    clusterRoles: names.map((name) => ({
      metadata: { name, ...labels() },
      rules: rules(),
      ...(random.next() < 0.25
        ? { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { l: one(random, ['1', '2']) } }] } }
        : {}),
    })),
    roles: ['a', 'b'].flatMap((ns) => names.slice(0, 2).map((name) => role(ns, name, rules()))),
    clusterRoleBindings: some(names, 4).map((to, i) =>
      binding('', `c${i}`, one(random, ['ClusterRole', 'ClusterRole', 'Role']), to, subjects()),
    ),
    roleBindings: some(['a', 'b'], 8).map((ns, i) =>
      binding(ns, `b${i}`, one(random, ['Role', 'ClusterRole']), one(random, [...names, 'gone']), subjects()),
    ),
  }
}

function randomQuestion(random: Random): Question {
  const who = one(random, [
    { user: 'u', groups: ['g'] },
    { user: 'v', groups: ['g', 'h'] },
    { user: 'w', groups: [] },
    { user: 'system:serviceaccount:a:s', groups: ['h'] },
    { user: 'system:serviceaccount:b:t', groups: [] },
  ])
  const verb = one(random, ['get', 'list', 'watch', 'delete'])
  if (random.next() < 0.2) return { ...who, verb, path: one(random, ['/a', '/a/b', '/b', '/bc', '/']) }
  return {
    ...who,
    verb,
    group: one(random, ['', 'apps']),
    resource: one(random, ['pods', 'pods/log', 'nodes', 'nodes/log']),
    namespace: one(random, ['', 'a', 'b']),
    name: one(random, ['', 'x', 'z']),
  }
}

function one<T>(random: Random, items: readonly T[]): T {
  const item = items[randomInteger(random, 0, items.length - 1)]
  if (item === undefined) throw new Error('nothing to choose from')
  return item
}

void t.test('the rule is named as the API server names it', async (t) => {
  const rule = async (caller: keyof typeof CALLERS, text: string) => {
    const what = QUESTIONS.find((q) => said(q) === text)
    const who = CALLERS[caller]
    if (what === undefined || who === undefined) throw new Error('no such case')
    return rbac(new RbacRules(new Source(WORLD))).authorize(userOf(who), attributesOf({ ...who, ...what }))
  }
  t.match(await rule('ann', 'watch pods'), {
    rule: 'RBAC: allowed by ClusterRoleBinding "pods-everywhere" of ClusterRole "pod-reader" to User "ann"',
  })
  t.match(await rule('bob', 'get pods web p'), {
    rule: 'RBAC: allowed by RoleBinding "bob-reads/web" of Role "pod-reader" to User "bob"',
  })
  t.match(await rule('app', 'watch pods web'), {
    rule: 'RBAC: allowed by RoleBinding "own-account/web" of ClusterRole "pod-reader" to ServiceAccount "app/web"',
  })
  t.match(await rule('dan', 'list pods'), {
    allowed: false,
    reason:
      'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "pod-reader" not found]',
  })
  t.match(await rule('eve', 'list pods'), { allowed: false, reason: '', rule: null })
})

void t.test('malformed objects grant no permission and cause no error', async (t) => {
  const q = { user: 'u', groups: [], verb: 'get', resource: 'pods', namespace: 'a', name: 'x' }
  const bound = [binding('', 'b', 'ClusterRole', 'r', [user('u')])]
  const withRole = (clusterRoles: unknown[]): RbacJson => ({
    clusterRoles,
    roles: [],
    roleBindings: [],
    clusterRoleBindings: bound,
  })
  const rule = { verbs: ['get'], apiGroups: [''], resources: ['pods'] }
  const good = { metadata: { name: 'r' }, rules: [rule] }
  t.equal(await allowedBy(withRole([good]), q), true, 'the well-formed one does')
  const bad: readonly unknown[] = [
    null,
    7,
    'text',
    [],
    {},
    { metadata: null, rules: [rule] },
    { metadata: { name: 5 }, rules: [rule] },
    { metadata: { name: 'r' } },
    { metadata: { name: 'r' }, rules: null },
    { metadata: { name: 'r' }, rules: 'get' },
    { metadata: { name: 'r' }, rules: [null] },
    { metadata: { name: 'r' }, rules: [{ ...rule, verbs: 'get' }] },
    { metadata: { name: 'r' }, rules: [{ ...rule, verbs: [['get']] }] },
    { metadata: { name: 'r' }, rules: [{ ...rule, resourceNames: [5] }] },
    { metadata: { name: 'r' }, rules: [{ ...rule, resourceNames: 'x' }] },
    { metadata: { name: 'r' }, rules: [{ ...rule, resourceNames: {} }] },
    { metadata: { name: 'r' }, rules: [rule], aggregationRule: {} },
  ]
  for (const one of bad) t.equal(await allowedBy(withRole([one]), q), false, JSON.stringify(one))
  const badBindings: readonly unknown[] = [
    null,
    { metadata: { name: 'b' } },
    { metadata: { name: 'b' }, roleRef: { kind: 'ClusterRole', name: 'r' }, subjects: {} },
    { metadata: { name: 'b' }, roleRef: { kind: 'ClusterRole', name: 'r' }, subjects: [{ kind: 'User' }] },
    { metadata: { name: 'b' }, roleRef: { kind: 'ClusterRole', name: 'r' }, subjects: [{ kind: 'user', name: 'u' }] },
    { metadata: { name: 'b' }, roleRef: { kind: 'clusterrole', name: 'r' }, subjects: [user('u')] },
  ]
  for (const one of badBindings) {
    t.equal(await allowedBy({ ...withRole([good]), clusterRoleBindings: [one] }, q), false, JSON.stringify(one))
  }
  t.equal(
    await allowedBy({ ...withRole([good]), clusterRoleBindings: [], roleBindings: bound }, q),
    false,
    'a RoleBinding without a namespace is no ClusterRoleBinding',
  )
})

void t.test('a change takes effect with the next request and is reported', async (t) => {
  const source = new Source(null)
  const authorizer = rbac(new RbacRules(source))
  let told = 0
  authorizer.onChange(() => told++)
  const q: Question = { user: 'ann', groups: [], verb: 'watch', resource: 'pods' }
  const ask = () => authorizer.authorize(userOf(q), attributesOf(q))
  await t.rejects(
    ask(),
    { code: 503, message: /not been read yet/, details: { retryAfterSeconds: 1 } },
    'before the roles are read, nobody has a right, and nobody is refused for lacking one',
  )
  source.set(WORLD)
  t.match(await ask(), { allowed: true })
  source.set({ ...WORLD, clusterRoleBindings: [] })
  t.match(await ask(), { allowed: false })
  t.equal(told, 2)
})

void t.test(
  'where controllers run, an aggregated role grants its stored rules, and nothing before they are stored',
  async (t) => {
    const reads = { verbs: ['get'], apiGroups: [''], resources: ['pods'] }
    const worldOf = (rules: RoleObject['rules']): RbacJson => ({
      clusterRoles: [
        { ...aggregated('all', 'to-all'), ...(rules === undefined ? {} : { rules }) },
        clusterRole('leaf', [reads], { 'to-all': 'true' }),
      ],
      roles: [],
      roleBindings: [],
      clusterRoleBindings: [binding('', 'b', 'ClusterRole', 'all', [user('u')])],
    })
    const q: Question = { user: 'u', groups: [], verb: 'get', resource: 'pods' }
    for (const [rules, expected] of [
      [[], false],
      [undefined, false],
      [[reads], true],
    ] as const) {
      const source = new Source(worldOf(rules as RoleObject['rules']))
      const { allowed } = await rbac(new RbacRules(source)).authorize(userOf(q), attributesOf(q))
      t.equal(allowed, expected, JSON.stringify(rules))
    }
  },
)

void t.test('aggregation selects by expressions too', async (t) => {
  const rows: readonly (readonly [object, Record<string, string>, boolean])[] = [
    [{ matchLabels: { a: '1' } }, { a: '1' }, true],
    [{ matchLabels: { a: '1' } }, { a: '2' }, false],
    [{ matchLabels: { a: '1', b: '1' } }, { a: '1' }, false],
    [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['1', '2'] }] }, { a: '2' }, true],
    [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['1'] }] }, {}, false],
    [{ matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['1'] }] }, {}, true],
    [{ matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['1'] }] }, { a: '1' }, false],
    [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }, { a: '' }, true],
    [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }, {}, false],
    [{ matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] }, {}, true],
    [{ matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] }, { a: '1' }, false],
    [{ matchExpressions: [{ key: 'a', operator: 'Magic' }] }, { a: '1' }, false],
    [{ matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }, {}, false],
    [{ matchExpressions: [{ key: '__proto__', operator: 'Exists' }] }, {}, false],
  ]
  const q: Question = { user: 'u', groups: [], verb: 'get', resource: 'pods' }
  for (const [selector, labels, expected] of rows) {
    const objects: RbacJson = {
      clusterRoles: [
        { metadata: { name: 'all' }, aggregationRule: { clusterRoleSelectors: [selector] } },
        clusterRole('leaf', [{ verbs: ['get'], apiGroups: [''], resources: ['pods'] }], labels),
      ],
      roles: [],
      roleBindings: [],
      clusterRoleBindings: [binding('', 'b', 'ClusterRole', 'all', [user('u')])],
    }
    t.equal(await allowedBy(objects, q), expected, `${JSON.stringify(selector)} on ${JSON.stringify(labels)}`)
  }
})

void t.test('roles that aggregate each other, and wildcards by the thousand, cause no delay', async (t) => {
  // An earlier version computed each role from all others: 300 took 10 s, and these would take hours.
  const each = (make: (i: number) => RoleObject): RoleObject[] => Array.from({ length: 3_000 }, (_, i) => make(i))
  const entangled: World = {
    ...WORLD,
    clusterRoles: [
      ...WORLD.clusterRoles,
      ...each((i) => aggregated(`tangle-${i}`, `tangle-${i % 7}`, { [`tangle-${(i + 1) % 7}`]: 'true' })),
      ...each((i) =>
        clusterRole(`leaf-${i}`, [{ verbs: ['get'], apiGroups: ['x'], resources: [`things-${i}`] }], {
          'tangle-3': 'true',
        }),
      ),
    ],
    clusterRoleBindings: each((i) => ({ metadata: { name: `b${i}` } })).map(({ metadata: { name } }, i) =>
      binding('', name, 'ClusterRole', `tangle-${i}`, [user('tan')]),
    ),
  }
  const tan = { user: 'tan', groups: [] }
  t.equal(await allowedBy(entangled, { ...tan, verb: 'get', group: 'x', resource: 'things-2999' }), true)
  t.equal(await allowedBy(entangled, { ...tan, verb: 'get', group: 'x', resource: 'things-3000' }), false)

  const stars = '*'.repeat(120_000)
  const starred: World = {
    ...WORLD,
    clusterRoles: [
      clusterRole('stars', [
        { verbs: ['get'], nonResourceURLs: [`/${stars}x`, `/a${stars}`, `${stars}/`] },
        { verbs: Array.from(stars), apiGroups: Array.from(stars), resources: Array.from(stars) },
      ]),
    ],
    clusterRoleBindings: [binding('', 'stars', 'ClusterRole', 'stars', [user('tan')])],
  }
  const authorizer = rbac(new RbacRules(new Source(starred)))
  const may = async (q: Omit<Question, 'user' | 'groups'>): Promise<boolean> =>
    (await authorizer.authorize(userOf(tan), attributesOf({ ...tan, ...q }))).allowed
  for (let i = 0; i < 1_000; i++) {
    if (!(await may({ verb: 'get', path: `/a${i}` }))) t.fail(`/a${i}`)
    if (await may({ verb: 'get', path: `/b${i}` })) t.fail(`/b${i}`)
  }
  t.equal(await may({ verb: 'delete', resource: 'pods', namespace: 'web', name: 'p' }), true)
})

void t.test('a role with very many rules is read in turns', async (t) => {
  const rules = Array.from({ length: 100_000 }, (_, i) => ({ verbs: ['get'], apiGroups: [`g${i}`], resources: ['a'] }))
  const source = new Source({
    ...WORLD,
    clusterRoles: [clusterRole('many', rules)],
    clusterRoleBindings: [binding('', 'many', 'ClusterRole', 'many', [user('max')])],
  })
  const authorizer = rbac(new RbacRules(source))
  const ask = async (group: string): Promise<boolean> => {
    const q = { user: 'max', groups: [], verb: 'get', group, resource: 'a' }
    return (await authorizer.authorize(userOf(q), attributesOf(q))).allowed
  }
  let iterations = 0
  let isAnswered = false
  const count = (): void => {
    iterations++
    if (!isAnswered) setImmediate(count)
  }
  setImmediate(count)
  t.same(await Promise.all([ask('g99999'), ask('g100000')]), [true, false])
  isAnswered = true
  t.ok(iterations > 2, `${iterations} iterations of the event loop`)
})

void t.test('a request is answered from permissions that are no older than it', async (t) => {
  const mine = (rules: RoleObject['rules']): World => ({
    ...WORLD,
    clusterRoles: [clusterRole('mine', rules)],
    clusterRoleBindings: [binding('', 'mine', 'ClusterRole', 'mine', [user('max')])],
  })
  const source = new Source(mine([{ verbs: ['get'], apiGroups: [''], resources: ['pods'] }]))
  const reads: (() => void)[] = []
  let readings = 0
  const list = source.list
  source.list = async () => {
    readings++
    const objects = await list()
    await new Promise<void>((resolve) => reads.push(resolve))
    return objects
  }
  const authorizer = rbac(new RbacRules(source))
  const q = { user: 'max', groups: [], verb: 'get', resource: 'pods' }
  const ask = async (): Promise<boolean> => (await authorizer.authorize(userOf(q), attributesOf(q))).allowed
  const before = [ask(), ask()]
  await turn()
  source.set(mine([]))
  const after = [ask(), ask()]
  await turn()
  reads.shift()?.()
  t.same(await Promise.all(before), [true, true])
  await turn()
  reads.shift()?.()
  t.same(await Promise.all(after), [false, false], 'the right was taken before they asked')
  t.equal(await ask(), false)
  t.equal(readings, 2, 'once for each state')
})

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

void t.test('the matching path pattern is found among many with a star', async (t) => {
  const patterns = ['/b*', '/a/*', '/a/b/c*', '/a/b*', '/z***', '/m*n', '/q', '/', '/e/*/f*']
  const world: World = {
    ...WORLD,
    clusterRoles: [clusterRole('paths', [{ verbs: ['get'], nonResourceURLs: patterns }])],
    clusterRoleBindings: [binding('', 'paths', 'ClusterRole', 'paths', [user('pat')])],
  }
  const cases: Readonly<Record<string, boolean>> = {
    '/': true,
    '/a': false,
    '/a/': true,
    '/a/x': true,
    '/a/b/d': true,
    '/b': true,
    '/bz': true,
    '/c': false,
    '/m1n': false,
    '/m*n': true,
    '/q': true,
    '/q/': false,
    '/z': true,
    '/zz/z': true,
    '/e/1/f2': false,
    '/e/*/f2': true,
  }
  for (const [path, expected] of Object.entries(cases)) {
    t.equal(await allowedBy(world, { user: 'pat', groups: [], verb: 'get', path }), expected, path)
  }
})

void t.test('a user’s permissions in a namespace are listed once each, and missing roles are named', async (t) => {
  const pods = { verbs: ['get'], apiGroups: [''], resources: ['pods'], resourceNames: ['a'] }
  const many = Array.from({ length: 10_001 }, (_, index) => ({
    verbs: [`v${index}`],
    apiGroups: [''],
    resources: ['x'],
  }))
  const world: World = {
    roles: [],
    clusterRoles: [
      clusterRole('pods', [pods]),
      clusterRole('paths', [{ verbs: ['get'], nonResourceURLs: ['/x'] }]),
      clusterRole('many', many),
    ],
    clusterRoleBindings: [
      binding('', 'one', 'ClusterRole', 'paths', [user('ann')]),
      binding('', 'many', 'ClusterRole', 'many', [user('max')]),
    ],
    roleBindings: [
      binding('web', 'two', 'ClusterRole', 'pods', [user('ann')]),
      binding('web', 'three', 'ClusterRole', 'pods', [group('team')]),
      binding('db', 'four', 'ClusterRole', 'gone', [user('ann')]),
    ],
  }
  const rulesFor = (source: Source, name: string, namespace: string, groups: string[] = ['team']) =>
    rbac(new RbacRules(source)).rulesFor(userOf({ user: name, groups }), namespace)
  const source = new Source(world)
  t.same(await rulesFor(source, 'ann', 'web'), {
    resourceRules: [pods],
    nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/x'] }],
    incomplete: false,
  })
  t.match(await rulesFor(source, 'ann', 'db'), {
    resourceRules: [],
    incomplete: true,
    evaluationError: /"gone" not found/,
  })
  t.match(await rulesFor(source, 'max', 'web', []), {
    resourceRules: [],
    incomplete: true,
    evaluationError: /more than 10000/,
  })
  t.match(await rulesFor(source, 'root', 'web', ['system:masters']), { resourceRules: [{ verbs: ['*'] }] })
  t.match(await rulesFor(new Source(null), 'ann', 'web'), { incomplete: true, evaluationError: /not been read yet/ })
})
