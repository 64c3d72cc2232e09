import t from 'tap'
import { HistoryFingerprint } from '../../../src/engine/feed/history-fingerprint.js'
import { inOwnMemory, type Key, type KeyValue } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'

/** A page of an etcd's response: its values are slices of one message. */
function page(first: number, count: number, bytes: number): { message: Buffer; keyValues: KeyValue[] } {
  const message = Buffer.alloc(count * bytes, 'x')
  const keyValues = Array.from({ length: count }, (_, i): KeyValue => {
    const revision = toRevision(first + i)
    const value = message.subarray(i * bytes, (i + 1) * bytes)
    const key = `/registry/pods/a/p${first + i}` as Key
    return { key, value, createRevision: revision, modRevision: revision, version: 1, leaseId: '0' }
  })
  return { message, keyValues }
}

void t.test('the remembered part of a list does not keep its pages in memory', async (t) => {
  const fingerprint = new HistoryFingerprint()
  for (let first = 1; first <= 3_001; first += 1_000) {
    const { message, keyValues } = page(first, 1_000, 1_000)
    fingerprint.listed(keyValues)
    for (const put of fingerprint.puts) {
      if (!('value' in put)) t.fail('a put without its value')
      else if (put.value.buffer === message.buffer) t.fail(`${put.key} is a slice of its page`)
      else t.equal(put.value.toString('latin1', 0, 3), 'xxx')
    }
  }
  t.equal(fingerprint.newest?.modRevision, 4_000)
})

void t.test('a value in its own memory, or most of its message, is kept as it is', async (t) => {
  const [alone] = page(1, 1, 100_000).keyValues
  t.equal(inOwnMemory(alone!), alone)
  const [half] = page(1, 2, 100_000).keyValues
  t.equal(inOwnMemory(half!), half)
  const [third] = page(1, 3, 100_000).keyValues
  const own = inOwnMemory(third!)
  t.not(own, third)
  t.same({ ...own, value: own.value.toString() }, { ...third!, value: third!.value.toString() })
})
