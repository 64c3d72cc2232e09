/** Tests that a message is read from a stream as it was written, and that anything else is rejected. */
import { crc32 } from 'node:zlib'
import t from 'tap'
import { decodePart, encodeMessage, joinParts, type Message } from '../../../src/fleet/stream/message.js'
import { BrokerError } from '../../../src/fleet/broker.js'
import { type Key, keyFromBytes, type KeyValue } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'

const key = (text: string): Key => text as Key
const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i))

function keyValue(revision: number, value: Buffer, name = 'a'): KeyValue {
  return {
    key: key(`/registry/things/${name}`),
    value,
    createRevision: toRevision(1),
    modRevision: toRevision(revision),
    version: 3,
    leaseId: '9223372036854775807',
  }
}

const header = {
  epoch: 7,
  previous: toRevision(40),
  revision: toRevision(Number.MAX_SAFE_INTEGER),
  settled: toRevision(41),
  sentAt: 1_760_000_000_123,
  isSynced: true,
  trustsProgress: false,
  clusterId: '14841639068965178418',
}
const put = (revision: number, value: Buffer, name?: string) =>
  ({ type: 'put', keyValue: keyValue(revision, value, name) }) as const

const fingerprint = {
  puts: [1, 2].map((at) => ({
    key: key(`/registry/things/${at}`),
    createRevision: toRevision(at),
    modRevision: toRevision(at + 1),
    version: 2,
    digest: Buffer.alloc(32, at),
  })),
  lastDelete: { key: keyFromBytes(everyByte), revision: toRevision(39) },
  keyCount: 7,
}

const messages: readonly (readonly [name: string, message: Message])[] = [
  ['no batches', { ...header, kind: 'batches', batches: [] }],
  [
    'an empty value',
    { ...header, kind: 'batches', batches: [{ revision: toRevision(41), events: [put(41, Buffer.alloc(0))] }] },
  ],
  [
    'many keys in a revision, a delete, keys and values of every byte',
    {
      ...header,
      isSynced: false,
      trustsProgress: true,
      kind: 'batches',
      batches: [
        {
          revision: toRevision(41),
          events: [
            put(41, everyByte),
            { type: 'delete', key: keyFromBytes(everyByte) },
            put(41, Buffer.alloc(5_000, 7), 'b'),
          ],
        },
        { revision: toRevision(44), events: [put(44, Buffer.from('x'))] },
      ],
    },
  ],
  ['progress', { ...header, kind: 'progress', fingerprint }],
  ['progress of nothing known', { ...header, kind: 'progress' }],
  ['a claim', { ...header, kind: 'claim', fingerprint: { ...fingerprint, lastDelete: null } }],
  ['batches and a fingerprint', { ...header, kind: 'batches', batches: [], fingerprint }],
  [
    'a mark and a fingerprint of nothing',
    { ...header, kind: 'progress', fingerprint: { puts: [], lastDelete: null, keyCount: null } },
  ],
  ...(['gap', 'coalesce', 'history-changed'] as const).map(
    (reason) =>
      [`a state: ${reason}`, { ...header, kind: 'state', reason, snapshot: 'th\u00fcngs/1-2', fingerprint }] as const,
  ),
]

for (const [name, message] of messages) {
  // Header and checksum take 52 bytes, so a part holds one byte of the body, a few, or all.
  for (const maxBytes of [53, 100, 1_000_000]) {
    void t.test(`a message survives being written and read: ${name}, in parts of ${maxBytes} bytes`, async (t) => {
      const parts = encodeMessage(message, maxBytes)
      t.ok(parts.every((part) => part.length <= maxBytes))
      if (maxBytes === 1_000_000) t.equal(parts.length, 1)
      t.same(joinParts(parts.map(decodePart)), message)
    })
  }
}

void t.test('every flipped bit is found', async (t) => {
  const [part] = encodeMessage(messages[2]![1], 1_000_000)
  const random = seededRandom(3)
  let found = 0
  const at = [0, 1, 2, 3, 4, 8, 16, 24, 32, 40, 48, part!.length - 1]
  for (let i = 0; i < 300; i++) at.push(randomInteger(random, 0, part!.length - 1))
  for (const byte of at) {
    const damaged = Buffer.from(part!)
    damaged[byte]! ^= 1 << randomInteger(random, 0, 7)
    try {
      joinParts([decodePart(damaged)])
    } catch (error) {
      if (error instanceof BrokerError && error.code === 'corrupt') found++
    }
  }
  t.equal(found, at.length)
})

for (const [name, data] of [
  ['nothing', Buffer.alloc(0)],
  ['less than a header', Buffer.from('D\u0001')],
  ['something else', Buffer.alloc(200, 'x')],
  ['a cut message', encodeMessage(messages[2]![1], 1_000_000)[0]!.subarray(0, -1)],
] as const) {
  void t.test(`a part is rejected as corrupt: ${name}`, async (t) => {
    t.throws(() => decodePart(data), { name: 'BrokerError', code: 'corrupt' })
  })
}

void t.test('incomplete parts, or parts of two messages, make no message', async (t) => {
  const parts = encodeMessage(messages[2]![1], 1_000).map(decodePart)
  t.ok(parts.length > 3)
  t.same(
    parts.map(({ index, count }) => [index, count]),
    parts.map((_, i) => [i, parts.length]),
  )
  t.throws(() => joinParts([]), { code: 'corrupt' })
  t.throws(() => joinParts(parts.slice(0, -1)), { code: 'corrupt' })
  t.throws(() => joinParts(parts.slice(1)), { code: 'corrupt' })
})

void t.test('an event with a revision other than its batch’s is rejected', async (t) => {
  const batches = [{ revision: toRevision(41), events: [put(40, everyByte)] }]
  const [part] = encodeMessage({ ...header, kind: 'batches', batches }, 1_000_000)
  t.throws(() => joinParts([decodePart(part!)]), { code: 'corrupt' })
})

void t.test('what no publisher writes is rejected, although the checksum is right', async (t) => {
  const [part] = encodeMessage({ ...header, kind: 'progress' }, 1_000_000)
  for (const at of [8, 16, 24, 32, 40]) {
    for (const value of [NaN, Infinity, ...(at === 40 ? [] : [-1, 0.5, 2 ** 53])]) {
      const forged = Buffer.from(part!)
      forged.writeDoubleBE(value, at)
      forged.writeUInt32BE(crc32(forged.subarray(0, -4)), forged.length - 4)
      t.throws(() => decodePart(forged), { name: 'BrokerError', code: 'corrupt' }, `${value} at ${at}`)
    }
  }
  for (const revisions of [[42, 41], [41, 41], [40], [101]]) {
    const batches = revisions.map((at) => ({ revision: toRevision(at), events: [put(at, everyByte)] }))
    const message: Message = { ...header, revision: toRevision(100), kind: 'batches', batches }
    const [forged] = encodeMessage(message, 1_000_000)
    t.throws(() => joinParts([decodePart(forged!)]), { code: 'corrupt' }, `batches at ${revisions.join()}`)
  }
})
