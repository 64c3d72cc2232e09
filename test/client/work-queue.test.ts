import t from 'tap'
import { itemExponentialFailureRateLimiter, bucketRateLimiter } from '../../src/client/rate-limiter.js'
import { WorkQueue } from '../../src/client/work-queue.js'
import { nextTurn, VirtualClock } from '../support/virtual-clock.js'

void t.test('a waiting key is not added twice, and a key being worked on waits again', async (t) => {
  const queue = new WorkQueue({ clock: new VirtualClock() })
  for (const key of ['a', 'b', 'a']) queue.add(key)
  t.equal(queue.length, 2)
  t.equal(await queue.take(), 'a')
  queue.add('a')
  queue.add('a')
  t.equal(await queue.take(), 'b')
  t.equal(queue.length, 0, 'never by two workers at once')
  queue.done('a')
  t.equal(await queue.take(), 'a')
  queue.done('a')
  t.equal(queue.length, 0)
})

void t.test('failures wait longer each time, and a success resets that', async (t) => {
  const clock = new VirtualClock()
  const queue = new WorkQueue({ clock, rateLimiter: itemExponentialFailureRateLimiter({ firstMs: 10, capMs: 35 }) })
  const at: number[] = []
  const running = queue.run((key) => {
    at.push(clock.monotonic())
    if (at.length !== 5) throw new Error(key)
  })
  queue.add('a')
  await nextTurn()
  await clock.advanceInTurns(200, 1)
  // The waits are 0, 10, 20, 35 (the cap) and 35; then the key succeeds.
  t.same(at, [0, 10, 30, 65, 100])
  queue.addRateLimited('a')
  await clock.advanceInTurns(30, 1)
  t.same(at.slice(5, 7), [210, 230], 'the shortest wait again')
  queue.end()
  await running
})

void t.test('the shortest of several delays of one key counts', async (t) => {
  const clock = new VirtualClock()
  const queue = new WorkQueue({ clock })
  queue.addAfter('a', 50)
  queue.addAfter('a', 20)
  queue.addAfter('a', 90)
  clock.advance(19)
  t.equal(queue.length, 0)
  clock.advance(100)
  t.equal(queue.length, 1)
  t.equal(clock.pending, 0)
})

void t.test('no more keys than allowed are worked on at once', async (t) => {
  const clock = new VirtualClock()
  const queue = new WorkQueue({ clock })
  const abort = new AbortController()
  let now = 0
  let most = 0
  let count = 0
  const work = async (): Promise<void> => {
    most = Math.max(most, ++now)
    await nextTurn()
    now--
    if (++count === 20) abort.abort()
  }
  for (let i = 0; i < 20; i++) queue.add(String(i))
  await queue.run(work, { concurrency: 3, signal: abort.signal })
  t.equal(most, 3)
  t.equal(count, 20)
})

void t.test('all keys together keep within the rate', async (t) => {
  const clock = new VirtualClock()
  const limiter = bucketRateLimiter({ perSecond: 10, burst: 2, clock })
  t.same([limiter.delayMs('a'), limiter.delayMs('b'), limiter.delayMs('c'), limiter.delayMs('d')], [0, 0, 100, 200])
  clock.advance(1_000)
  t.equal(limiter.delayMs('e'), 0)
})

void t.test('keys waiting when the queue ends are still returned, and then none', async (t) => {
  const queue = new WorkQueue({ clock: new VirtualClock() })
  queue.add('a')
  queue.end()
  queue.add('b')
  const seen: string[] = []
  for await (const key of queue) seen.push(key)
  t.same(seen, ['a'])
})

void t.test('a key that was added again before the end, while it was worked on, is still returned', async (t) => {
  const queue = new WorkQueue({ clock: new VirtualClock() })
  queue.add('a')
  t.equal(await queue.take(), 'a')
  queue.add('a')
  queue.end()
  queue.done('a')
  t.equal(await queue.take(), 'a')
  queue.done('a')
  t.equal(await queue.take(), null)
})
