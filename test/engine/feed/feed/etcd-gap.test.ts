/** A replay of very many bytes, over a real etcd. */
import t from 'tap'
import type { Key } from '../../../../src/engine/model/event.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { feedOver } from '../etcd-harness.js'
import { until } from '../../../support/until.js'

const KEYS = 100
const TRANSACTIONS = 60

void t.test('a replay larger than the largest message arrives in parts, as whole revisions', async (t) => {
  const etcd = await startEtcd(t)
  const h = feedOver(t, etcd, etcd.url, {}, undefined, { maxReceivedBytes: 40_000_000 })
  // etcd cuts parts of about 2 MB, so most of these revisions are cut.
  for (let i = 0; i < TRANSACTIONS; i++) {
    const value = Buffer.from(`${i}`.padEnd(12_000, 'x'))
    const keys = Array.from({ length: KEYS }, (_, j) => `/p/${j}` as Key)
    await h.upstream.write(
      [],
      keys.map((key) => ({ type: 'put', key, value })),
    )
  }
  h.feed.start()
  await until(() => h.feed.status.state === 'watching', 'it to be ready')
  await h.put('after', 'x')
  await until(() => h.sink.batches.at(-1)?.revision === h.revisions.at(-1), 'the last write')
  t.strictSame(h.sink.of('replace'), ['1 initial'], 'listed once, where the history begins')
  t.strictSame(
    h.sink.batches.map(({ events }) => events.length),
    [...Array.from({ length: TRANSACTIONS }, () => KEYS), 1],
  )
  t.equal(h.sink.state.size, KEYS + 1)
})
