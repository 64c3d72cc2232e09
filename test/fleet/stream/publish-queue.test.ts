/** What waits to be published while one message is in flight. */
import t from 'tap'
import { PublishQueue, type Queued } from '../../../src/fleet/stream/publish-queue.js'
import { type Batch, keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'

const batch = (at: number): Batch => ({
  revision: toRevision(at),
  events: [{ type: 'delete', key: keyFromText('/registry/things/a') } as never],
})

function scene() {
  const queued: Queued[] = []
  const queue = new PublishQueue((item) => queued.push(item))
  const rest = (): string[] => {
    const told: string[] = []
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      const at =
        item.kind === 'batches' ? item.batches.map(({ revision }) => revision) : 'revision' in item ? item.revision : ''
      told.push(`${item.kind} ${String(at)}`)
    }
    return told
  }
  return { queue, queued, rest }
}

void t.test('however much progress arrives while a message is in flight, only one mark waits', async (t) => {
  const { queue, queued, rest } = scene()
  queue.addBatches([batch(2)])
  for (const revision of [3, 5, 4]) queue.add({ kind: 'progress', revision: toRevision(revision) })
  t.equal(queued.length, 2)
  t.same(rest(), ['batches 2', 'progress 5'])
  t.equal(queue.bytes, 0)
})

void t.test('batches replace the progress before them, and join the batches before that', async (t) => {
  const { queue, rest } = scene()
  queue.addBatches([batch(2)])
  queue.add({ kind: 'progress', revision: toRevision(4) })
  queue.addBatches([batch(5), batch(6)])
  t.same(rest(), ['batches 2,5,6'])
  t.equal(queue.bytes, 0)
})

void t.test('the mark that the stream is complete keeps its position', async (t) => {
  const { queue, rest } = scene()
  queue.addBatches([batch(2)])
  queue.add({ kind: 'synced' })
  queue.addBatches([])
  queue.add({ kind: 'progress', revision: toRevision(4) })
  queue.addBatches([batch(5)])
  t.same(rest(), ['batches 2', 'synced ', 'batches 5'])
})
