/** Everything that etcd would check for a user is checked here, because etcd sees only this server's own user. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { RpcError } from '../../src/engine/upstream/etcd/rpc-status.js'
import { until } from '../support/until.js'
import { type EtcdApiHarness, type EtcdClient, encode, type Fields, startEtcdApi } from './support/harness.js'

const POLICY = `
rules:
  - users: [reader]
    verbs: [get, list, watch]
    apiGroups: [etcd.distributary.io]
    resources: [flags]
    names: ["mine/*"]
  - users: [reader]
    verbs: [get]
    apiGroups: [etcd.distributary.io]
    resources: [keys]
    names: ["/free/one"]
  - users: [everything]
    verbs: ["*"]
    apiGroups: [etcd.distributary.io]
    resources: ["*"]
  - users: [kubernetes]
    verbs: ["*"]
    apiGroups: [distributary.io]
    resources: ["*"]
`

interface Guarded extends EtcdApiHarness {
  /** The answer for a user: `ok`, or the text of the error. */
  as(this: void, user: string, path: string, request: Fields): Promise<string>
}

async function startGuarded(t: Test): Promise<Guarded> {
  const folder = t.testdir()
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  const users = ['reader', 'everything', 'kubernetes']
  writeFileSync(tokens, users.map((user) => `${user}-token,${user},${user}\n`).join(''), { mode: 0o600 })
  writeFileSync(policy, POLICY)
  const harness = await startEtcdApi(t, {
    flags: [`--token-auth-file=${tokens}`, '--authorization-mode=Policy', `--authorization-policy-file=${policy}`],
    prepare: async (etcd: EtcdClient) => {
      for (const key of ['/flags/mine/a', '/flags/mine/b', '/flags/other/c', '/free/one', '/free/two'])
        await etcd.put(key, key)
      await etcd.put('/registry/secrets/default/s', 'secret')
    },
  })
  const as = async (user: string, path: string, request: Fields): Promise<string> => {
    const metadata = user === '' ? {} : { authorization: `Bearer ${user}-token` }
    try {
      await harness.ours.call(path, encode(request), metadata)
      return 'ok'
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      return error.details
    }
  }
  return { ...harness, as }
}

const DENIED = 'etcdserver: permission denied'
const MINE = { 1: '/flags/mine/', 2: '/flags/mine0' }
const ALL = { 1: '/flags/', 2: '/flags0' }
const EVERYTHING = { 1: '\0', 2: '\0' }
const read = (range: Fields): Fields => ({ 2: [{ 1: range }] })
const compare = (key: string, rangeEnd = ''): Fields => ({ 1: 0, 2: 0, 3: key, 4: 1, 64: rangeEnd })

void t.test('a caller reads only the keys that a rule names', async (t) => {
  const { as } = await startGuarded(t)
  const table: readonly (readonly [user: string, path: string, request: Fields, answer: string])[] = [
    ['reader', 'KV/Range', { 1: '/flags/mine/a' }, 'ok'],
    ['reader', 'KV/Range', { 1: '/flags/mine/a', 2: '/flags/mine/a\0' }, 'ok'],
    ['reader', 'KV/Range', { 1: '/flags/mine/nothing' }, 'ok'],
    ['reader', 'KV/Range', MINE, 'ok'],
    ['reader', 'KV/Range', { 1: '/flags/mine/a', 2: '/flags/mine/zz' }, 'ok'],
    ['reader', 'KV/Range', { ...MINE, 7: true }, 'ok'],
    ['reader', 'KV/Range', { 1: '/flags/other/c' }, DENIED],
    ['reader', 'KV/Range', { 1: '/flags/mine' }, DENIED],
    ['reader', 'KV/Range', { 1: '/flags/mine/a', 2: '/flags/other/d' }, DENIED],
    ['reader', 'KV/Range', { 1: '/flags/mine/', 2: '/flags0' }, DENIED],
    ['reader', 'KV/Range', { 1: '/flags/mine/', 2: '\0' }, DENIED],
    ['reader', 'KV/Range', ALL, DENIED],
    ['reader', 'KV/Range', { ...ALL, 9: true }, DENIED],
    ['reader', 'KV/Range', EVERYTHING, DENIED],
    ['reader', 'KV/Range', { 1: '/free/one' }, 'ok'],
    ['reader', 'KV/Range', { 1: '/free/two' }, DENIED],
    ['reader', 'KV/Range', { 1: '/free/', 2: '/free0' }, DENIED],
    ['reader', 'KV/Range', { 1: '/registry/secrets/default/s' }, DENIED],
    ['everything', 'KV/Range', EVERYTHING, 'ok'],
    ['everything', 'KV/Range', { 1: '/registry/secrets/default/s' }, 'ok'],
    ['kubernetes', 'KV/Range', MINE, DENIED],
    ['', 'KV/Range', MINE, 'etcdserver: invalid auth token'],
    ['nobody', 'KV/Range', MINE, 'etcdserver: invalid auth token'],
    ['', 'Cluster/MemberList', {}, 'etcdserver: invalid auth token'],
    ['reader', 'Cluster/MemberList', {}, 'ok'],
    ['reader', 'Maintenance/Status', {}, 'ok'],
  ]
  for (const [user, path, request, answer] of table)
    t.equal(await as(user, path, request), answer, `${user}: ${path} ${JSON.stringify(request)}`)
})

void t.test('a transaction hides no foreign key', async (t) => {
  const { as } = await startGuarded(t)
  const nested = (inner: Fields): Fields => ({ 2: [{ 4: inner }] })
  const table: readonly (readonly [request: Fields, answer: string])[] = [
    [read(MINE), 'ok'],
    [{ 1: [compare('/flags/mine/a')], ...read(MINE) }, 'ok'],
    [read(ALL), DENIED],
    [{ 3: [{ 1: ALL }] }, DENIED],
    [{ 1: [compare('/flags/other/c')], ...read(MINE) }, DENIED],
    [{ 1: [compare('/flags/mine/a', '/flags/other/d')], ...read(MINE) }, DENIED],
    [nested(read(MINE)), 'ok'],
    [nested(read(ALL)), DENIED],
    [nested(nested({ 1: [compare('/flags/other/c')] })), DENIED],
  ]
  for (const [request, answer] of table) t.equal(await as('reader', 'KV/Txn', request), answer, JSON.stringify(request))
})

void t.test('a request that etcd might read differently is refused', async (t) => {
  const { ours } = await startGuarded(t)
  const metadata = { authorization: 'Bearer reader-token' }
  const refused = async (path: string, request: Uint8Array): Promise<string> => {
    const answer = await ours.call(path, request, metadata).catch((error: unknown) => error)
    return answer instanceof RpcError ? answer.details : 'ok'
  }
  // Two ranges in one place, which Go's newer protobuf merges into one that neither names.
  const twice = Buffer.concat([encode({ 1: MINE }), encode({ 1: { 1: '/flags/mine/a' } })])
  t.equal(await refused('KV/Txn', encode({ 2: twice })), 'grpc: error unmarshalling request')
  // A range end in another encoding, which etcd skips.
  const wrongType = Buffer.concat([encode({ 1: '/flags/mine/a' }), Buffer.from([2 << 3, 1])])
  t.equal(await refused('KV/Range', wrongType), 'grpc: error unmarshalling request')
  let deep: Fields = read(MINE)
  for (let i = 0; i < 1_000; i++) deep = { 2: [{ 4: deep }] }
  t.equal(await refused('KV/Txn', encode(deep)), 'etcdserver: too many operations in txn request')
})

void t.test('a watch of everything ends when Kubernetes begins to store something', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  const stream = ours.stream('Watch/Watch')
  stream.send(encode({ 1: EVERYTHING }))
  await stream.message(0)
  await theirs.put('/other/x', 'public')
  await stream.message(1)
  await theirs.put('/registry/pods/default/p', '{}')
  const isHidden = async (): Promise<boolean> =>
    (await ours.range(EVERYTHING).catch((error: unknown) => error)) instanceof RpcError
  await until(isHidden, 'the server has noticed')
  await theirs.put('/registry/secrets/default/s', 'secret')
  await until(() => stream.messages.at(-1)?.number(4) === 1, 'the watch is cancelled')
  t.equal(stream.messages.at(-1)?.text(6), `rpc error: code = PermissionDenied desc = ${DENIED}`)
  t.notOk(stream.messages.some(({ bytes }) => bytes.includes('secret')))
})

void t.test('without rules, what Kubernetes stores stays hidden', async (t) => {
  const { ours } = await startEtcdApi(t, {
    flags: ['--kubernetes-resources=always'],
    prepare: async (etcd) => void (await etcd.put('/registry/secrets/default/s', 'secret')),
  })
  const hidden: readonly Fields[] = [
    { 1: '/registry/secrets/default/s' },
    { 1: '/registry/', 2: '/registry0' },
    { 1: '/r', 2: '/s' },
    EVERYTHING,
  ]
  for (const fields of hidden) {
    const answer = await ours.range(fields).catch((error: unknown) => error)
    t.match(answer, { details: DENIED }, JSON.stringify(fields))
  }
  t.equal((await ours.range({ 1: '/registry/health' })).number(4), 0, 'API servers look at this key')
})
