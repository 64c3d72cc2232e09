/** Transactions of nothing but ranges: answered from the cache, with the bytes of a real etcd. */
import t from 'tap'
import { until } from '../support/until.js'
import { type EtcdApiHarness, type EtcdClient, encode, type Fields, startEtcdApi } from './support/harness.js'

const ALL = { 1: '/flags/', 2: '/flags0' }

async function fill(etcd: EtcdClient): Promise<void> {
  await etcd.call('Lease/LeaseGrant', encode({ 1: 600, 2: 7 }))
  await etcd.put('/other/x', 'not declared')
  await etcd.put('/flags/a', 'one')
  await etcd.put('/flags/a', 'two', { 3: 7 })
  await etcd.put('/flags/b', '{ "spaced" : 1 }')
  await etcd.put('/flags/c', '')
}

/** The number of transactions that our server has sent to etcd. */
async function forwarded({ app }: EtcdApiHarness): Promise<number> {
  const text = await (await fetch(`${app.url}/metrics`)).text()
  return Number(/^distributary_etcd_api_forwarded_total\{method="txn"\} (\d+)/m.exec(text)?.[1] ?? 0)
}

const range = (fields: Fields): Fields => ({ 1: fields })
const compare = (result: number, target: number, key: string, operand: Fields = {}, rangeEnd = ''): Fields => ({
  1: result,
  2: target,
  3: key,
  ...operand,
  64: rangeEnd,
})

const [EQUAL, GREATER, LESS, NOT_EQUAL] = [0, 1, 2, 3]
const [VERSION, CREATE, MOD, VALUE, LEASE] = [0, 1, 2, 3, 4]

const COMPARES: readonly Fields[] = [
  compare(EQUAL, VERSION, '/flags/a', { 4: 2 }),
  compare(EQUAL, VERSION, '/flags/a', { 4: 1 }),
  compare(EQUAL, VERSION, '/flags/none'),
  compare(LESS, VERSION, '/flags/none', { 4: 1 }),
  compare(GREATER, CREATE, '/flags/none', { 5: 0 }),
  compare(NOT_EQUAL, CREATE, '/flags/a', { 5: 2 }),
  compare(GREATER, MOD, '/flags/a', { 6: 2 }),
  compare(LESS, MOD, '/flags/a', { 6: 3 }),
  compare(LESS, MOD, '/flags/', { 6: 100 }, '/flags0'),
  compare(LESS, MOD, '/flags/', { 6: 4 }, '/flags0'),
  compare(EQUAL, MOD, '/flags/x', {}, '/flags/z'),
  compare(EQUAL, VALUE, '/flags/a', { 7: 'two' }),
  compare(GREATER, VALUE, '/flags/a', { 7: 'tw' }),
  compare(EQUAL, VALUE, '/flags/c', { 7: '' }),
  compare(EQUAL, VALUE, '/flags/none', { 7: '' }),
  compare(NOT_EQUAL, VALUE, '/flags/none', { 7: 'x' }),
  compare(EQUAL, LEASE, '/flags/a', { 8: 7 }),
  compare(EQUAL, LEASE, '/flags/b'),
]

/** Each with and without linearizable ranges. */
const TRANSACTIONS: readonly ((serializable: boolean) => Fields)[] = [
  (serializable) => ({ 2: [range({ 1: '/flags/a', 7: serializable })] }),
  (serializable) => ({
    2: [
      { ...ALL, 3: 2 },
      { ...ALL, 9: true },
      { ...ALL, 8: true },
    ].map((one) => range({ ...one, 7: serializable })),
  }),
  (serializable) => ({
    2: [range({ ...ALL, 5: 2, 6: 2, 3: 1, 7: serializable }), range({ 1: '/flags/none', 7: serializable })],
  }),
  ...COMPARES.map((one) => (serializable: boolean) => ({
    1: [one],
    2: [range({ 1: '/flags/b', 7: serializable })],
    3: [range({ ...ALL, 7: serializable })],
  })),
  (serializable) => ({ 1: COMPARES.slice(0, 2), 2: [], 3: [range({ 1: '/flags/c', 7: serializable })] }),
  () => ({ 1: [COMPARES[0]!] }),
]

void t.test('a transaction of ranges has the answer of etcd, and etcd does not see it', async (t) => {
  const harness = await startEtcdApi(t, { prepare: fill })
  const { ours, theirs, upstream } = harness
  // An older etcd answers linearizable reads itself.
  const { trustsProgress } = await upstream.status()
  for (const transaction of TRANSACTIONS) {
    for (const serializable of [false, true]) {
      const request = transaction(serializable)
      const before = await forwarded(harness)
      const [own, etcds] = [await ours.call('KV/Txn', encode(request)), await theirs.call('KV/Txn', encode(request))]
      t.same(own.comparable, etcds.comparable, JSON.stringify(request))
      if (serializable || trustsProgress) t.equal(await forwarded(harness), before, JSON.stringify(request))
    }
  }
})

void t.test('a transaction that the cache cannot answer exactly is forwarded', async (t) => {
  const harness = await startEtcdApi(t, { prepare: fill })
  const { ours, theirs } = harness
  const one = range({ 1: '/flags/a', 7: true })
  const requests: readonly Fields[] = [
    { 2: [range({ 1: '/other/x', 7: true })] },
    { 2: [one, range({ 1: '/other/x', 7: true })] },
    { 1: [compare(EQUAL, VERSION, '/other/x', { 4: 1 })], 2: [one] },
    { 2: [range({ 1: '/flags/a', 4: 2, 7: true })] },
    { 2: [range({ 1: '/flags/a', 4: -1, 7: true })] },
    { 2: [{ 4: { 2: [one] } }] },
    { 1: [compare(EQUAL, VERSION, '/flags/a', { 6: 1 })], 2: [one] },
    { 2: Array.from({ length: 129 }, () => one) },
    {},
  ]
  const answerOf = async (client: EtcdClient, request: Fields): Promise<unknown> =>
    await client.call('KV/Txn', encode(request)).then(
      ({ comparable }) => comparable,
      (error: unknown) => String(error),
    )
  for (const request of requests) {
    const before = await forwarded(harness)
    t.same(await answerOf(ours, request), await answerOf(theirs, request), JSON.stringify(request).slice(0, 200))
    t.equal(await forwarded(harness), before + 1)
  }
})

void t.test('a transaction reads a limited number of keys from the cache', async (t) => {
  const harness = await startEtcdApi(t, {
    prepare: async (etcd) => {
      for (let i = 0; i < 100; i++) await etcd.put(`/flags/${i}`, 'x')
    },
  })
  const reads = (count: number): Fields => ({ 2: Array.from({ length: count }, () => range({ ...ALL, 7: true })) })
  const answer = await harness.ours.call('KV/Txn', encode(reads(100)))
  t.equal(answer.messages(3).length, 100)
  t.equal(await forwarded(harness), 0)
  const larger = await harness.ours.call('KV/Txn', encode(reads(101)))
  t.equal(larger.messages(3).length, 101)
  t.equal(await forwarded(harness), 1)
})

void t.test('all ranges of a transaction are of one revision, and it includes every write before it', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { prepare: fill })
  const pair = (value: string): Fields => ({ 2: ['/flags/p', '/flags/q'].map((key) => ({ 2: { 1: key, 2: value } })) })
  let isOver = false
  let last = 0
  const writing = (async (): Promise<void> => {
    for (let i = 1; i <= 100; i++) {
      await theirs.call('KV/Txn', encode(pair(String(i))))
      last = i
    }
    isOver = true
  })()
  let reads = 0
  await until(async () => {
    const least = last
    const answer = await ours.call('KV/Txn', encode({ 2: [range({ 1: '/flags/p' }), range({ 1: '/flags/q' })] }))
    const ranges = answer.messages(3).map((op) => op.message(1))
    t.ok(ranges.every(({ revision }) => revision === answer.revision))
    const values = ranges.map((one) => Number(one.messages(2)[0]?.text(5) ?? 0))
    t.equal(values[0], values[1], 'no range is of another state')
    t.ok(values[0]! >= least, 'a write that has returned is included')
    reads++
    return isOver
  }, 'the writer is done')
  await writing
  t.ok(reads > 1)
})
