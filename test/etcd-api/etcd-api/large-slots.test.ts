/** The slots of large responses that the cache begins to answer and etcd ends up answering. */
import t from 'tap'
import { RpcStatus } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { MAX_CACHED_TXN_KEYS } from '../../../src/etcd-api/limits.js'
import { until } from '../../support/until.js'
import { podKeyValue, rev } from '../../support/objects.js'
import { podPipeline } from '../../support/pod-pipeline.js'
import { settled } from '../support/fakes.js'
import { encode } from '../support/harness.js'
import { openApi } from '../support/open-api.js'

const LARGE = Buffer.from(encode({ 1: { 1: 77, 3: 9, 4: 2 }, 3: Buffer.alloc(1024 * 1024) }))

void t.test('a transaction that the cache hands over to etcd takes one slot', async (t) => {
  const pipeline = podPipeline(undefined, { trustsProgress: true, currentRevision: async () => rev(10) })
  const keys = MAX_CACHED_TXN_KEYS / 2 + 1
  const replacement = pipeline.cache.replace(rev(10), 'initial')
  replacement.add(Array.from({ length: keys }, (_, i) => podKeyValue('one', String(i).padStart(6, '0'), 5)))
  replacement.commit()
  pipeline.cache.synced()
  const served = pipeline.live({ resource: pipeline.resource, definition: null })
  const { call, limits, raw } = openApi(() => LARGE, 1, [served])
  const range = { 1: { 1: '/registry/pods/', 2: '/registry/pods0', 8: true } }
  const client = call('KV/Txn', { 2: [range, range] })
  client.isFull = true
  await until(() => limits.ranges.running > 0, 'the cache has begun to answer')
  await until(() => raw.calls.some(({ path }) => path.endsWith('/Txn')), 'etcd is asked')
  await settled()
  t.equal(limits.ranges.running, 1)
  t.equal(limits.ranges.waiting, 0)
  await until(() => {
    client.drain()
    return client.status !== null
  }, 'it is answered')
  t.equal(client.status, String(RpcStatus.OK))
  t.ok(client.messages[0]?.equals(LARGE))
  t.equal(limits.ranges.running, 0)
})
