/**
 * The last release and this one in one fleet: each reads what the other writes. Where the bytes are the same, that
 * covers both directions; what this release adds is JSON, whose unknown fields the last release ignores.
 */
import t from 'tap'
import { decodePart, encodeMessage, joinParts, type Message } from '../../src/fleet/stream/message.js'
import { answerQuestions } from '../../src/fleet/stream/questions.js'
import { SnapshotStore, SnapshotWriter } from '../../src/fleet/stream/snapshot-store.js'
import type { Batch, Key, KeyValue } from '../../src/engine/model/event.js'
import { toRevision } from '../../src/engine/model/revision.js'
import type { Upstream } from '../../src/engine/upstream/upstream.js'
import { namesOf } from '../../src/fleet/stream/names.js'
import { things, unsigned } from '../fleet/nats-harness.js'
import { written } from '../fleet/previous-release.js'

const key = (name: string): Key => `/registry/things/${name}` as Key
const hex = (bytes: Iterable<Buffer>): string[] => [...bytes].map((buffer) => buffer.toString('hex'))
const bytesOf = (name: string): Buffer[] => written[name]!.map((text) => Buffer.from(text, 'hex'))

function keyValue(revision: number, name: string, value: Buffer): KeyValue {
  const [createRevision, modRevision] = [toRevision(2), toRevision(revision)]
  return { key: key(name), value, createRevision, modRevision, version: 3, leaseId: '9223372036854775807' }
}

const state = [keyValue(41, 'a', Buffer.from([0, 255, 10])), keyValue(44, 'b', Buffer.from('x'))]
const batches: readonly Batch[] = [
  {
    revision: toRevision(41),
    events: [
      { type: 'put', keyValue: state[0]! },
      { type: 'delete', key: key('\u00ff') },
    ],
  },
  { revision: toRevision(44), events: [{ type: 'put', keyValue: state[1]! }] },
]
const header = {
  epoch: 7,
  previous: toRevision(40),
  revision: toRevision(44),
  settled: toRevision(44),
  sentAt: 1_760_000_000_123,
  isSynced: true,
  trustsProgress: false,
  clusterId: '14841639068965178418',
}
const messages: readonly Message[] = [
  { ...header, kind: 'batches', batches },
  { ...header, kind: 'progress' },
  { ...header, kind: 'claim' },
  { ...header, kind: 'state', reason: 'coalesce', snapshot: 'things/7-44' },
]

for (const message of messages) {
  void t.test(`both releases read each other's messages in a stream: ${message.kind}`, async (t) => {
    t.same(joinParts(bytesOf(message.kind).map(decodePart)), message, 'today reads what the last release wrote')
    t.same(hex(encodeMessage(message, 1_000_000)), written[message.kind], 'and writes the same')
  })
}

void t.test(
  'a fingerprint follows everything that the last release reads, and has a flag that it ignores',
  async (t) => {
    const digest = Buffer.alloc(32, 9)
    const put = { key: key('a'), createRevision: toRevision(2), modRevision: toRevision(41), version: 3, digest }
    const fingerprint = { puts: [put], lastDelete: null, keyCount: 2 }
    for (const message of messages) {
      const [told] = encodeMessage({ ...message, fingerprint }, 1_000_000)
      const [known] = bytesOf(message.kind)
      t.equal(told![3]! & 3, known![3], 'the flags that it knows')
      const told0 = Buffer.concat([told!.subarray(0, 3), known!.subarray(3, 4), told!.subarray(4, known!.length - 4)])
      t.same(told0, known!.subarray(0, -4), 'the same bytes up to the checksum')
      t.same(joinParts([decodePart(told!)]), { ...message, fingerprint })
    }
  },
)

void t.test("both releases read each other's messages in parts", async (t) => {
  t.same(joinParts(bytesOf('parts').map(decodePart)), messages[0])
  t.same(hex(encodeMessage(messages[0]!, 120)), written['parts'])
})

void t.test("both releases read each other's snapshots", async (t) => {
  const writer = new SnapshotWriter()
  writer.add(state)
  t.same(hex(writer.finish()), written['snapshot'])
  const bucket = { getObject: async () => Buffer.concat(bytesOf('snapshot')) } as never
  const read: KeyValue[] = []
  const store = new SnapshotStore(bucket, namesOf('test', things), unsigned)
  for await (const page of store.read({ name: 'any', keys: 2 })) read.push(...page)
  t.same(read, state)
})

void t.test("both releases answer each other's edges", async (t) => {
  const upstream = {
    read: async () => ({ revision: 44, currentRevision: 50, more: true, count: 9, keyValues: [state[1]] }),
    readKey: async () => state[1],
    currentRevision: async () => 50,
  } as unknown as Upstream
  const wanted = { onProgressWanted: () => {}, onSnapshotWanted: () => {}, onStatusWanted: () => {} }
  const ask = answerQuestions({ upstream, prefix: key(''), envelope: unsigned, maxBytes: 1e6, ...wanted })
  const questions = [
    { kind: 'page', startKey: null, revision: null, limit: 1, keysOnly: false },
    { kind: 'key', key: key('b'), revision: null },
    { kind: 'revision' },
    { kind: 'key', key: '/x', revision: null },
  ]
  const answers = await Promise.all(questions.map((question) => ask(Buffer.from(JSON.stringify(question)))))
  t.same(hex(answers.map((answer) => answer ?? Buffer.alloc(0))), written['answers'])
})
