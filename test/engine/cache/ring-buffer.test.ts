import t from 'tap'
import { RingBuffer, type RingBounds, type RingItem } from '../../../src/engine/cache/ring-buffer.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { rev } from '../../support/objects.js'
import { checkRing } from '../../support/check-ring.js'

const item = (revision: number, bytes = 10, receivedAtMs = 0): RingItem => ({
  revision: rev(revision),
  bytes,
  receivedAtMs,
})
const unbounded: RingBounds = { maxItems: 1_000, maxBytes: 1e9, maxAgeMs: 1e9 }

function ringOf(bounds: Partial<RingBounds>, floor: number, ...items: RingItem[]): RingBuffer<RingItem> {
  const ring = new RingBuffer<RingItem>({ ...unbounded, ...bounds }, rev(floor))
  for (const next of items) {
    ring.append(next)
    checkRing(ring)
  }
  return ring
}

const revisions = (ring: RingBuffer<RingItem>): number[] =>
  Array.from({ length: ring.length }, (_, i) => ring.at(i)!.revision)

void t.test('the oldest of too many items are evicted, and the floor is the last one evicted', (t) => {
  const cases: [name: string, count: number, held: number[], floor: number][] = [
    ['empty', 0, [], 5],
    ['one', 1, [10], 5],
    ['one short of full', 2, [10, 20], 5],
    ['full', 3, [10, 20, 30], 5],
    ['full + 1', 4, [20, 30, 40], 10],
    ['twice around', 8, [60, 70, 80], 50],
  ]
  for (const [name, count, held, floor] of cases) {
    const ring = ringOf({ maxItems: 3 }, 5, ...Array.from({ length: count }, (_, i) => item((i + 1) * 10)))
    t.same(revisions(ring), held, name)
    t.equal(ring.floorRevision, floor, `${name}: floor`)
    t.equal(ring.newest?.revision, held.at(-1), `${name}: newest`)
  }
  t.end()
})

void t.test('the first item after a revision is found at every boundary', (t) => {
  const ring = ringOf({ maxItems: 3 }, 5, item(10), item(20), item(30), item(40))
  const cases: [revision: number, upTo: number | undefined, after: number | undefined][] = [
    [0, undefined, 20],
    [19, undefined, 20],
    [20, 20, 30],
    [39, 30, 40],
    [40, 40, undefined],
    [41, 40, undefined],
  ]
  for (const [revision, upTo, after] of cases) {
    t.equal(ring.upTo(rev(revision))?.revision, upTo, `up to ${revision}`)
    t.equal(ring.after(rev(revision))?.revision, after, `after ${revision}`)
  }
  t.equal(ringOf({}, 5).after(rev(5)), undefined, 'in an empty ring')
  t.end()
})

void t.test('bytes are limited, but the newest item stays however large it is', (t) => {
  const ring = ringOf({ maxBytes: 30 }, 0, item(1, 10), item(2, 10), item(3, 10))
  t.same(revisions(ring), [1, 2, 3], 'exactly full')
  ring.append(item(4, 1))
  checkRing(ring)
  t.same(revisions(ring), [2, 3, 4], 'one byte more')
  ring.append(item(5, 1_000))
  checkRing(ring)
  t.same(revisions(ring), [5])
  t.equal(ring.floorRevision, 4)
  t.end()
})

void t.test('age is limited at each append and whenever the timer fires', (t) => {
  const ring = ringOf({ maxAgeMs: 100 }, 0, item(1, 1, 0), item(2, 1, 50), item(3, 1, 100))
  t.same(revisions(ring), [1, 2, 3], 'exactly that old')
  ring.append(item(4, 1, 101))
  checkRing(ring)
  t.same(revisions(ring), [2, 3, 4])
  ring.evictOlderThan(101)
  checkRing(ring)
  t.same(revisions(ring), [4])
  ring.evictOlderThan(102)
  checkRing(ring)
  t.equal(ring.length, 0)
  t.equal(ring.floorRevision, 4, 'an empty ring remembers what it has let go')
  t.end()
})

void t.test('history is kept for its minimum time whatever the count, within the byte limit', (t) => {
  const bounds = { maxItems: 2, keepAgeMs: 75, maxBytes: 60, maxAgeMs: 1_000 }
  const ring = ringOf(bounds, 0, item(1, 10, 0), item(2, 10, 10), item(3, 10, 20), item(4, 10, 74))
  t.same(revisions(ring), [1, 2, 3, 4], 'young enough')
  ring.append(item(5, 10, 90))
  t.same(revisions(ring), [3, 4, 5], 'two have had their time')
  t.equal(ring.cutShort, 0)
  ring.append(item(6, 50, 91))
  t.same(revisions(ring), [5, 6], 'bytes win')
  t.equal(ring.cutShort, 2, 'and it is counted what they took')
  ring.append(item(7, 1, 900))
  ring.append(item(8, 1, 900))
  t.same(revisions(ring), [7, 8], 'what is old goes when there are enough')
  t.end()
})

void t.test('all of the memory can be freed', (t) => {
  const ring = ringOf({}, 0, item(1, 10), item(2, 10), item(3, 10))
  ring.shrinkTo(20)
  checkRing(ring)
  t.same(revisions(ring), [2, 3])
  ring.shrinkTo(0)
  checkRing(ring)
  t.equal(ring.length, 0)
  t.equal(ring.floorRevision, 3)
  ring.append(item(4))
  t.same(revisions(ring), [4], 'and history begins again')
  t.end()
})

void t.test('a revision that does not ascend is rejected: it would repeat the past', (t) => {
  const ring = ringOf({}, 5)
  t.throws(() => ring.append(item(5)), RangeError, 'at the floor')
  ring.append(item(6))
  t.throws(() => ring.append(item(6)), RangeError, 'the same')
  t.throws(() => ring.append(item(4)), RangeError, 'older')
  checkRing(ring)
  t.same(revisions(ring), [6])
  t.end()
})

void t.test('a reset forgets everything and may go back', (t) => {
  const ring = ringOf({}, 5, item(10), item(11))
  ring.reset(rev(3))
  checkRing(ring)
  t.equal(ring.length, 0)
  t.equal(ring.floorRevision, 3)
  ring.append(item(4))
  checkRing(ring)
  t.same(revisions(ring), [4])
  t.end()
})

void t.test('the history reaches back to the reset, or to the last eviction, also when it is empty', (t) => {
  const ring = ringOf({ maxAgeMs: 1_000 }, 5)
  t.equal(ring.floorAtMs, null)
  ring.reset(rev(7), 50)
  t.equal(ring.floorAtMs, 50)
  ring.append(item(8, 10, 60))
  ring.prepend([item(4, 10, 60)], rev(3))
  t.equal(ring.floorAtMs, 50, 'when older items happened is not known')
  ring.append(item(9, 10, 70))
  ring.evictOlderThan(65)
  t.equal(ring.floorAtMs, 60)
  ring.shrinkTo(0)
  t.equal(ring.floorAtMs, 70)
  t.end()
})

void t.test('the ring grows with its content and keeps the order across the wrap-around', (t) => {
  const ring = ringOf({ maxItems: 500 }, 0)
  for (let i = 1; i <= 1_200; i++) {
    ring.append(item(i))
    // The head is somewhere in the middle when the slots double.
    if (i === 60) ring.shrinkTo(300)
  }
  checkRing(ring)
  t.equal(ring.at(0)!.revision, 701)
  t.equal(ring.newest!.revision, 1_200)
  t.end()
})

void t.test('after any sequence of operations the ring holds the newest items', (t) => {
  const random = seededRandom(7)
  for (let round = 0; round < 20; round++) {
    const bounds = { maxItems: randomInteger(random, 1, 100), maxBytes: randomInteger(random, 1, 2_000), maxAgeMs: 50 }
    const ring = ringOf(bounds, 0)
    const all: number[] = []
    for (let i = 0, revision = 0; i < 300; i++) {
      revision += randomInteger(random, 1, 3)
      all.push(revision)
      ring.append(item(revision, randomInteger(random, 1, 100), i))
      if (random.next() < 0.05) ring.shrinkTo(randomInteger(random, 0, 500))
      if (random.next() < 0.05) ring.evictOlderThan(i - 10)
      checkRing(ring)
      const held = revisions(ring)
      if (held.join() !== all.slice(all.length - held.length).join()) t.fail(`round ${round}, step ${i}`)
      const gone = all[all.length - held.length - 1] ?? 0
      if (ring.floorRevision !== gone) t.fail(`round ${round}, step ${i}: floor ${ring.floorRevision}, not ${gone}`)
    }
  }
  t.pass('20 rounds of 300')
  t.end()
})

void t.test('new limits apply at once, and the floor follows', (t) => {
  const full = (): RingBuffer<RingItem> =>
    ringOf({}, 5, ...[10, 20, 30, 40].map((revision) => item(revision, 10, revision)))
  const cases: [name: string, bounds: Partial<RingBounds>, held: number[], floor: number][] = [
    ['all fit', { maxBytes: 40 }, [10, 20, 30, 40], 5],
    ['fewer bytes', { maxBytes: 39 }, [20, 30, 40], 10],
    ['the newest alone may be larger', { maxBytes: 1 }, [40], 30],
    ['fewer items', { maxItems: 2 }, [30, 40], 20],
    ['fewer items, which are kept for their time', { maxItems: 2, keepAgeMs: 35 }, [20, 30, 40], 10],
    ['a lower age', { maxAgeMs: 20 }, [30, 40], 20],
  ]
  for (const [name, bounds, held, floor] of cases) {
    const ring = full()
    ring.setBounds({ ...unbounded, ...bounds }, 50)
    checkRing(ring)
    t.same(revisions(ring), held, name)
    t.equal(ring.floorRevision, floor, `${name}: floor`)
  }
  const ring = ringOf({ maxItems: 2 }, 5, item(10), item(20))
  ring.setBounds({ ...unbounded, maxItems: 3 }, 0)
  for (const revision of [30, 40]) ring.append(item(revision))
  t.same(revisions(ring), [20, 30, 40], 'higher bounds keep more')
  t.end()
})

void t.test('older items go before the oldest, the newest of them first', (t) => {
  const older = Array.from({ length: 100 }, (_, i) => item(i + 6, 10))
  const cases: [name: string, maxBytes: number, held: number, floor: number][] = [
    ['all fit', 1_020, 102, 5],
    ['one too many', 1_019, 101, 6],
    ['none fits', 29, 2, 105],
  ]
  for (const [name, maxBytes, held, floor] of cases) {
    const ring = ringOf({ maxBytes }, 110, item(120, 10), item(130, 10))
    ring.prepend(older, rev(5))
    checkRing(ring)
    t.equal(ring.length, held, name)
    t.equal(ring.floorRevision, floor, `${name}: floor`)
    t.equal(ring.after(ring.floorRevision), held === 2 ? ring.at(0) : older[floor - 5])
  }
  const empty = ringOf({}, 110)
  empty.prepend([], rev(5))
  t.equal(empty.floorRevision, 5, 'without items')
  empty.append(item(111))
  t.same(revisions(empty), [111])
  t.end()
})
