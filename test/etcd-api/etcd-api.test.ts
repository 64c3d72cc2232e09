/** etcd's own API in front of a real etcd: every answer is compared with etcd's. */
import t from 'tap'
import { RpcError, RpcStatus } from '../../src/engine/upstream/etcd/rpc-status.js'
import { type EtcdClient, encode, type Fields, startEtcdApi } from './support/harness.js'

async function fill(etcd: EtcdClient): Promise<void> {
  await etcd.call('Lease/LeaseGrant', encode({ 1: 600, 2: 7 }))
  await etcd.put('/flags/a', 'one')
  await etcd.put('/flags/b', '{ "spaced" : [1, 2.0] }')
  await etcd.put('/flags/b', '{ "spaced" : [1,  2.0] }')
  await etcd.put('/flags/c/d', Buffer.from([0, 255, 1, 128]))
  await etcd.put('/flags/c/e', '')
  await etcd.put('/flags/z', 'gone')
  await etcd.delete('/flags/z')
  await etcd.put('/other/x', 'not declared')
  for (let i = 0; i < 5; i++) await etcd.put('/flags/a', `one ${i}`, { 3: 7 })
}

/** The error of a call, as clients compare it. */
async function refusal(answer: Promise<unknown>): Promise<{ code: number; details: string } | null> {
  try {
    await answer
    return null
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
    return { code: error.code, details: error.details }
  }
}

const ALL = { 1: '/flags/', 2: '/flags0' }

const RANGES: readonly Fields[] = [
  { 1: '/flags/a' },
  { 1: '/flags/b' },
  { 1: '/flags/c/d' },
  { 1: '/flags/c/e' },
  { 1: '/flags/z' },
  { 1: '/flags/a', 2: '/flags/a\0' },
  { 1: '/flags/b', 2: '/flags/a' },
  ALL,
  { 1: '/flags/b', 2: '/flags/c/e' },
  { 1: '/flags/c/', 2: '/flags/c0' },
  { ...ALL, 3: 1 },
  { ...ALL, 3: 4 },
  { ...ALL, 3: 5 },
  { ...ALL, 8: true },
  { ...ALL, 9: true },
  { ...ALL, 3: 1, 9: true },
  { 1: '/flags/a', 9: true },
  { 1: '/flags/a', 8: true },
  ...[0, 1, 2].flatMap((order) =>
    [0, 1, 2, 3, 4].flatMap((target) => [
      { ...ALL, 5: order, 6: target },
      { ...ALL, 3: 2, 5: order, 6: target },
    ]),
  ),
  { ...ALL, 10: 5 },
  { ...ALL, 11: 5 },
  { ...ALL, 12: 4 },
  { ...ALL, 13: 4 },
  { ...ALL, 3: 1, 10: 3 },
  { ...ALL, 4: 3 },
  { ...ALL, 4: 6 },
  { ...ALL, 3: 1, 4: 6 },
  { 1: '/flags/z', 4: 7 },
  { 1: '/other/x' },
  { 1: '/', 2: '0' },
  { 1: '/flags/a', 2: '/other/zz' },
]

void t.test('a range has the answer of etcd, from the cache or forwarded', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { prepare: fill })
  for (const fields of RANGES) {
    for (const serializable of [false, true]) {
      const request = { ...fields, 7: serializable }
      const [own, etcds] = [await ours.range(request), await theirs.range(request)]
      t.same(own.comparable, etcds.comparable, JSON.stringify(request))
    }
  }
})

void t.test('a range that etcd refuses has the same code and text', async (t) => {
  const { ours, theirs, etcd } = await startEtcdApi(t, { prepare: fill })
  const refused: readonly Fields[] = [
    { 1: '' },
    { 2: '/flags0' },
    { ...ALL, 4: 10_000 },
    { ...ALL, 4: Number.MAX_SAFE_INTEGER },
  ]
  for (const fields of refused) {
    const etcds = await refusal(theirs.range(fields))
    t.ok(etcds)
    t.same(await refusal(ours.range(fields)), etcds, JSON.stringify(fields))
  }
  // etcd 3.4 panics for such a target.
  for (const fields of [
    { ...ALL, 5: 7 },
    { ...ALL, 6: 9 },
  ]) {
    const details = 'etcdserver: invalid sort option'
    t.same(await refusal(ours.range(fields)), { code: RpcStatus.INVALID_ARGUMENT, details })
  }
  await etcd.compact(5)
  const old = { 1: '/other/', 2: '/other0', 4: 3 }
  t.same(await refusal(ours.range(old)), await refusal(theirs.range(old)))
})

void t.test('a write that has returned is in every later range, and revisions never go back', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { prepare: fill })
  let seen = 0
  for (let i = 0; i < 50; i++) {
    const written = await theirs.put(`/flags/n${i % 7}`, `v${i}`)
    const read = await ours.range({ 1: `/flags/n${i % 7}` })
    t.equal(read.messages(2)[0]?.text(5), `v${i}`)
    t.ok(read.revision >= written.revision)
    const local = await ours.range({ ...ALL, 7: true, 9: true })
    t.ok(local.revision >= read.revision, 'a serializable read on the same connection is not older')
    t.ok(local.revision >= seen)
    seen = local.revision
  }
})

void t.test("a large range arrives whole, with etcd's bytes", async (t) => {
  const { ours, theirs } = await startEtcdApi(t, {
    prepare: async (etcd) => {
      for (let i = 0; i < 200; i++) await etcd.put(`/flags/${i}`, Buffer.alloc(20_000, i))
    },
  })
  for (const serializable of [false, true]) {
    const request = { ...ALL, 7: serializable }
    const [own, etcds] = [await ours.range(request), await theirs.range(request)]
    t.equal(own.messages(2).length, 200)
    t.ok(own.messages(2).every(({ bytes }, i) => bytes.equals(etcds.messages(2)[i]!.bytes)))
  }
})

void t.test('a transaction of nothing but reads is a read', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { prepare: fill })
  const compare = { 1: 1, 2: 0, 3: '/flags/a', 4: 2 }
  const request = encode({ 1: [compare], 2: [{ 1: ALL }], 3: [{ 1: { 1: '/flags/b' } }] })
  t.same((await ours.call('KV/Txn', request)).comparable, (await theirs.call('KV/Txn', request)).comparable)
  const write = encode({ 2: [{ 2: { 1: '/flags/a', 2: 'x' } }] })
  t.match(await refusal(ours.call('KV/Txn', write)), {
    code: RpcStatus.PERMISSION_DENIED,
    details: 'etcdserver: permission denied',
  })
})

void t.test('a client sees one member: this server', async (t) => {
  const { ours, theirs, app } = await startEtcdApi(t, { prepare: fill })
  const [member] = (await ours.call('Cluster/MemberList', new Uint8Array(0))).messages(2)
  t.equal(member?.text(4), app.url)
  const status = await ours.call('Maintenance/Status', new Uint8Array(0))
  t.equal(status.text(4), member?.text(1), 'it is its own leader')
  const etcds = await theirs.call('Maintenance/Status', new Uint8Array(0))
  t.equal(status.message(1).text(1), etcds.message(1).text(1), "the cluster is etcd's")
  t.equal(status.revision, etcds.revision)
  t.ok(['3.7.0', etcds.text(2)].includes(status.text(2)), 'the lower of both versions')
})

void t.test('what is not served is refused in the words of etcd or gRPC', async (t) => {
  const { ours } = await startEtcdApi(t, { prepare: fill })
  t.same(await refusal(ours.call('Auth/Authenticate', encode({ 1: 'root', 2: 'secret' }))), {
    code: RpcStatus.FAILED_PRECONDITION,
    details: 'etcdserver: authentication is not enabled',
  })
  t.same(await refusal(ours.call('Maintenance/Defragment', new Uint8Array(0))), {
    code: RpcStatus.UNIMPLEMENTED,
    details: 'unknown method Defragment for service etcdserverpb.Maintenance',
  })
})
