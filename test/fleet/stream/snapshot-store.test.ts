/** Whether a snapshot can belong to the history of what a sink holds. */
import t from 'tap'
import { HistoryFingerprint } from '../../../src/engine/feed/history-fingerprint.js'
import type { Batch, KeyValue } from '../../../src/engine/model/event.js'
import type { Bucket } from '../../../src/fleet/broker.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { type SnapshotEntry, SnapshotStore, SnapshotWriter } from '../../../src/fleet/stream/snapshot-store.js'
import { batch, del, podKeyValue, put, rev } from '../../support/objects.js'
import { things, unsigned } from '../nats-harness.js'

function isOfHistory(
  snapshot: { readonly revision: number; readonly held: readonly KeyValue[] },
  sink: { readonly listed: readonly KeyValue[]; readonly batches?: readonly Batch[]; readonly position: number },
): Promise<boolean> {
  const writer = new SnapshotWriter()
  writer.add(snapshot.held)
  const bucket: Partial<Bucket> = { getObject: () => Promise.resolve(Buffer.concat(writer.finish())) }
  const store = new SnapshotStore(bucket as Bucket, namesOf('test', things), unsigned)
  const revision = rev(snapshot.revision)
  const rest = { sequence: 1, epoch: 1, clusterId: '1', keys: writer.keys, isSynced: true, trustsProgress: true }
  const entry: SnapshotEntry = { name: 'distributary-snapshot', revision, settled: revision, ...rest }
  const fingerprint = new HistoryFingerprint()
  fingerprint.listed(sink.listed)
  fingerprint.applied(sink.batches ?? [])
  return store.isOfHistory(entry, fingerprint, rev(sink.position))
}

const a = podKeyValue('x', 'a', 5)
const b = podKeyValue('x', 'b', 8)

void t.test('a snapshot of the same history', async (t) => {
  const later = podKeyValue('x', 'a', 25, {}, 5)
  t.ok(await isOfHistory({ revision: 10, held: [a, b] }, { listed: [a, b], position: 20 }), 'before the position')
  t.ok(await isOfHistory({ revision: 6, held: [a] }, { listed: [a, b], position: 20 }), 'before the newest put')
  t.ok(
    await isOfHistory({ revision: 30, held: [later] }, { listed: [a, b], position: 20 }),
    'after it: one put, one gone',
  )
  const deleted = { listed: [a, b], batches: [batch(12, del('x', 'a'))], position: 20 }
  t.ok(await isOfHistory({ revision: 15, held: [b] }, deleted), 'without the deleted key')
  t.ok(await isOfHistory({ revision: 10, held: [a, b] }, deleted), 'before the deletion')
  t.ok(await isOfHistory({ revision: 30, held: [b, podKeyValue('x', 'a', 25)] }, deleted), 'made again after it')
})

void t.test('a snapshot of another history', async (t) => {
  const other = podKeyValue('x', 'a', 5, { labels: { of: 'another' } })
  t.notOk(await isOfHistory({ revision: 10, held: [other, b] }, { listed: [a, b], position: 20 }), 'another value')
  t.notOk(await isOfHistory({ revision: 10, held: [b] }, { listed: [a, b], position: 20 }), 'a key is missing')
  const rewritten = { listed: [a], batches: [batch(9, put('x', 'a', 9, {}, 5))], position: 20 }
  t.notOk(await isOfHistory({ revision: 10, held: [a] }, rewritten), 'an older version')
  const between = podKeyValue('x', 'a', 15, {}, 5)
  t.notOk(
    await isOfHistory({ revision: 30, held: [between, b] }, { listed: [a, b], position: 20 }),
    'a put that never came',
  )
  const deleted = { listed: [a, b], batches: [batch(12, del('x', 'a'))], position: 20 }
  t.notOk(await isOfHistory({ revision: 15, held: [a, b] }, deleted), 'a deleted key is there')
})

void t.test(
  'a whole state that is listed late replaces no later snapshot, but those of an earlier stream',
  async (t) => {
    const names = namesOf('test', things)
    let index: Buffer | null = null
    const deleted: string[] = []
    const bucket: Partial<Bucket> = {
      kvGet: async () => (index === null ? null : { value: index, revision: 1 }),
      kvUpdate: async (_key, value) => {
        index = value
        return 1
      },
      deleteObject: async (name) => void deleted.push(name),
    }
    const store = new SnapshotStore(bucket as Bucket, names, unsigned)
    const at = (sequence: number, epoch: number, takenAt: number): SnapshotEntry => {
      const rest = { epoch, takenAt, clusterId: '1', keys: 0, isSynced: true, trustsProgress: true }
      return { name: `s${sequence}`, sequence, revision: rev(sequence), settled: rev(sequence), ...rest }
    }
    for (const earlier of [at(3, 1, 1_000), at(7, 2, 3_000), at(8, 9, 500)]) await store.add(earlier, 1, false)
    await store.add(at(5, 1, 2_000), 1, true)
    t.same(
      (await store.index()).map(({ name }) => name),
      ['s5', 's7'],
    )
    t.same(deleted, ['s3', 's8'])
  },
)
