import t from 'tap'
import type { Batch, Key, KeyEvent } from '../../../src/model/event.js'
import type { Revision } from '../../../src/model/revision.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import type { WatchMessage } from '../../../src/upstream/etcd/data-messages.js'
import { createWatchAssembler } from '../../../src/upstream/etcd/watch-assembler.js'

void t.test('a revision leaves only when it is whole', async (t) => {
  const cases: [what: string, messages: [revisions: number[], isFragment: boolean][], left: number[][][]][] = [
    ['one event', [[[5], false]], [[[5]]]],
    ['two of one revision', [[[5, 5], false]], [[[5, 5]]]],
    ['several revisions', [[[5, 5, 6, 8, 8], false]], [[[5, 5], [6], [8, 8]]]],
    [
      'cut between revisions: the last one still waits',
      [
        [[5, 6], true],
        [[7], false],
      ],
      [[[5]], [[6], [7]]],
    ],
    [
      'cut inside of a revision',
      [
        [[5, 6, 6], true],
        [[6, 7], false],
      ],
      [[[5]], [[6, 6, 6], [7]]],
    ],
    [
      'one revision over three messages',
      [
        [[5, 5], true],
        [[5, 5], true],
        [[5], false],
      ],
      [[], [], [[5, 5, 5, 5, 5]]],
    ],
    [
      'a last fragment without events',
      [
        [[5], true],
        [[], false],
      ],
      [[], [[5]]],
    ],
    ['nothing', [[[], false]], [[]]],
  ]
  for (const [what, messages, left] of cases) {
    const assembler = createWatchAssembler(1 as Revision)
    const got = messages.map(([revisions, isFragment]) =>
      assembler.add(message(revisions, isFragment)).map(revisionsOf),
    )
    t.same(got, left, what)
    t.equal(assembler.droppedEvents, 0)
  }
})

void t.test('events at or before the position are dropped and counted', async (t) => {
  const assembler = createWatchAssembler(5 as Revision)
  t.same(assembler.add(message([3, 4, 4, 5], false)).map(revisionsOf), [[5]], 'older than the start revision')
  t.equal(assembler.droppedEvents, 3)
  t.same(assembler.add(message([5, 5, 6], false)).map(revisionsOf), [[6]], 'delivered before')
  t.equal(assembler.droppedEvents, 5)
  t.same(assembler.add(message([4], false)), [])
  t.equal(assembler.advance(9 as Revision), true)
  t.same(assembler.add(message([8, 9, 10], false)).map(revisionsOf), [[10]], 'before what was told as progress')
  t.equal(assembler.droppedEvents, 8)
})

void t.test('progress never goes back, and never passes what is held', async (t) => {
  const assembler = createWatchAssembler(5 as Revision)
  t.equal(assembler.advance(3 as Revision), false, 'before the start')
  t.equal(assembler.advance(4 as Revision), true, 'exactly before the start')
  assembler.add(message([5, 6], true))
  t.equal(assembler.advance(9 as Revision), false, 'with 6 still incomplete')
  assembler.add(message([6], false))
  t.equal(assembler.advance(5 as Revision), false)
  t.equal(assembler.advance(6 as Revision), true)
  t.equal(assembler.advance(6 as Revision), true, 'once more the same')
})

void t.test('however an answer is cut, the same batches come out', async (t) => {
  const seed = Number(process.env['SEED'] ?? 1)
  const random = seededRandom(seed)
  for (let round = 0; round < 300; round++) {
    const revisions: number[] = []
    for (let revision = 1; revisions.length < 20; revision += randomInteger(random, 1, 3)) {
      for (let n = randomInteger(random, 1, 6); n > 0; n--) revisions.push(revision)
    }
    const whole = createWatchAssembler(1 as Revision)
      .add(message(revisions, false))
      .map(revisionsOf)
    const assembler = createWatchAssembler(1 as Revision)
    const cut: number[][] = []
    for (let at = 0; at < revisions.length;) {
      const next = Math.min(revisions.length, at + randomInteger(random, 1, 5))
      cut.push(...assembler.add(message(revisions.slice(at, next), next < revisions.length)).map(revisionsOf))
      at = next
    }
    t.same(cut, whole, `seed ${seed}, round ${round}`)
  }
})

function message(revisions: readonly number[], isFragment: boolean): WatchMessage {
  return {
    headerRevision: 1_000 as Revision,
    watchId: 0,
    created: false,
    canceled: false,
    compactRevision: 0 as Revision,
    cancelReason: '',
    isFragment,
    events: revisions.map((revision): KeyEvent => ({ type: 'delete', key: String(revision) as Key })),
    revisions: revisions as readonly Revision[],
  }
}

/** Each event by the revision it was made with: what a batch holds must be what it says. */
function revisionsOf(batch: Batch): number[] {
  const revisions = batch.events.map((event) => Number(event.type === 'delete' ? event.key : Number.NaN))
  if (revisions.some((revision) => revision !== batch.revision)) throw new Error(`a mixed batch: ${revisions.join()}`)
  return revisions
}
