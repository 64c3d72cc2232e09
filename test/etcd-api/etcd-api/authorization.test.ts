/**
 * RBAC and Webhook decide about etcd's own API, request by request, and every refusal has etcd's own text. The same
 * rules are given to both, and the same table is expected of both.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { RpcError } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { jsonServer } from '../../server/auth/fixtures.js'
import { until } from '../../support/until.js'
import { type EtcdApiHarness, type EtcdClient, encode, type Fields, startEtcdApi } from '../support/harness.js'

interface Rule {
  readonly user: string
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly names?: readonly string[]
}

const GROUP = 'etcd.distributary.io'
const RULES: readonly Rule[] = [
  { user: 'whole', resources: ['flags'], verbs: ['get', 'list', 'watch', 'update', 'delete'] },
  { user: 'named', resources: ['flags'], verbs: ['get', 'watch', 'update', 'delete'], names: ['a'] },
  { user: 'lister', resources: ['flags'], verbs: ['list'] },
  { user: 'blind', resources: ['flags'], verbs: ['update', 'delete'] },
  { user: 'operator', resources: ['*'], verbs: ['*'] },
  // The declared prefix as an HTTP resource, which is another group.
  { user: 'http', resources: [], verbs: [] },
]
const USERS = [...new Set(RULES.map(({ user }) => user))]

type Mode = 'RBAC' | 'Webhook'

interface Asked {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly name: string
}

interface Guarded extends EtcdApiHarness {
  /** The answer for a user: `ok`, or the text of the error. */
  as(this: void, user: string, path: string, request: Fields): Promise<string>
  /** What the webhook was asked. */
  readonly asked: readonly Asked[]
  readonly auditLog: () => readonly Record<string, unknown>[]
}

const bearer = (user: string): Readonly<Record<string, string>> =>
  user === '' ? {} : { authorization: `Bearer ${user}-token` }

async function storeRoles(etcd: EtcdClient): Promise<void> {
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' }
  const apiGroup = 'rbac.authorization.k8s.io'
  for (const { user, resources, verbs, names } of RULES) {
    const rule = { apiGroups: [GROUP], resources, verbs, ...(names === undefined ? {} : { resourceNames: names }) }
    const http = { apiGroups: ['distributary.io'], resources: ['*'], verbs: ['*'] }
    const rules = user === 'http' ? [http] : [rule]
    const role = { ...api, kind: 'ClusterRole', metadata: { name: user }, rules }
    const binding = {
      ...api,
      kind: 'ClusterRoleBinding',
      metadata: { name: user },
      subjects: [{ kind: 'User', apiGroup, name: user }],
      roleRef: { apiGroup, kind: 'ClusterRole', name: user },
    }
    await etcd.put(`/registry/clusterroles/${user}`, JSON.stringify(role))
    await etcd.put(`/registry/clusterrolebindings/${user}`, JSON.stringify(binding))
  }
}

function mayDo(user: string, { verb, group, resource, name }: Asked): boolean {
  if (user === 'http') return group === 'distributary.io'
  const has = (list: readonly string[], one: string): boolean => list.includes('*') || list.includes(one)
  return RULES.some(
    (rule) =>
      rule.user === user &&
      group === GROUP &&
      has(rule.resources, resource) &&
      has(rule.verbs, verb) &&
      (rule.names === undefined || rule.names.includes(name)),
  )
}

async function webhookFlags(t: Test, folder: string, asked: Asked[]): Promise<readonly string[]> {
  const { url } = await jsonServer(t, (_path, body) => {
    if (body === null) return { status: 404, body: {} }
    const { user, resourceAttributes } = (body as { spec: { user: string; resourceAttributes: Asked } }).spec
    asked.push(resourceAttributes)
    return { status: 201, body: { status: { allowed: mayDo(user, resourceAttributes) } } }
  })
  const kubeconfig = join(folder, 'kubeconfig')
  const config = {
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server: url } }],
    users: [{ name: 'u', user: { token: 'own' } }],
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return ['--authorization-mode=Webhook', `--authorization-kubeconfig=${kubeconfig}`]
}

async function startGuarded(t: Test, mode: Mode): Promise<Guarded> {
  const folder = t.testdir()
  const [tokens, audit] = [join(folder, 'tokens.csv'), join(folder, 'audit.jsonl')]
  writeFileSync(tokens, USERS.map((user) => `${user}-token,${user},${user}\n`).join(''), { mode: 0o600 })
  const asked: Asked[] = []
  const judge = mode === 'RBAC' ? ['--authorization-mode=RBAC'] : await webhookFlags(t, folder, asked)
  const harness = await startEtcdApi(t, {
    flags: [
      '--enable-writes',
      '--resource=others=/others/',
      '--etcd-api=others',
      `--token-auth-file=${tokens}`,
      `--audit-log-path=${audit}`,
      '--requests-per-second=100000',
      ...judge,
    ],
    prepare: async (etcd) => {
      await storeRoles(etcd)
      for (const key of ['/flags/a', '/flags/b', '/others/x', '/undeclared']) await etcd.put(key, 'secret')
      await etcd.put('/registry/secrets/default/s', 'secret')
    },
  })
  const as: Guarded['as'] = async (user, path, request) => {
    try {
      await harness.ours.call(path, encode(request), bearer(user))
      return 'ok'
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      return error.details
    }
  }
  const auditLog = (): readonly Record<string, unknown>[] =>
    (existsSync(audit) ? readFileSync(audit, 'utf8') : '')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  return { ...harness, as, asked, auditLog }
}

const DENIED = 'etcdserver: permission denied'
const INVALID_TOKEN = 'etcdserver: invalid auth token'
const ALL = { 1: '/flags/', 2: '/flags0' }
const OTHERS = { 1: '/others/', 2: '/others0' }
const EVERYTHING = { 1: '\0', 2: '\0' }

const compare = (key: string, rangeEnd = ''): Fields => ({ 1: 3, 2: 0, 3: key, 4: 99, 64: rangeEnd })
const get = (range: Fields): Fields => ({ 1: range })
const put = (key: string, more: Fields = {}): Fields => ({ 2: { 1: key, 2: 'x', ...more } })
const remove = (range: Fields): Fields => ({ 3: range })
const nested = (inner: Fields): Fields => ({ 4: inner })

type Row = readonly [user: string, path: string, request: Fields, answer: string]

const TABLE: readonly Row[] = [
  ['whole', 'KV/Range', ALL, 'ok'],
  ['whole', 'KV/Range', { ...ALL, 7: true }, 'ok'],
  ['whole', 'KV/Range', { 1: '/flags/a' }, 'ok'],
  ['whole', 'KV/Range', OTHERS, DENIED],
  ['whole', 'KV/Range', { ...OTHERS, 9: true }, DENIED],
  ['whole', 'KV/Range', { 1: '/others/x' }, DENIED],
  ['whole', 'KV/Range', { 1: '/undeclared' }, DENIED],
  ['whole', 'KV/Range', { 1: '/flags/', 2: '/others0' }, DENIED],
  ['whole', 'KV/Range', { 1: '/flags/', 2: '\0' }, DENIED],
  ['whole', 'KV/Range', EVERYTHING, DENIED],
  ['whole', 'KV/Range', { 1: '/registry/secrets/default/s' }, DENIED],
  ['named', 'KV/Range', { 1: '/flags/a' }, 'ok'],
  ['named', 'KV/Range', { 1: '/flags/b' }, DENIED],
  ['named', 'KV/Range', { 1: '/flags/none' }, DENIED],
  ['named', 'KV/Range', ALL, DENIED],
  ['lister', 'KV/Range', ALL, 'ok'],
  ['lister', 'KV/Range', { 1: '/flags/a' }, DENIED],
  ['blind', 'KV/Range', { 1: '/flags/a' }, DENIED],
  ['http', 'KV/Range', ALL, DENIED],
  ['http', 'KV/Put', { 1: '/flags/a' }, DENIED],
  ['operator', 'KV/Range', EVERYTHING, 'ok'],
  ['', 'KV/Range', ALL, INVALID_TOKEN],
  ['nobody', 'KV/Range', ALL, INVALID_TOKEN],

  ['named', 'KV/Put', { 1: '/flags/a', 2: 'x', 4: true }, 'ok'],
  ['named', 'KV/Put', { 1: '/flags/b', 2: 'x' }, DENIED],
  ['named', 'KV/DeleteRange', ALL, DENIED],
  ['lister', 'KV/Put', { 1: '/flags/a', 2: 'x' }, DENIED],
  ['whole', 'KV/Put', { 1: '/others/x', 2: 'x' }, DENIED],
  ['whole', 'KV/DeleteRange', { 1: '/flags/', 2: '/others0' }, DENIED],
  ['whole', 'KV/DeleteRange', OTHERS, DENIED],
  ['blind', 'KV/Put', { 1: '/flags/a', 2: 'x' }, 'ok'],
  ['blind', 'KV/Put', { 1: '/flags/a', 2: 'x', 4: true }, DENIED],
  ['blind', 'KV/Put', { 1: '/flags/a', 5: true }, DENIED],
  ['blind', 'KV/DeleteRange', { 1: '/flags/a', 3: true }, DENIED],

  ['whole', 'KV/Txn', { 1: [compare('/flags/a')], 2: [get(ALL), put('/flags/a')], 3: [remove(ALL)] }, 'ok'],
  ['whole', 'KV/Txn', { 1: [compare('/others/x')], 2: [get(ALL)] }, DENIED],
  ['whole', 'KV/Txn', { 1: [compare('/flags/a', '/others0')], 2: [get(ALL)] }, DENIED],
  ['whole', 'KV/Txn', { 1: [compare('/flags/', '\0')], 2: [get(ALL)] }, DENIED],
  ['whole', 'KV/Txn', { 2: [get(ALL)], 3: [get({ 1: '/others/x' })] }, DENIED],
  ['whole', 'KV/Txn', { 2: [get(ALL)], 3: [put('/others/x')] }, DENIED],
  ['whole', 'KV/Txn', { 2: [get(ALL)], 3: [remove(OTHERS)] }, DENIED],
  ['whole', 'KV/Txn', { 2: [nested({ 3: [nested({ 2: [get({ 1: '/others/x' })] })] })] }, DENIED],
  ['whole', 'KV/Txn', { 3: [nested({ 1: [compare('/others/x')] })] }, DENIED],
  ['blind', 'KV/Txn', { 2: [put('/flags/a', { 4: true })] }, DENIED],
  ['blind', 'KV/Txn', { 2: [{ 2: { 1: '/flags/a', 5: true } }] }, DENIED],
  ['blind', 'KV/Txn', { 3: [remove({ ...ALL, 3: true })] }, DENIED],
  ['blind', 'KV/Txn', { 1: [compare('/flags/a')], 2: [put('/flags/a')] }, DENIED],
  ['blind', 'KV/Txn', { 2: [put('/flags/a')] }, 'ok'],

  ['whole', 'KV/Compact', { 1: 1 }, DENIED],
  ['whole', 'Maintenance/HashKV', {}, DENIED],
  ['whole', 'Lease/LeaseLeases', {}, DENIED],
  ['operator', 'KV/Compact', { 1: 1 }, 'ok'],
  ['operator', 'Maintenance/HashKV', {}, 'ok'],
  ['operator', 'Lease/LeaseLeases', {}, 'ok'],
  ['', 'Lease/LeaseGrant', { 1: 60 }, INVALID_TOKEN],

  // A lease with a foreign key, and one without.
  ['whole', 'Lease/LeaseTimeToLive', { 1: 20, 2: true }, DENIED],
  ['whole', 'Lease/LeaseRevoke', { 1: 20 }, DENIED],
  ['whole', 'KV/Put', { 1: '/flags/a', 2: 'x', 3: 20 }, DENIED],
  ['whole', 'KV/Txn', { 3: [nested({ 2: [put('/flags/a', { 3: 20 })] })] }, DENIED],
  ['whole', 'Lease/LeaseTimeToLive', { 1: 10, 2: true }, 'ok'],
  ['whole', 'KV/Put', { 1: '/flags/a', 2: 'x', 3: 10 }, 'ok'],
  ['named', 'Lease/LeaseRevoke', { 1: 10 }, DENIED],
  ['lister', 'Lease/LeaseTimeToLive', { 1: 10, 2: true }, DENIED],
  ['blind', 'Lease/LeaseRevoke', { 1: 10 }, 'ok'],
]

for (const mode of ['RBAC', 'Webhook'] as const) {
  void t.test(`${mode} decides about every request`, async (t) => {
    const { as, theirs, ours, asked } = await startGuarded(t, mode)
    for (const [id, key] of [
      [10, '/flags/b'],
      [20, '/others/x'],
    ] as const) {
      await theirs.call('Lease/LeaseGrant', encode({ 1: 600, 2: id }))
      await theirs.put(key, 'leased', { 3: id })
    }
    for (const [user, path, request, answer] of TABLE)
      t.equal(await as(user, path, request), answer, `${user}: ${path} ${JSON.stringify(request)}`)
    const kept = await theirs.range(OTHERS)
    t.equal(kept.messages(2)[0]?.text(5), 'leased', 'no refused write has changed anything')
    for (const [user, lease, answer] of [
      ['whole', 20, DENIED],
      ['operator', 20, 'ok'],
    ] as const) {
      const stream = ours.stream('Lease/LeaseKeepAlive', bearer(user))
      stream.send(encode({ 1: lease }))
      await until(() => stream.messages.length > 0 || stream.ended !== undefined, 'an answer')
      t.equal(stream.ended?.details ?? 'ok', answer, `${user} keeps ${lease} alive`)
      stream.cancel()
    }
    if (mode === 'RBAC') return
    t.ok(asked.every(({ group }) => group === GROUP))
    const questions = new Set(asked.map(({ verb, resource, name }) => `${verb} ${resource} ${name}`.trim()))
    for (const question of [
      'get flags a',
      'list flags',
      'update flags a',
      'delete flags',
      'get keys :undeclared',
      'list keys',
      'create compactions',
      'list leases',
    ])
      t.ok(questions.has(question), question)
  })

  void t.test(`${mode} decides about every watch, and each has its line in the access log`, async (t) => {
    const { ours, theirs, auditLog } = await startGuarded(t, mode)
    const stream = ours.stream('Watch/Watch', bearer('named'))
    const creates: readonly Fields[] = [{ 1: '/flags/a' }, { 1: '/flags/b' }, ALL, OTHERS, { 1: '/flags/a', 6: true }]
    for (const fields of creates) stream.send(encode({ 1: fields }))
    await stream.message(creates.length - 1)
    t.same(
      stream.messages.map((message) => message.text(6)),
      ['', ...Array<string>(3).fill(`rpc error: code = PermissionDenied desc = ${DENIED}`), ''],
    )
    await theirs.put('/flags/b', 'hidden')
    await theirs.put('/flags/a', 'shown')
    const events = (): readonly string[] =>
      stream.messages.flatMap((message) => message.messages(11)).map((event) => event.message(2).text(1))
    await until(() => events().length === 2, 'both watches of the one key have its event')
    t.same(events(), ['/flags/a', '/flags/a'])
    stream.cancel()
    const line = (decision: string, resource: string, name: string): object => ({
      user: 'named',
      verb: 'watch',
      group: GROUP,
      resource,
      name,
      decision,
      path: '/etcdserverpb.Watch/Watch',
    })
    await until(() => auditLog().length === 5, 'five lines')
    t.match(auditLog(), [
      { ...line('forbid', 'flags', 'b'), code: 403 },
      { ...line('forbid', 'flags', ''), code: 403 },
      { ...line('forbid', 'others', ''), code: 403 },
      { ...line('allow', 'flags', 'a'), code: 200 },
      // That of the stream, with its first watch.
      line('allow', 'flags', 'a'),
    ])
  })
}

void t.test('the access log names what was allowed, or what a request lacks', async (t) => {
  const { as, auditLog } = await startGuarded(t, 'RBAC')
  const requests: readonly (readonly [Row, object])[] = [
    [['whole', 'KV/Range', { 1: '/flags/a' }, 'ok'], { verb: 'get', resource: 'flags', name: 'a', code: 200 }],
    [['whole', 'KV/Range', OTHERS, DENIED], { verb: 'list', resource: 'others', name: '', code: 403 }],
    [
      ['whole', 'KV/Txn', { 2: [get(ALL), put('/others/x')] }, DENIED],
      { verb: 'update', resource: 'others', name: 'x', code: 403 },
    ],
    [['whole', 'KV/Put', { 1: '/flags/a', 3: 20 }, DENIED], { verb: 'update', resource: 'others', name: 'x' }],
    [['operator', 'Lease/LeaseGrant', { 1: 600, 2: 20 }, 'ok'], { verb: 'post', code: 200 }],
    [['operator', 'KV/Put', { 1: '/others/x', 3: 20 }, 'ok'], { verb: 'update', resource: 'others', name: 'x' }],
    [['whole', 'Lease/LeaseRevoke', { 1: 20 }, DENIED], { verb: 'delete', resource: 'others', name: 'x', code: 403 }],
    [['', 'KV/Range', ALL, INVALID_TOKEN], { user: '', code: 401, decision: 'unauthenticated' }],
  ]
  // The lease must have its key before another caller attaches one to it.
  const ordered = [...requests.slice(0, 3), ...requests.slice(4, 6), requests[3]!, ...requests.slice(6)]
  for (const [i, [[user, path, request, answer], line]] of ordered.entries()) {
    t.equal(await as(user, path, request), answer)
    await until(() => auditLog().length === i + 1, 'a line')
    const decision = answer === 'ok' ? 'allow' : answer === DENIED ? 'forbid' : 'unauthenticated'
    t.match(auditLog()[i], { user, decision, ...line, path: `/etcdserverpb.${path}` }, JSON.stringify(request))
  }
  t.ok(auditLog().every((line) => !JSON.stringify(line).includes('-token')))
})

void t.test('a request is refused if any of its permissions is gone when etcd answers', async (t) => {
  const folder = t.testdir()
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  const rules = (names: string): string =>
    `rules: [{users: [u], verbs: [get], apiGroups: [${GROUP}], resources: [flags], names: ${names}}]`
  writeFileSync(tokens, 'u-token,u,u\n', { mode: 0o600 })
  writeFileSync(policy, rules('[a, b]'))
  const { ours, etcd } = await startEtcdApi(t, {
    flags: [`--token-auth-file=${tokens}`, '--authorization-mode=Policy', `--authorization-policy-file=${policy}`],
    prepare: async (client) => void (await client.put('/flags/b', 'secret')),
  })
  const call = async (path: string, request: Fields): Promise<string> =>
    await ours.call(path, encode(request), bearer('u')).then(
      () => 'ok',
      (error: unknown) => (error as RpcError).details,
    )
  const both = { 2: [nested({ 2: [get({ 1: '/flags/a' }), get({ 1: '/flags/b' })] })] }
  t.equal(await call('KV/Txn', both), 'ok')
  await etcd.kill('SIGSTOP')
  const waiting = call('KV/Txn', both)
  writeFileSync(policy, rules('[a]'))
  const isGone = async (): Promise<boolean> => (await call('KV/Range', { 1: '/flags/b', 7: true })) === DENIED
  await until(isGone, 'the permission is gone', 20_000)
  await etcd.kill('SIGCONT')
  t.equal(await waiting, DENIED)
})

void t.test('a request that needs no permission is refused if its caller is gone after a wait', async (t) => {
  const folder = t.testdir()
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  const user = (name: string): string => `${name}-token,${name},${name}\n`
  writeFileSync(tokens, user('u') + user('v'), { mode: 0o600 })
  writeFileSync(policy, 'rules: []')
  const { ours, theirs, etcd } = await startEtcdApi(t, {
    flags: [
      '--enable-writes',
      `--token-auth-file=${tokens}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${policy}`,
    ],
  })
  const call = async (path: string, request: Fields): Promise<string> =>
    await ours.call(path, encode(request), bearer('u')).then(
      () => 'ok',
      (error: unknown) => (error as RpcError).details,
    )
  t.equal(await call('Lease/LeaseGrant', { 1: 600, 2: 5 }), 'ok')
  await etcd.kill('SIGSTOP')
  // It waits for the keys of the lease, of which there are none.
  const waiting = call('Lease/LeaseRevoke', { 1: 5 })
  writeFileSync(tokens, user('v'))
  const isGone = async (): Promise<boolean> => (await call('Cluster/MemberList', {})) === INVALID_TOKEN
  await until(isGone, 'the caller is gone', 20_000)
  await etcd.kill('SIGCONT')
  t.equal(await waiting, INVALID_TOKEN)
  const lease = await theirs.call('Lease/LeaseTimeToLive', encode({ 1: 5 }))
  t.ok(lease.number(3) > 0, 'the lease is still there')
})

void t.test('an anonymous caller has no leases, whatever else it may do', async (t) => {
  const policy = join(t.testdir(), 'policy.yaml')
  const rule = `{groups: ["system:unauthenticated"], verbs: ["*"], apiGroups: ["${GROUP}"], resources: ["*"]}`
  writeFileSync(policy, `rules: [${rule}]`)
  const { ours } = await startEtcdApi(t, {
    flags: [
      '--enable-writes',
      '--anonymous-auth',
      '--authorization-mode=Policy',
      `--authorization-policy-file=${policy}`,
    ],
  })
  const answerOf = async (path: string, request: Fields): Promise<unknown> =>
    await ours.call(path, encode(request)).then(
      () => 'ok',
      (error: unknown) => (error as RpcError).details,
    )
  t.equal(await answerOf('KV/Put', { 1: '/flags/a', 2: 'x' }), 'ok')
  t.equal(await answerOf('Lease/LeaseGrant', { 1: 60 }), DENIED)
  t.equal(await answerOf('Lease/LeaseRevoke', { 1: 60 }), DENIED)
  const stream = ours.stream('Lease/LeaseKeepAlive')
  stream.send(encode({ 1: 1 }))
  await until(() => stream.ended !== undefined, 'the stream ends')
  t.match(stream.ended, { details: DENIED })
})
