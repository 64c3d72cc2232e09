/** A revision of very many keys, over a real etcd. */
import t from 'tap'
import type { Key } from '../../../../src/engine/model/event.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { base64, feedOver } from '../etcd-harness.js'
import { until } from '../../../support/until.js'

const DELETED_KEYS = 200_101
const KEYS_A_TRANSACTION = 20_000

void t.test('200,101 keys deleted in one transaction reach a watching feed, and one that starts later', async (t) => {
  const flags = [`--max-txn-ops=${KEYS_A_TRANSACTION}`, '--max-request-bytes=10000000']
  // etcd abandons a request after 5 s and two of these, and deleting so many keys has taken a busy machine longer than
  // 13 s.
  const etcd = await startEtcd(t, { flags: [...flags, '--election-timeout=20000'] })
  const options = { pageKeys: 10_000 }
  const live = feedOver(t, etcd, etcd.url, options)
  for (let first = 0; first < DELETED_KEYS; first += KEYS_A_TRANSACTION) {
    const keys = Math.min(KEYS_A_TRANSACTION, DELETED_KEYS - first)
    const operations = Array.from({ length: keys }, (_, i) => ({
      type: 'put' as const,
      key: `/p/${String(first + i).padStart(6, '0')}` as Key,
      value: Buffer.from('x'),
    }))
    await live.upstream.write([], operations)
  }
  live.feed.start()
  await until(() => live.feed.status.state === 'watching' && live.sink.state.size === DELETED_KEYS, 'all keys')
  const { header } = (await etcd.call('kv/deleterange', { key: base64('/p/'), range_end: base64('/p0') })) as {
    header: { revision: string }
  }
  await until(() => live.sink.state.size === 0, 'the one that watches to have heard')

  const later = feedOver(t, etcd, etcd.url, options)
  later.feed.start()
  await until(() => later.feed.status.state === 'watching', 'the one that starts to be ready')
  // When progress is not trusted, an equal state may have made it ready earlier.
  await until(() => later.sink.batches.at(-1)?.events[0]?.type === 'delete', 'it to have heard')
  t.equal(later.sink.state.size, 0)
  for (const { sink, metrics } of [live, later]) {
    const last = sink.batches.at(-1)!
    t.equal(last.revision, Number(header.revision))
    t.equal(last.events.length, DELETED_KEYS, 'as one')
    t.equal(metrics.of('relisted gap'), 0)
  }
})
