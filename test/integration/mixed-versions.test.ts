/**
 * Pins the bytes that replicas exchange over NATS, read and written, so that the releases that share a fleet during an
 * upgrade understand each other. What is JSON may gain fields, which an older release ignores.
 */
import t from 'tap'
import { decodePart, encodeMessage, joinParts, type Message } from '../../src/fleet/stream/message.js'
import { edgeRequestHandler } from '../../src/fleet/stream/remote-reader.js'
import { SnapshotStore, SnapshotWriter } from '../../src/fleet/stream/snapshot-store.js'
import type { DigestedPut } from '../../src/engine/feed/history-fingerprint.js'
import type { Batch, Key, KeyValue } from '../../src/engine/model/event.js'
import { toRevision } from '../../src/engine/model/revision.js'
import type { Upstream } from '../../src/engine/upstream/upstream.js'
import { namesOf } from '../../src/fleet/stream/names.js'
import { things, unsigned } from '../fleet/nats-harness.js'
import { written } from '../fleet/pinned-format.js'

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
const digested: DigestedPut = {
  key: key('a'),
  createRevision: toRevision(2),
  modRevision: toRevision(41),
  version: 3,
  digest: Buffer.alloc(32, 9),
}
const lastDelete = { key: key('\u00ff'), revision: toRevision(41) }
const messages: readonly Message[] = [
  { ...header, kind: 'batches', batches },
  { ...header, kind: 'progress', fingerprint: { puts: [digested], lastDelete, keyCount: 2 } },
  { ...header, kind: 'claim', fingerprint: { puts: [digested, digested], lastDelete: null, keyCount: null } },
  {
    ...header,
    kind: 'state',
    reason: 'coalesce',
    snapshot: 'things/7-44',
    fingerprint: { puts: [], lastDelete: null, keyCount: 0 },
  },
]

for (const message of messages) {
  void t.test(`the bytes of a message in a stream do not change: ${message.kind}`, async (t) => {
    t.same(joinParts(bytesOf(message.kind).map(decodePart)), message)
    t.same(hex(encodeMessage(message, 1_000_000)), written[message.kind])
  })
}

void t.test('the bytes of a message in parts do not change', async (t) => {
  t.same(joinParts(bytesOf('parts').map(decodePart)), messages[0])
  t.same(hex(encodeMessage(messages[0]!, 120)), written['parts'])
})

void t.test('the bytes of a snapshot do not change', async (t) => {
  const writer = new SnapshotWriter()
  writer.add(state)
  t.same(hex(writer.finish()), written['snapshot'])
  const bucket = { getObject: async () => Buffer.concat(bytesOf('snapshot')) } as never
  const read: KeyValue[] = []
  const store = new SnapshotStore(bucket, namesOf('test', things), unsigned)
  for await (const page of store.read({ name: 'any', keys: 2 })) read.push(...page)
  t.same(read, state)
})

void t.test('the bytes of answers to edges do not change', async (t) => {
  const upstream = {
    read: async () => ({ revision: 44, currentRevision: 50, more: true, count: 9, keyValues: [state[1]] }),
    readKey: async () => state[1],
    currentRevision: async () => 50,
  } as unknown as Upstream
  const wanted = { onOneWay: { progress: () => {}, snapshot: () => {}, word: () => {} } }
  const ask = edgeRequestHandler({ upstream, prefix: key(''), envelope: unsigned, maxBytes: 1e6, ...wanted })
  const questions = [
    { kind: 'page', startKey: null, revision: null, limit: 1, keysOnly: false },
    { kind: 'key', key: key('b'), revision: null },
    { kind: 'revision' },
    { kind: 'key', key: '/x', revision: null },
  ]
  const answers = await Promise.all(questions.map((question) => ask(Buffer.from(JSON.stringify(question)))))
  t.same(hex(answers.map((answer) => answer ?? Buffer.alloc(0))), written['answers'])
})
