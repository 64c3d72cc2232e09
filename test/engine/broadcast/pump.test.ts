/** The order and the slices of passes; the cursors decide what is written. */
import t from 'tap'
import { Cursor } from '../../../src/engine/broadcast/cursor.js'
import { FactRegistry } from '../../../src/engine/broadcast/fact-registry.js'
import { Group } from '../../../src/engine/broadcast/group.js'
import { Matcher } from '../../../src/engine/broadcast/matcher.js'
import { type Advance, Pump } from '../../../src/engine/broadcast/pump.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { Store } from '../../../src/engine/cache/store.js'
import type { Key } from '../../../src/engine/model/event.js'
import { EVERYTHING } from '../../support/parse-selector.js'
import { factSource } from '../../support/fact-source.js'
import { lineWire, plainEncoder, rev } from '../../support/objects.js'
import { nextTurn } from '../../support/virtual-clock.js'
import { TestOutput } from './harness.js'
import { testSeeds } from '../../support/test-seeds.js'

function groupOf(size: number, identity = 'ann'): { group: Group<Cursor>; cursors: Cursor[] } {
  const matcher = new Matcher('', EVERYTHING, new FactRegistry(factSource()), 'v1')
  const group = new Group<Cursor>('1', matcher, plainEncoder, lineWire, rev(1), { bytes: 0 })
  const cursors = Array.from({ length: size }, () => addCursor(group))
  for (let i = 0; i < size; i++) group.enter(identity)
  return { group, cursors }
}

const EMPTY = new Store().snapshot(rev(1), 0)
const owner = { headRevision: rev(2), floorRevision: rev(1), wake: () => {}, finish: () => {}, count: () => {} }

/** Records the visits of a pass, and writes nothing by itself. */
class VisitedCursor extends Cursor {
  static onVisit: (cursor: VisitedCursor) => void = () => {}

  override writeLog(): void {
    VisitedCursor.onVisit(this)
  }

  writeAll(): void {
    super.writeLog()
  }
}

function initialCursors(group: Group<Cursor>, size: number): Cursor[] {
  return Array.from({ length: size }, () => {
    const cursor = newCursor(group)
    cursor.beginInitial(group.initialFrames(EMPTY, '' as Key, null, 0), false, 0)
    return cursor
  })
}

function addCursor(group: Group<Cursor>): Cursor {
  const cursor = newCursor(group)
  cursor.lag()
  cursor.join()
  return cursor
}

function newCursor(group: Group<Cursor>): VisitedCursor {
  const callbacks = {
    identity: 'ann',
    bookmarks: false,
    deadlineMs: 1e9,
    onInitialComplete: () => {},
    onEnd: () => {},
  }
  return new VisitedCursor(owner, group, new TestOutput(), callbacks, rev(1))
}

/** An `Advance` that records all visits from now on and takes `costMs` of real time for each. */
function recorder(costMs = 0, onVisit: (cursor: VisitedCursor) => void = () => {}) {
  const visits: Cursor[] = []
  const turns: Cursor[] = []
  let passes = 0
  const spend = (): void => {
    for (const end = performance.now() + costMs; performance.now() < end;);
  }
  VisitedCursor.onVisit = (cursor) => {
    visits.push(cursor)
    onVisit(cursor)
    spend()
  }
  const advance: Advance = {
    advance(cursor) {
      turns.push(cursor)
      spend()
      return false
    },
    passed: () => passes++,
  }
  return {
    visits,
    turns,
    advance,
    get passes() {
      return passes
    },
  }
}

const settle = async (pump: Pump): Promise<void> => {
  do await nextTurn()
  while (pump.depth > 0)
}

void t.test('a pass visits every cursor once, and none is last in two consecutive passes', async (t) => {
  const pump = new Pump({ metrics: { slice: () => {} } })
  const { group, cursors } = groupOf(10)
  const seen = recorder()
  const orders: number[][] = []
  for (let pass = 0; pass < 4; pass++) {
    pump.enqueueGroup(group, seen.advance)
    await settle(pump)
    orders.push(seen.visits.splice(0).map((cursor) => cursors.indexOf(cursor)))
  }
  for (const order of orders)
    t.same(
      order.toSorted((a, b) => a - b),
      cursors.map((_, i) => i),
    )
  for (let pass = 1; pass < orders.length; pass++) t.not(orders[pass]!.at(-1), orders[pass - 1]!.at(-1))
  const places = cursors.map((_, i) => orders.slice(0, 2).reduce((sum, order) => sum + order.indexOf(i), 0))
  t.equal(new Set(places).size, 1, 'over two passes all wait equally long')
  t.equal(seen.passes, 4)
})

void t.test('a long pass yields to the event loop and continues where it stopped', async (t) => {
  const slices: number[] = []
  const pump = new Pump({ sliceMs: 2, metrics: { slice: (seconds) => slices.push(seconds) } })
  const { group, cursors } = groupOf(200)
  const seen = recorder(0.1)
  pump.enqueueGroup(group, seen.advance)
  let turns = 0
  for (; pump.depth > 0; turns++) await new Promise((resolve) => setImmediate(resolve))
  t.ok(turns > 3, `${turns} turns`)
  t.equal(slices.length >= turns - 1, true)
  t.same(seen.visits, cursors, 'each once, in order')
  t.equal(seen.passes, 1)
})

void t.test('while cursors join or leave during a pass, no other is missed or visited twice', async (t) => {
  for (const seed of testSeeds(60)) {
    const random = seededRandom(seed)
    const pump = new Pump({ metrics: { slice: () => {} } })
    const { group, cursors } = groupOf(randomInteger(random, 1, 40))
    if (random.next() < 0.5) {
      // The other direction.
      pump.enqueueGroup(group, recorder().advance)
      await settle(pump)
    }
    const gone = new Set<Cursor>()
    const seen = recorder(0, (visited) => {
      for (let i = randomInteger(random, 0, 2); i > 0 && group.members.active.length > 0; i--) {
        const leaver =
          random.next() < 0.3
            ? visited
            : group.members.active[randomInteger(random, 0, group.members.active.length - 1)]!
        if (gone.has(leaver)) continue
        group.members.removeActive(leaver)
        gone.add(leaver)
      }
      if (random.next() < 0.2) addCursor(group)
    })
    pump.enqueueGroup(group, seen.advance)
    await settle(pump)
    const visited = new Set(seen.visits)
    if (visited.size !== seen.visits.length) t.fail(`seed ${seed}: somebody twice`)
    for (const cursor of cursors)
      if (!visited.has(cursor) && !gone.has(cursor)) t.fail(`seed ${seed}: somebody not at all`)
    for (const cursor of gone)
      if (group.members.active.includes(cursor)) t.fail(`seed ${seed}: somebody is still there`)
    for (let rest = group.members.active.length; rest > 0; rest--) group.members.removeActive(group.members.active[0]!)
    t.equal(group.members.active.length, 0, `seed ${seed}: all others can leave`)
  }
  t.pass('60 seeds')
})

void t.test('events during a pass cause one further pass', async (t) => {
  const pump = new Pump({ metrics: { slice: () => {} } })
  const { group, cursors } = groupOf(5)
  const grow = (): void => group.log.append(rev(2), [Buffer.alloc(10)], 10, 1)
  let isFirst = true
  const seen = recorder(0, (cursor) => {
    cursor.writeAll()
    if (isFirst && cursor === cursors[2]) {
      isFirst = false
      grow()
      pump.enqueueGroup(group, seen.advance)
      pump.enqueueGroup(group, seen.advance)
    }
  })
  pump.enqueueGroup(group, seen.advance)
  await settle(pump)
  t.equal(seen.visits.length, 10)
  t.equal(seen.passes, 2)
})

void t.test('a blocked cursor does not keep the pump busy', async (t) => {
  const pump = new Pump({ metrics: { slice: () => {} } })
  const { group, cursors } = groupOf(3)
  group.log.append(rev(2), [Buffer.alloc(10)], 10, 1)
  const full = cursors[1]!.output as TestOutput
  full.isFull = true
  cursors[1]!.write({ bytes: Buffer.alloc(1), checksum: null })
  const seen = recorder(0, (cursor) => cursor.writeAll())
  pump.enqueueGroup(group, seen.advance)
  await settle(pump)
  t.equal(seen.passes, 1)
  t.equal(pump.depth, 0)
})

void t.test('a storm of replays and live events take turns', async (t) => {
  const pump = new Pump({ sliceMs: 2, metrics: { slice: () => {} } })
  const { group } = groupOf(100)
  const { cursors: storm } = groupOf(100)
  const order: string[] = []
  const spend = (what: string): void => {
    if (order.at(-1) !== what) order.push(what)
    for (const end = performance.now() + 0.1; performance.now() < end;);
  }
  const left = new Map(storm.map((cursor) => [cursor, 3]))
  VisitedCursor.onVisit = () => spend('live')
  const advance: Advance = {
    advance: (cursor) => {
      spend('replay')
      left.set(cursor, left.get(cursor)! - 1)
      return left.get(cursor)! > 0
    },
    passed: () => {},
  }
  for (const cursor of storm) pump.enqueueCursor(cursor, advance)
  pump.enqueueGroup(group, advance)
  await settle(pump)
  t.ok(order.length > 4, order.join(' '))
  t.same(
    [...left.values()].filter((turns) => turns !== 0),
    [],
    'everybody had all turns',
  )
})

for (const [what, isInitial, expected] of [
  ['replays alone leaves half the slice', false, [2, 2, 2, 2, 2]],
  ['initial states leaves three quarters of the slice', true, Array<number>(10).fill(1)],
] as const) {
  void t.test(`a storm of ${what} to others`, async (t) => {
    let nowMs = 0
    const slices: number[] = []
    const pump = new Pump({
      sliceMs: 4,
      now: () => nowMs,
      metrics: { slice: (seconds) => slices.push(Math.round(seconds * 1000)) },
    })
    const { group, cursors } = groupOf(10)
    const advance: Advance = {
      advance: () => {
        nowMs++
        return false
      },
      passed: () => {},
    }
    for (const cursor of isInitial ? initialCursors(group, 10) : cursors) pump.enqueueCursor(cursor, advance)
    await settle(pump)
    t.same(slices, expected)
  })
}

void t.test('a cursor is in the queue once, and turns go around', async (t) => {
  const pump = new Pump({ metrics: { slice: () => {} } })
  const { cursors } = groupOf(3)
  const turns: number[] = []
  const advance: Advance = {
    advance: (cursor) => turns.push(cursors.indexOf(cursor)) < 7,
    passed: () => {},
  }
  for (const cursor of [...cursors, ...cursors]) pump.enqueueCursor(cursor, advance)
  t.equal(pump.depth, 3)
  await settle(pump)
  t.same(turns.slice(0, 6), [0, 1, 2, 0, 1, 2])
})

void t.test('ten thousand groups of one are sliced and none is forgotten', async (t) => {
  const slices: number[] = []
  const pump = new Pump({ metrics: { slice: (seconds) => slices.push(seconds) } })
  const seen = recorder(0.002)
  for (let i = 0; i < 10_000; i++) pump.enqueueGroup(groupOf(1).group, seen.advance)
  await settle(pump)
  t.equal(seen.visits.length, 10_000)
  t.equal(seen.passes, 10_000)
  t.ok(slices.length > 3, `${slices.length} slices`)
})

void t.test('thousands of watches of one caller wait behind the few of others, not ahead of them', async (t) => {
  const pump = new Pump({ metrics: { slice: () => {} } })
  const seen = recorder(0.002)
  const many = Array.from({ length: 3_000 }, () => groupOf(1))
  const others = {
    'of another caller': groupOf(1, 'eve'),
    'with more watchers': groupOf(10),
    'with watchers of several callers': groupOf(1),
  }
  others['with watchers of several callers'].group.enter('eve')
  const groups = [...many, ...Object.values(others)]
  for (const { group, cursors } of groups) {
    pump.enqueueGroup(group, seen.advance)
    for (const cursor of cursors) pump.enqueueCursor(cursor, seen.advance)
  }
  await settle(pump)
  for (const order of [seen.visits, seen.turns]) {
    t.equal(order.length, 3_012, 'each once')
    for (const [name, { cursors }] of Object.entries(others)) {
      t.ok(order.indexOf(cursors.at(-1)!) < order.indexOf(many.at(-1)!.cursors[0]!), name)
    }
  }
})

void t.test('a stopped pump writes no more', async (t) => {
  const pump = new Pump({ metrics: { slice: () => {} } })
  const seen = recorder()
  pump.enqueueGroup(groupOf(1).group, seen.advance)
  pump.stop()
  await nextTurn()
  t.equal(seen.visits.length, 0)
})
