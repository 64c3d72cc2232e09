/** The queue of items to publish, while one message is in flight. */
import t from 'tap'
import { PublishQueue, type Queued } from '../../../src/fleet/stream/publish-queue.js'
import { type Batch, keyFromText } from '../../../src/engine/model/event.js'
import { toRevision as rev } from '../../../src/engine/model/revision.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'

const batch = (at: number): Batch => ({
  revision: rev(at),
  events: [{ type: 'delete', key: keyFromText('/registry/things/a') } as never],
})

function scene() {
  const clock = new VirtualClock()
  const queue = new PublishQueue(clock)
  const told: string[] = []
  const run = async (): Promise<void> => {
    for (let item = await queue.next(); item !== null; item = await queue.next()) {
      const at =
        item.kind === 'batches' ? item.batches.map(({ revision }) => revision) : 'revision' in item ? item.revision : ''
      told.push(`${item.kind} ${String(at)}`)
    }
  }
  /** Takes everything that waits, and everything that comes later. @returns what was taken in that time. */
  const take = async (ms = 0): Promise<string[]> => {
    running ??= run()
    await nextTurn()
    await clock.advanceInTurns(ms, 10)
    return told.splice(0)
  }
  let running: Promise<void> | null = null
  const state = (revision: number) => ({ kind: 'state', revision: rev(revision) }) as Queued & { kind: 'state' }
  return { queue, take, state, clock }
}

void t.test('however much progress arrives while a message is in flight, only one mark waits', async (t) => {
  const { queue, take } = scene()
  queue.addBatches([batch(2)])
  for (const revision of [3, 5, 4]) queue.addProgress(rev(revision))
  t.same(await take(), ['batches 2', 'progress 5'])
  t.equal(queue.bytes, 0)
})

void t.test('batches replace the progress before them, and join the batches before that', async (t) => {
  const { queue, take } = scene()
  queue.addBatches([batch(2)])
  queue.addProgress(rev(4))
  queue.addBatches([batch(5), batch(6)])
  t.same(await take(1_000), ['batches 2,5,6'])
  t.equal(queue.bytes, 0)
})

void t.test('of a thousand progresses at once two are handed out: the first, and later the newest', async (t) => {
  const { queue, take, clock } = scene()
  await take()
  for (let revision = 1; revision <= 1_000; revision++) {
    queue.addProgress(rev(revision))
    if (revision === 1) t.same(await take(), ['progress 1'])
  }
  t.same(await take(40), [])
  t.same(await take(10), ['progress 1000'])
  t.same(await take(10_000), [])
  queue.addProgress(rev(1_001))
  t.same(await take(), ['progress 1001'], 'after a pause nothing waits')
  queue.addProgress(rev(1_002))
  queue.close()
  t.same(await take(1_000), [])
  t.equal(clock.pending, 0)
})

void t.test('batches and states do not wait behind progress, and make it redundant', async (t) => {
  const { queue, take, state } = scene()
  queue.addProgress(rev(10))
  t.same(await take(), ['progress 10'])
  queue.addProgress(rev(12))
  queue.addBatches([batch(13)])
  t.same(await take(1_000), ['batches 13'])
  queue.addProgress(rev(14))
  t.same(await take(), ['progress 14'])
  queue.addProgress(rev(20))
  queue.addState(state(5))
  t.same(await take(1_000), ['state 5'], 'what waited is of the history before')
})

void t.test('the mark that the stream is complete keeps its position', async (t) => {
  const { queue, take } = scene()
  queue.addBatches([batch(2)])
  queue.addProgress(rev(3))
  queue.addSynced()
  queue.addSynced()
  queue.addBatches([])
  queue.addProgress(rev(4))
  queue.addBatches([batch(5)])
  t.same(await take(), ['batches 2', 'progress 3', 'synced ', 'batches 5'])
})

void t.test('a proof waits only for messages queued before it', async (t) => {
  const { queue, take } = scene()
  queue.addBatches([batch(2)])
  t.equal(queue.addProof(7), false)
  queue.addBatches([batch(3)])
  queue.addProgress(rev(4))
  t.same(await take(), ['batches 2', 'proof ', 'batches 3', 'progress 4'])
  t.equal(queue.addProof(8), true, 'all is written, and the publisher waits for more')
  t.equal(queue.bytes, 0)
})

void t.test('a proof waits for the message in flight', async (t) => {
  const { queue } = scene()
  queue.addBatches([batch(2)])
  t.match(await queue.next(), { kind: 'batches' })
  t.equal(queue.addProof(7), false)
  t.match(await queue.next(), { kind: 'proof', requestedAtMs: 7 })
})

void t.test('a closed queue returns no message, even to a publisher that waits', async (t) => {
  const { queue } = scene()
  const waiting = queue.next()
  queue.close()
  t.equal(await waiting, null)
  t.equal(await queue.next(), null)
})
