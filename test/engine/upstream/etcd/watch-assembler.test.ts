import t from 'tap'
import type { Batch, Key, KeyEvent } from '../../../../src/engine/model/event.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import type { WatchMessage } from '../../../../src/engine/upstream/etcd/data-messages.js'
import { createWatchAssembler } from '../../../../src/engine/upstream/etcd/watch-assembler.js'

void t.test('an answer is split into its revisions', async (t) => {
  const cases: [what: string, revisions: number[], left: number[][]][] = [
    ['one event', [5], [[5]]],
    ['two of one revision', [5, 5], [[5, 5]]],
    ['several revisions', [5, 5, 6, 8, 8], [[5, 5], [6], [8, 8]]],
    ['nothing', [], []],
  ]
  for (const [what, revisions, left] of cases) {
    const assembler = createWatchAssembler(1 as Revision)
    t.same(assembler.add(message(revisions)).map(revisionsOf), left, what)
    t.equal(assembler.droppedEvents, 0)
  }
})

void t.test('events at or before the position are dropped and counted', async (t) => {
  const assembler = createWatchAssembler(5 as Revision)
  t.same(assembler.add(message([3, 4, 4, 5])).map(revisionsOf), [[5]], 'older than the start revision')
  t.equal(assembler.droppedEvents, 3)
  t.same(assembler.add(message([5, 5, 6])).map(revisionsOf), [[6]], 'delivered before')
  t.equal(assembler.droppedEvents, 5)
  t.same(assembler.add(message([4])), [])
  t.equal(assembler.advance(9 as Revision), true)
  t.same(assembler.add(message([8, 9, 10])).map(revisionsOf), [[10]], 'older than the reported progress')
  t.equal(assembler.droppedEvents, 8)
})

void t.test('progress never goes back', async (t) => {
  const assembler = createWatchAssembler(5 as Revision)
  t.equal(assembler.advance(3 as Revision), false, 'before the start')
  t.equal(assembler.advance(4 as Revision), true, 'exactly before the start')
  assembler.add(message([5, 6]))
  t.equal(assembler.advance(5 as Revision), false)
  t.equal(assembler.advance(6 as Revision), true)
  t.equal(assembler.advance(6 as Revision), true, 'the same revision again')
})

function message(revisions: readonly number[]): WatchMessage {
  return {
    headerRevision: 1_000 as Revision,
    watchId: 0,
    created: false,
    canceled: false,
    compactRevision: 0 as Revision,
    cancelReason: '',
    events: revisions.map((revision): KeyEvent => ({ type: 'delete', key: String(revision) as Key })),
    revisions: revisions as readonly Revision[],
  }
}

/** Each event by its revision: the values of a batch must match its revision. */
function revisionsOf(batch: Batch): number[] {
  const revisions = batch.events.map((event) => Number(event.type === 'delete' ? event.key : Number.NaN))
  if (revisions.some((revision) => revision !== batch.revision)) throw new Error(`a mixed batch: ${revisions.join()}`)
  return revisions
}
