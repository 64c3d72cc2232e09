import t from 'tap'
import { JsonNumber, type JsonRecord } from '../../../src/kubernetes/codec/json-tree.js'
import { orderlyMetadata } from '../../../src/kubernetes/codec/object-metadata.js'

void t.test('times that do not exist are dropped, as in Go', async (t) => {
  for (const time of ['2026-13-01T00:00:00Z', '2026-02-30T00:00:00Z', '2026-01-01T24:00:00Z', '2026-01-01T00:00:60Z'])
    t.same(Object.keys(orderlyMetadata({ name: 'a', creationTimestamp: time })), ['name'], time)
  const kept = orderlyMetadata({ creationTimestamp: '2024-02-29T23:59:59Z' })
  t.equal(kept['creationTimestamp'], '2024-02-29T23:59:59Z')
  const offset = orderlyMetadata({ creationTimestamp: '2026-01-01T01:00:00,5+01:00' })
  t.equal(offset['creationTimestamp'], '2026-01-01T00:00:00Z', 'in UTC, in whole seconds')
})

void t.test('integers beyond 64 bits are dropped, others keep their digits', async (t) => {
  for (const generation of [1e20, 2 ** 63, 1.5, new JsonNumber('9223372036854775808'), new JsonNumber('1e3')])
    t.same(Object.keys(orderlyMetadata({ generation })), [], String(generation))
  const exact: JsonRecord = { generation: new JsonNumber('9223372036854775807'), deletionGracePeriodSeconds: 0 }
  t.equal(orderlyMetadata(exact), exact)
})
