import t from 'tap'
import { BodyCache } from '../../../../src/server/transports/bodies/body-cache.js'
import { BodyBudget } from '../../../../src/server/transports/bodies/body-budget.js'
import type { BodyReader } from '../../../../src/server/transports/bodies/shared-body.js'
import { FairSemaphore } from '../../../../src/server/limits/fair-semaphore.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { memoryAfterCollection } from '../../../support/memory-after-collection.js'

const asker = (identity = 'ann') => ({ identity, signal: new AbortController().signal })

function setUp(slots: number, { maxBytes = 1e9, cacheBytes = 1_000_000 } = {}) {
  const most = { maxSlotsPerIdentity: slots, maxWaiting: 10, maxWaitingPerIdentity: 10, maxWaitMs: 1_000 }
  const clock = new VirtualClock()
  const semaphore = new FairSemaphore({ slots, ...most, clock, onRejected: () => {} })
  const told = { rejected: 0 }
  const budget = new BodyBudget({ maxBytes, maxWaitMs: 3_000, clock, onRejected: () => told.rejected++ })
  return { semaphore, clock, budget, told, bodies: new BodyCache({ maxBytes: cacheBytes, semaphore, budget }) }
}

/** A source that records its reads and its end. */
function source(count = 3) {
  const made = { pieces: 0, isLetGo: false }
  function* pieces(): Generator<Buffer, void, void> {
    try {
      for (; made.pieces < count;) yield Buffer.alloc(10, made.pieces++)
    } finally {
      made.isLetGo = true
    }
  }
  return { made, pieces }
}

async function readAll(body: BodyReader): Promise<number> {
  let bytes = 0
  for (let i = 0; ; i++) {
    const piece = await body.piece(i)
    if (piece === undefined) return bytes
    bytes += piece.length
  }
}

void t.test('concurrent requests share the building of a body, and later ones its result', async (t) => {
  const { bodies, semaphore } = setUp(1)
  const { made, pieces } = source()
  const uses = await Promise.all(Array.from({ length: 50 }, () => bodies.use('a', asker(), pieces)))
  t.equal(semaphore.running, 1)
  t.same(new Set(await Promise.all(uses.map(({ body }) => readAll(body)))), new Set([30]))
  t.equal(made.pieces, 3)
  for (const use of uses) {
    use.release()
    use.release()
  }
  t.equal(semaphore.running, 0)
  const later = await bodies.use('a', asker(), () => {
    throw new Error('it is there')
  })
  t.equal(await readAll(later.body), 30)
  later.release()
})

void t.test('small bodies take no more memory than they are counted for', async (t) => {
  const cacheBytes = 4 * 2 ** 20
  for (const keyLength of [50, 5_000]) {
    const { bodies } = setUp(1, { cacheBytes })
    const before = memoryAfterCollection()
    for (let i = 0; i < 20_000; i++) {
      const use = await bodies.use(`${i}`.padEnd(keyLength, 'é'), asker(), function* () {
        // What is encoded meanwhile shares memory with the body.
        Buffer.from('x'.repeat(2_000))
        yield Buffer.from('x'.repeat(100))
      })
      await readAll(use.body)
      use.release()
    }
    const taken = memoryAfterCollection() - before
    t.ok(taken < 1.5 * cacheBytes, `${(taken / cacheBytes).toFixed(1)} × the limit`)
    await bodies.use('still in use', asker(), source().pieces)
  }
})

void t.test('a body that no client needs any more is dropped halfway', async (t) => {
  const { bodies, semaphore } = setUp(1)
  const { made, pieces } = source()
  const uses = [await bodies.use('a', asker(), pieces), await bodies.use('a', asker('bob'), pieces)]
  await uses[0]!.body.piece(0)
  uses[0]!.release()
  t.notOk(made.isLetGo, 'one is left')
  uses[1]!.release()
  t.ok(made.isLetGo)
  t.equal(semaphore.running, 0)
  const again = source()
  t.equal(await readAll((await bodies.use('a', asker(), again.pieces)).body), 30, 'and rebuilt for the next')
})

void t.test('a body derived from another one needs no slot', async (t) => {
  const { bodies, semaphore, clock } = setUp(1)
  const plain = await bodies.use('a', asker(), source().pieces)
  const derived = bodies.useDerived('a gzip', source().pieces)
  t.equal(semaphore.running, 1)
  const other = bodies.use('b', asker(), source().pieces)
  clock.advance(1_000)
  await t.rejects(other, { name: 'BusyError' })
  derived.release()
  plain.release()
  t.equal(semaphore.running, 0)
})

void t.test('many requests of one identity for one body take one place in the queue', async (t) => {
  const { bodies, semaphore } = setUp(1)
  const first = await bodies.use('a', asker(), source().pieces)
  const { made, pieces } = source()
  const same = Array.from({ length: 40 }, (_, i) => bodies.use('b', asker(i < 20 ? 'ann' : 'bob'), pieces))
  t.equal(semaphore.waiting, 2, 'each identity has a place of its own')
  first.release()
  const uses = await Promise.all(same)
  t.same(new Set(await Promise.all(uses.map(({ body }) => readAll(body)))), new Set([30]))
  t.equal(made.pieces, 3)
  t.match(semaphore, { running: 1, waiting: 0 })
  for (const use of uses) use.release()
  t.equal(semaphore.running, 0)
})

void t.test('a failure reaches every request that shares the body, and none after them', async (t) => {
  const { bodies } = setUp(1)
  const uses = await Promise.all(
    [0, 1].map(() =>
      bodies.use('a', asker(), function* () {
        yield Buffer.from('x')
        throw new Error('broken')
      }),
    ),
  )
  for (const { body } of uses) await t.rejects(readAll(body), { message: 'broken' })
  for (const use of uses) use.release()
  t.equal(await readAll((await bodies.use('a', asker(), source().pieces)).body), 30)
})

void t.test('the bytes of bodies being sent are bounded, however long they are', async (t) => {
  const { bodies, budget } = setUp(8, { maxBytes: 100, cacheBytes: 50 })
  const uses = await Promise.all(['a', 'b', 'c'].map((key) => bodies.use(key, asker(), source(1_000).pieces)))
  let most = 0
  const read = async ({ body }: (typeof uses)[number]): Promise<number> => {
    let bytes = 0
    for (let i = 0; ; i++) {
      const piece = await body.piece(i)
      most = Math.max(most, budget.bytes)
      if (piece === undefined) return bytes
      bytes += piece.length
    }
  }
  t.same(await Promise.all(uses.map(read)), [10_000, 10_000, 10_000], 'each reader has everything')
  t.ok(most <= 100 + 3 * 20, `${most} bytes at the most`)
  for (const use of uses) use.release()
  t.equal(budget.bytes, 0, 'all is given back')
})

void t.test(
  'when too many bytes are being sent, a fast reader waits for the slowest, and no reader joins in the middle',
  async (t) => {
    const { bodies, budget } = setUp(8, { maxBytes: 100, cacheBytes: 50 })
    const [fast, slow] = [
      await bodies.use('a', asker(), source(60).pieces),
      await bodies.use('a', asker('bob'), source(60).pieces),
    ]
    await slow.body.piece(0)
    let isDone = false
    const reading = readAll(fast.body).finally(() => (isDone = true))
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve))
    t.notOk(isDone)
    t.ok(budget.bytes <= 10 * 18, `${budget.bytes} bytes`)
    t.same(await Promise.all([reading, readAll(slow.body)]), [600, 600])
    const other = source(5)
    fast.release()
    slow.release()
    const again = await bodies.use('a', asker(), other.pieces)
    t.equal(await readAll(again.body), 50, 'it is rebuilt')
  },
)

void t.test('while too many bytes are being sent, a new body waits, and is then rejected', async (t) => {
  const { bodies, clock, told } = setUp(8, { maxBytes: 100, cacheBytes: 50 })
  const use = await bodies.use('a', asker(), source(60).pieces)
  const slow = await bodies.use('a', asker('bob'), source(60).pieces)
  for (let i = 0; i < 10; i++) await use.body.piece(i)
  const waiting = bodies.use('b', asker('carol'), source().pieces)
  const refused = t.rejects(waiting, { code: 429 })
  clock.advance(3_000)
  await refused
  t.equal(told.rejected, 1)
  const gone = new AbortController()
  const given = bodies.use('b', { identity: 'dora', signal: gone.signal }, source().pieces)
  const givenUp = t.rejects(given)
  gone.abort()
  await givenUp
  const next = bodies.use('b', asker('carol'), source().pieces)
  use.release()
  slow.release()
  t.equal(await readAll((await next).body), 30, 'it continues as soon as there is room')
})
