import t from 'tap'
import type { Cursor } from '../../../src/engine/broadcast/cursor.js'
import { Schedule } from '../../../src/engine/broadcast/schedule.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { createHarness } from './harness.js'
import { testSeed } from '../../support/test-seeds.js'

function setUp() {
  const { watch } = createHarness({ revision: 10 })
  const clock = new VirtualClock()
  const due: { cursor: Cursor; atMs: number }[] = []
  const schedule = new Schedule<Cursor>(clock, (cursor, atMs) => due.push({ cursor, atMs }))
  const cursor = (): Cursor => watch().cursor
  return { clock, due, schedule, cursor }
}

void t.test('a cursor is called once, at its time or within a quarter of a second after it', (t) => {
  const cases = [0, 1, 249, 250, 251, 1_000, 59_999, 3_600_000]
  for (const dueMs of cases) {
    const { clock, due, schedule, cursor } = setUp()
    schedule.add(cursor(), dueMs)
    clock.advance(dueMs + 250)
    t.equal(due.length, 1, `at ${dueMs}`)
    t.ok(due[0]!.atMs >= dueMs && due[0]!.atMs <= dueMs + 250, `${due[0]!.atMs} for ${dueMs}`)
    clock.advance(3_600_000)
    t.equal(due.length, 1, 'once')
    t.equal(schedule.size, 0)
    t.equal(clock.pending, 0, 'no timer while there is nothing to wait for')
  }
  t.end()
})

void t.test('cursors are called in order, none before its time', (t) => {
  const { clock, due, schedule, cursor } = setUp()
  const cursors = [cursor(), cursor(), cursor()]
  schedule.add(cursors[0]!, 5_000)
  schedule.add(cursors[1]!, 1_000)
  schedule.add(cursors[2]!, 3_000)
  clock.advance(999)
  t.equal(due.length, 0)
  clock.advance(10_000)
  t.same(
    due.map((each) => cursors.indexOf(each.cursor as never)),
    [1, 2, 0],
  )
  t.end()
})

void t.test(
  'thousands due at once are called over several turns, each once, except one that left in the meantime',
  (t) => {
    const { watch } = createHarness({ revision: 10 })
    const cursors = Array.from({ length: 1_200 }, () => watch().cursor)
    const clock = new VirtualClock()
    const due: Cursor[] = []
    const schedule = new Schedule<Cursor>(clock, (cursor) => {
      due.push(cursor)
      if (due.length === 1) schedule.remove(cursors[1_199]!)
    })
    for (const cursor of cursors) schedule.add(cursor, 1_000)
    clock.advance(1_250)
    t.same(due, cursors.slice(0, 1_199))
    t.equal(schedule.size, 0)
    t.equal(clock.pending, 0)
    t.end()
  },
)

void t.test('a time in the past is due at once', (t) => {
  const { clock, due, schedule, cursor } = setUp()
  clock.advance(100_000)
  schedule.add(cursor(), 5)
  clock.advance(250)
  t.equal(due.length, 1)
  t.end()
})

void t.test('a schedule that was empty for a long time continues from now', (t) => {
  const { clock, due, schedule, cursor } = setUp()
  clock.advance(1e15)
  schedule.add(cursor(), 1e15 + 1_000)
  clock.advance(1_250)
  t.equal(due.length, 1)
  t.end()
})

void t.test('a removed cursor is released at once and not called', (t) => {
  const { clock, due, schedule, cursor } = setUp()
  const gone = cursor()
  const stays = cursor()
  schedule.add(gone, 3_600_000)
  schedule.add(stays, 3_600_000)
  schedule.remove(gone)
  t.equal(schedule.size, 1)
  schedule.remove(gone)
  t.equal(schedule.size, 1, 'twice does nothing')
  clock.advance(3_600_250)
  t.same(
    due.map((each) => each.cursor === stays),
    [true],
  )
  t.end()
})

void t.test('a cursor may be added again from within its call', (t) => {
  const clock = new VirtualClock()
  const { watch } = createHarness({ revision: 10 })
  const at: number[] = []
  const schedule: Schedule<Cursor> = new Schedule<Cursor>(clock, (cursor, nowMs) => {
    at.push(nowMs)
    if (at.length < 4) schedule.add(cursor, nowMs + 1_000)
  })
  schedule.add(watch().cursor, 1_000)
  clock.advance(60_000)
  t.same(at, [1_000, 2_000, 3_000, 4_000])
  t.equal(clock.pending, 0)
  t.end()
})

void t.test('a stopped schedule calls no callback', (t) => {
  const { clock, due, schedule, cursor } = setUp()
  schedule.add(cursor(), 1_000)
  schedule.stop()
  clock.advance(5_000)
  t.equal(due.length, 0)
  t.equal(clock.pending, 0)
  t.end()
})

void t.test(
  'with a clock that advances within a turn no cursor is forgotten, whatever boundary the clock passes',
  (t) => {
    const seed = testSeed(1)
    const random = seededRandom(seed)
    const clock = new VirtualClock(undefined, 0.02)
    const { watch } = createHarness({ revision: 10 })
    const dueAt = new Map<Cursor, number>()
    let latestMs = 0
    const schedule: Schedule<Cursor> = new Schedule<Cursor>(clock, (cursor, nowMs) => {
      latestMs = Math.max(latestMs, nowMs - dueAt.get(cursor)!)
      add(cursor)
    })
    const add = (cursor: Cursor): void => {
      const dueMs = clock.monotonic() + randomInteger(random, 54_000, 60_000)
      dueAt.set(cursor, dueMs)
      schedule.add(cursor, dueMs)
    }
    for (let i = 0; i < 2_000; i++) add(watch().cursor)
    clock.advance(4 * 3_600_000)

    const forgotten = [...dueAt.values()].filter((dueMs) => dueMs < clock.monotonic() - 1_000)
    t.equal(forgotten.length, 0, `seed ${seed}`)
    t.equal(schedule.size, 2_000)
    t.ok(latestMs < 600, `the latest was ${latestMs} ms late`)
    t.equal(clock.pending, 1)
    schedule.stop()
    t.end()
  },
)

void t.test('there is one timer, however many cursors are added again within a turn and left for the next', (t) => {
  const clock = new VirtualClock()
  const { watch } = createHarness({ revision: 10 })
  const schedule: Schedule<Cursor> = new Schedule<Cursor>(clock, (cursor, nowMs) => schedule.add(cursor, nowMs + 1_000))
  for (let i = 0; i < 1_200; i++) schedule.add(watch().cursor, 1_000)
  for (let seconds = 0; seconds < 10; seconds++) {
    clock.advance(1_000)
    t.equal(clock.pending, 1)
  }
  t.equal(schedule.size, 1_200)
  schedule.stop()
  t.equal(clock.pending, 0)
  t.end()
})
