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
  const count = { content: 0 }
  const queue = new PublishQueue(() => count.content++)
  /** Takes everything that waits. */
  const rest = async (): Promise<string[]> => {
    const told: string[] = []
    queue.add({ kind: 'state' } as Queued & { kind: 'state' })
    for (let item = await queue.next(); item !== null && item.kind !== 'state'; item = await queue.next()) {
      const at =
        item.kind === 'batches' ? item.batches.map(({ revision }) => revision) : 'revision' in item ? item.revision : ''
      told.push(`${item.kind} ${String(at)}`)
    }
    return told
  }
  return { queue, count, rest }
}

void t.test('however much progress arrives while a message is in flight, only one mark waits', async (t) => {
  const { queue, count, rest } = scene()
  queue.addBatches([batch(2)])
  for (const revision of [3, 5, 4]) queue.add({ kind: 'progress', revision: toRevision(revision) })
  t.equal(count.content, 1)
  t.same(await rest(), ['batches 2', 'progress 5'])
  t.equal(queue.bytes, 0)
})

void t.test('batches replace the progress before them, and join the batches before that', async (t) => {
  const { queue, rest } = scene()
  queue.addBatches([batch(2)])
  queue.add({ kind: 'progress', revision: toRevision(4) })
  queue.addBatches([batch(5), batch(6)])
  t.same(await rest(), ['batches 2,5,6'])
  t.equal(queue.bytes, 0)
})

void t.test('the mark that the stream is complete keeps its position', async (t) => {
  const { queue, rest } = scene()
  queue.addBatches([batch(2)])
  queue.add({ kind: 'synced' })
  queue.addBatches([])
  queue.add({ kind: 'progress', revision: toRevision(4) })
  queue.addBatches([batch(5)])
  t.same(await rest(), ['batches 2', 'synced ', 'batches 5'])
})

void t.test('a closed queue has nothing, even for a publisher that waits', async (t) => {
  const { queue } = scene()
  const waiting = queue.next()
  queue.close()
  t.equal(await waiting, null)
  t.equal(await queue.next(), null)
})
