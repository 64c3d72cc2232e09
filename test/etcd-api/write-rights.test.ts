/** Writes and leases in etcd's own API: forwarded as they are, and only for callers who may do all that they do. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { RpcError } from '../../src/engine/upstream/etcd/rpc-status.js'
import { until } from '../support/until.js'
import { encode, type EtcdApiHarness, type Fields, type Message, startEtcdApi } from './support/harness.js'

const DENIED = 'etcdserver: permission denied'
const WRITES = ['--enable-writes']

/** The decoded fields of a response without its header. */
function bodyOf(message: Message): unknown {
  return [...message.fields].filter(([field]) => field !== 1)
}

async function textOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer
    return 'ok'
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
    return error.details
  }
}

void t.test('writes have the answers of etcd, and the next read includes them', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { flags: WRITES })
  const put = await ours.put('/flags/a', 'one', { 4: true })
  t.equal((await ours.range({ 1: '/flags/a' })).revision, put.revision)
  const again = await ours.put('/flags/a', 'two', { 4: true })
  t.equal(again.message(2).text(5), 'one')
  t.ok((await ours.range({ 1: '/flags/a', 7: true })).revision >= again.revision, 'on the same connection')
  t.equal((await theirs.range({ 1: '/flags/a' })).messages(2)[0]?.text(5), 'two')
  const compare = { 1: 0, 2: 1, 3: '/flags/a', 5: put.revision }
  const txn = (value: string): Uint8Array =>
    encode({
      1: [compare],
      2: [{ 2: { 1: '/flags/b', 2: value } }, { 1: { 1: '/flags/b' } }],
      3: [{ 3: { 1: '/flags/a' } }],
    })
  const done = await ours.call('KV/Txn', txn('x'))
  t.equal(done.number(2), 1)
  t.same(bodyOf(await ours.delete('/flags/', '/flags0')), [[2, ['2']]])
  t.equal(await textOf(ours.put('', 'x')), 'etcdserver: key is not provided')
  t.equal(await textOf(theirs.put('', 'x')), 'etcdserver: key is not provided')
  const twice = encode({ 2: [{ 2: { 1: '/flags/b', 2: 'x' } }, { 2: { 1: '/flags/b', 2: 'y' } }] })
  t.equal(await textOf(ours.call('KV/Txn', twice)), await textOf(theirs.call('KV/Txn', twice)))
})

void t.test('a client that asks once and then sends nothing more gets its answer', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { flags: WRITES })
  await ours.call('Lease/LeaseGrant', encode({ 1: 60, 2: 77 }))
  for (const client of [ours, theirs]) {
    const stream = client.stream('Lease/LeaseKeepAlive')
    for (let i = 0; i < 3; i++) stream.send(encode({ 1: 77 }))
    stream.finish()
    await until(() => stream.ended !== undefined, 'the stream ends')
    t.equal(stream.ended, null)
    t.same(
      stream.messages.map((message) => message.number(3)),
      [60, 60, 60],
    )
  }
})

void t.test('a lease is granted, kept alive, shown and revoked', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { flags: WRITES })
  await ours.call('Lease/LeaseGrant', encode({ 1: 60, 2: 77 }))
  await ours.put('/flags/leased', 'x', { 3: 77 })
  t.equal((await ours.range({ 1: '/flags/leased' })).messages(2)[0]?.number(6), 77)
  const shown = await ours.call('Lease/LeaseTimeToLive', encode({ 1: 77, 2: true }))
  t.equal(shown.text(5), '/flags/leased')
  t.equal((await ours.call('Lease/LeaseLeases', new Uint8Array(0))).message(2).number(1), 77)
  const stream = ours.stream('Lease/LeaseKeepAlive')
  // More and smaller pieces than any other body may have.
  for (let i = 0; i < 3_000; i++) stream.send(encode({ 1: 77 }))
  await until(() => stream.messages.length === 3_000, 'every keepalive is answered')
  t.equal(stream.messages[0]?.number(3), 60)
  stream.send(encode({ 1: 12_345 }))
  t.equal((await stream.message(3_000)).number(3), 0, 'an unknown lease has no time to live')
  await ours.call('Lease/LeaseRevoke', encode({ 1: 77 }))
  t.equal((await theirs.range({ 1: '/flags/leased' })).number(4), 0)
  t.equal(await textOf(ours.call('Lease/LeaseRevoke', encode({ 1: 77 }))), 'etcdserver: requested lease not found')
})

void t.test('a client holds a limited number of leases', async (t) => {
  const { ours } = await startEtcdApi(t, { flags: WRITES })
  const grant = (id: number): Promise<unknown> => ours.call('Lease/LeaseGrant', encode({ 1: 600, 2: id }))
  for (let id = 1; id <= 1_000; id += 100) await Promise.all(Array.from({ length: 100 }, (_, i) => grant(id + i)))
  t.equal(await textOf(grant(2_000)), 'etcdserver: too many requests')
  await ours.call('Lease/LeaseRevoke', encode({ 1: 5 }))
  t.equal(await textOf(grant(2_000)), 'ok')
})

void t.test('without --enable-writes nothing is written', async (t) => {
  const { ours } = await startEtcdApi(t)
  const refused: readonly (readonly [string, Fields])[] = [
    ['KV/Put', { 1: '/flags/a', 2: 'x' }],
    ['KV/DeleteRange', { 1: '/flags/a' }],
    ['KV/Txn', { 3: [{ 4: { 2: [{ 2: { 1: '/flags/a' } }] } }] }],
    ['KV/Compact', { 1: 1 }],
    ['Lease/LeaseGrant', { 1: 60 }],
    ['Lease/LeaseRevoke', { 1: 60 }],
    ['Maintenance/Alarm', { 1: 1 }],
  ]
  for (const [path, request] of refused) t.equal(await textOf(ours.call(path, encode(request))), DENIED, path)
  const stream = ours.stream('Lease/LeaseKeepAlive')
  stream.send(encode({ 1: 1 }))
  await until(() => stream.ended !== undefined, 'the stream ends')
  t.match(stream.ended, { details: DENIED })
  t.equal(await textOf(ours.call('Maintenance/Alarm', encode({ 1: 0 }))), 'ok', 'alarms can be listed')
})

const POLICY = `
rules:
  - users: [writer]
    verbs: [get, list, watch, update, delete]
    apiGroups: [etcd.distributary.io]
    resources: [flags]
    names: ["mine/*"]
  - users: [blind]
    verbs: [update, delete]
    apiGroups: [etcd.distributary.io]
    resources: [flags]
    names: ["mine/*"]
  - users: [operator]
    verbs: ["*"]
    apiGroups: [etcd.distributary.io]
    resources: ["*"]
`

async function startGuarded(
  t: Test,
): Promise<EtcdApiHarness & { as(this: void, user: string, path: string, request: Fields): Promise<string> }> {
  const folder = t.testdir()
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  writeFileSync(tokens, ['writer', 'blind', 'operator'].map((user) => `${user},${user},${user}\n`).join(''), {
    mode: 0o600,
  })
  writeFileSync(policy, POLICY)
  const harness = await startEtcdApi(t, {
    flags: [
      ...WRITES,
      `--token-auth-file=${tokens}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${policy}`,
    ],
  })
  const as = async (user: string, path: string, request: Fields): Promise<string> =>
    await textOf(harness.ours.call(path, encode(request), { authorization: `Bearer ${user}` }))
  return { ...harness, as }
}

void t.test('a write needs permission for everything that it changes, and reads on the way', async (t) => {
  const { as, theirs } = await startGuarded(t)
  await theirs.put('/flags/other/x', 'x')
  const putMine = { 2: { 1: '/flags/mine/a', 2: 'x' } }
  const putOther = { 2: { 1: '/flags/other/x', 2: 'changed' } }
  const table: readonly (readonly [user: string, path: string, request: Fields, answer: string])[] = [
    ['writer', 'KV/Put', { 1: '/flags/mine/a', 2: 'x' }, 'ok'],
    ['writer', 'KV/Put', { 1: '/flags/mine/a', 2: 'x', 4: true }, 'ok'],
    ['writer', 'KV/Put', { 1: '/flags/other/x', 2: 'changed' }, DENIED],
    ['writer', 'KV/Put', { 1: '/elsewhere', 2: 'x' }, DENIED],
    ['blind', 'KV/Put', { 1: '/flags/mine/a', 2: 'x' }, 'ok'],
    ['blind', 'KV/Put', { 1: '/flags/mine/a', 2: 'x', 4: true }, DENIED],
    ['blind', 'KV/Put', { 1: '/flags/mine/a', 5: true }, DENIED],
    ['blind', 'KV/Put', { 1: '/flags/mine/a', 6: true }, DENIED],
    ['blind', 'KV/DeleteRange', { 1: '/flags/mine/b', 3: true }, DENIED],
    ['writer', 'KV/DeleteRange', { 1: '/flags/mine/', 2: '/flags/mine0' }, 'ok'],
    ['writer', 'KV/DeleteRange', { 1: '/flags/mine/', 2: '/flags0' }, DENIED],
    ['writer', 'KV/DeleteRange', { 1: '\0', 2: '\0' }, DENIED],
    ['writer', 'KV/Txn', { 2: [putMine] }, 'ok'],
    ['writer', 'KV/Txn', { 2: [putMine], 3: [putOther] }, DENIED],
    ['writer', 'KV/Txn', { 2: [{ 4: { 3: [{ 4: { 2: [putOther] } }] } }] }, DENIED],
    ['blind', 'KV/Txn', { 1: [{ 1: 1, 2: 0, 3: '/flags/mine/a', 4: 5 }], 2: [putMine] }, DENIED],
    ['writer', 'KV/Compact', { 1: 1 }, DENIED],
    ['writer', 'Maintenance/HashKV', {}, DENIED],
    ['writer', 'Lease/LeaseLeases', {}, DENIED],
    ['operator', 'KV/Compact', { 1: 1 }, 'ok'],
    ['operator', 'Maintenance/HashKV', {}, 'ok'],
    ['operator', 'Lease/LeaseLeases', {}, 'ok'],
    ['operator', 'KV/Put', { 1: '/elsewhere', 2: 'x' }, 'ok'],
  ]
  for (const [user, path, request, answer] of table)
    t.equal(await as(user, path, request), answer, `${user}: ${path} ${JSON.stringify(request)}`)
  t.equal((await theirs.range({ 1: '/flags/other/x' })).messages(2)[0]?.text(5), 'x')
})

void t.test('a lease belongs to those who may change all of its keys', async (t) => {
  const { as, theirs, ours } = await startGuarded(t)
  await theirs.call('Lease/LeaseGrant', encode({ 1: 600, 2: 10 }))
  await theirs.call('Lease/LeaseGrant', encode({ 1: 600, 2: 20 }))
  await theirs.put('/flags/mine/a', 'x', { 3: 10 })
  await theirs.put('/flags/other/x', 'x', { 3: 20 })
  t.equal(await as('writer', 'KV/Put', { 1: '/flags/mine/b', 2: 'x', 3: 10 }), 'ok')
  t.equal(await as('writer', 'KV/Put', { 1: '/flags/mine/c', 2: 'x', 3: 20 }), DENIED)
  const hidden = { 2: [{ 4: { 2: [{ 2: { 1: '/flags/mine/c', 2: 'x', 3: 20 } }] } }] }
  t.equal(await as('writer', 'KV/Txn', hidden), DENIED)
  t.equal(await as('writer', 'Lease/LeaseTimeToLive', { 1: 20 }), 'ok')
  t.equal(await as('writer', 'Lease/LeaseTimeToLive', { 1: 20, 2: true }), DENIED)
  t.equal(await as('writer', 'Lease/LeaseTimeToLive', { 1: 10, 2: true }), 'ok')
  t.equal(await as('writer', 'Lease/LeaseRevoke', { 1: 20 }), DENIED)
  const stream = ours.stream('Lease/LeaseKeepAlive', { authorization: 'Bearer writer' })
  stream.send(encode({ 1: 10 }))
  t.equal((await stream.message(0)).number(3), 600)
  stream.send(encode({ 1: 20 }))
  await until(() => stream.ended !== undefined, 'the stream ends')
  t.match(stream.ended, { details: DENIED })
  t.equal(await as('writer', 'Lease/LeaseRevoke', { 1: 10 }), 'ok')
  t.equal((await theirs.range({ 1: '/flags/other/x' })).number(4), 1)
})
