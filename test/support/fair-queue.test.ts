/** The order of service when several flows queue: time is shared, and nothing is lost. */
import t from 'tap'
import { FairQueue } from '../../src/support/fair-queue.js'
import { randomInteger, seededRandom } from '../../src/support/random.js'
import { testSeeds } from './test-seeds.js'

function drain(queue: FairQueue<string>, costOf: (item: string) => number, most = Infinity): string[] {
  const taken: string[] = []
  while (taken.length < most) {
    const item = queue.take()
    if (item === undefined) break
    taken.push(item)
    queue.spent(costOf(item))
  }
  return taken
}

void t.test('one flow is an ordinary queue', (t) => {
  const queue = new FairQueue<string>()
  t.equal(queue.take(), undefined)
  const items = Array.from({ length: 5_000 }, (_, i) => `a${i}`)
  for (const item of items) queue.push('a', item)
  t.equal(queue.size, 5_000)
  t.same(
    drain(queue, () => 3),
    items,
  )
  t.equal(queue.size, 0)
  t.equal(queue.take(), undefined)
  t.end()
})

void t.test('a late flow with few items does not wait behind thousands of another flow', (t) => {
  const queue = new FairQueue<string>()
  for (let i = 0; i < 5_000; i++) queue.push('many', `many ${i}`)
  drain(queue, () => 2, 10)
  queue.push('one', 'one')
  t.ok(drain(queue, () => 2, 2).includes('one'), 'at most one of the others goes first')
  t.equal(queue.size, 4_989)
  t.end()
})

void t.test('time is shared, not the number of items', (t) => {
  const queue = new FairQueue<string>()
  const cost = (item: string): number => (item === 'dear' ? 2 : 0.02)
  for (let i = 0; i < 1_000; i++) queue.push('dear', 'dear')
  for (let i = 0; i < 10_000; i++) queue.push('cheap', 'cheap')
  const taken = drain(queue, cost, 5_050)
  const dearMs = taken.filter((item) => item === 'dear').length * 2
  const cheapMs = (5_050 - dearMs / 2) * 0.02
  t.ok(Math.abs(dearMs - cheapMs) <= 5, `${dearMs} ms and ${cheapMs} ms`)
  t.end()
})

void t.test('so it is in short rounds, where one item takes many times a round', (t) => {
  const queue = new FairQueue<string>(0.1)
  for (let i = 0; i < 100; i++) queue.push('dear', 'dear')
  for (let i = 0; i < 10_000; i++) queue.push('cheap', 'cheap')
  const taken = drain(queue, (item) => (item === 'dear' ? 3 : 0.02), 3_020)
  const dearMs = taken.filter((item) => item === 'dear').length * 3
  const cheapMs = (taken.length - dearMs / 3) * 0.02
  t.ok(Math.abs(dearMs - cheapMs) <= 6, `${dearMs} ms and ${cheapMs} ms`)
  t.end()
})

void t.test('a pause of the machine during one item does not put its flow behind for long', (t) => {
  const queue = new FairQueue<string>()
  for (let i = 0; i < 100; i++) for (const flow of ['a', 'b']) queue.push(flow, flow)
  drain(queue, () => 60_000, 1)
  const taken = drain(queue, () => 0.5, 40)
  t.ok(taken.includes('a'))
  t.end()
})

void t.test('an item requeued while it is being processed keeps the place and the debt of its flow', (t) => {
  const queue = new FairQueue<string>()
  queue.push('a', 'a')
  for (let i = 0; i < 50; i++) queue.push('b', 'b')
  const taken: string[] = []
  for (let i = 0; i < 20; i++) {
    const item = queue.take()!
    taken.push(item)
    if (item === 'a') queue.push('a', 'a')
    queue.spent(item === 'a' ? 2 : 0.5)
  }
  t.ok(taken.filter((item) => item === 'a').length <= 5, taken.join(''))
  t.end()
})

void t.test('random: every item leaves once, and those of a flow in order', (t) => {
  for (const seed of testSeeds(30)) {
    const random = seededRandom(seed)
    const queue = new FairQueue<readonly [string, number]>()
    const pushed = new Map<string, number>()
    const left = new Map<string, number>()
    for (let step = 0; step < 5_000; step++) {
      if (random.next() < 0.52) {
        const key = String(randomInteger(random, 0, 40))
        const number = pushed.get(key) ?? 0
        queue.push(key, [key, number])
        pushed.set(key, number + 1)
        continue
      }
      const item = queue.take()
      if (item === undefined) continue
      const [key, number] = item
      if (number !== (left.get(key) ?? 0)) t.fail(`seed ${seed}: ${key} out of order`)
      left.set(key, number + 1)
      queue.spent(random.next() * 4)
    }
    for (let item = queue.take(); item !== undefined; item = queue.take()) {
      left.set(item[0], (left.get(item[0]) ?? 0) + 1)
      queue.spent(1)
    }
    t.same(Object.fromEntries(left), Object.fromEntries(pushed), `seed ${seed}`)
  }
  t.end()
})
