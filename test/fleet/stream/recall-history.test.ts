/** Tests that the end of a stream tells a publisher as much about the history as its predecessor knew. */
import t from 'tap'
import { HistoryFingerprint } from '../../../src/engine/feed/history-fingerprint.js'
import { decodePart, encodeMessage, joinParts, type Body, type Message } from '../../../src/fleet/stream/message.js'
import { recallHistory } from '../../../src/fleet/stream/recall-history.js'
import type { Batch, Key, KeyEvent, KeyValue } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { testSeeds } from '../../support/test-seeds.js'

const key = (name: string): Key => `/registry/things/${name}` as Key

function keyValue(name: string, revision: number, version: number): KeyValue {
  const [createRevision, modRevision] = [toRevision(revision - version + 1), toRevision(revision)]
  return {
    key: key(name),
    value: Buffer.from(`${name}${revision}`),
    createRevision,
    modRevision,
    version,
    leaseId: '0',
  }
}

/** A message as the next publisher reads it. */
function sent(body: Body, fingerprint: HistoryFingerprint | null, revision = 40): Message {
  const at = toRevision(revision)
  const revisions = { previous: toRevision(revision - 1), revision: at, settled: at }
  const header = { epoch: 1, ...revisions, sentAt: 0, isSynced: true, trustsProgress: true }
  const origin = { clusterId: '1', ...(fingerprint === null ? {} : { fingerprint: fingerprint.digested() }) }
  return joinParts(encodeMessage({ ...header, ...origin, ...body }, 100).map(decodePart))
}

for (const seed of testSeeds(3)) {
  void t.test(`a random history arrives complete (seed ${seed})`, async (t) => {
    const random = seededRandom(seed)
    const versions = new Map<string, number>()
    const batchAt = (revision: number): Batch => {
      const events: KeyEvent[] = []
      for (const name of new Set(Array.from({ length: 3 }, () => `k${randomInteger(random, 0, 30)}`))) {
        if (versions.has(name) && random.next() < 0.3) {
          versions.delete(name)
          events.push({ type: 'delete', key: key(name) })
          continue
        }
        const version = (versions.get(name) ?? 0) + 1
        versions.set(name, version)
        events.push({ type: 'put', keyValue: keyValue(name, revision, version) })
      }
      return { revision: toRevision(revision), events }
    }
    const fingerprint = new HistoryFingerprint()
    fingerprint.listed([])
    for (let revision = 50; revision < 100; revision++) fingerprint.applied([batchAt(revision)])
    for (const carrier of ['batches', 'mark'] as const) {
      const first: Body = carrier === 'mark' ? { kind: 'progress' } : { kind: 'batches', batches: [batchAt(100)] }
      if (first.kind === 'batches') fingerprint.applied(first.batches)
      const messages = [sent(first, fingerprint, 100)]
      for (let revision = 101; revision < 106; revision++) {
        const batches = [batchAt(revision)]
        fingerprint.applied(batches)
        messages.push(sent({ kind: 'batches', batches }, null, revision))
      }
      const recalled = recallHistory(messages)
      t.same(recalled.digested(), fingerprint.digested())
      t.equal(recalled.keyCount, versions.size)
    }
  })
}

void t.test('without a fingerprint in the stream, the history is recalled from the batches alone', async (t) => {
  const batchOf = (name: string, revision: number): Message => {
    const put = { type: 'put', keyValue: keyValue(name, revision, 1) } as const
    return sent({ kind: 'batches', batches: [{ revision: toRevision(revision), events: [put] }] }, null, revision)
  }
  const recalled = recallHistory([batchOf('a', 41), batchOf('b', 42)])
  t.match(recalled, { puts: [keyValue('a', 41, 1), keyValue('b', 42, 1)], lastDelete: null, keyCount: null })
})
