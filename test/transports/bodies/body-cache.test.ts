import t from 'tap'
import { BodyCache } from '../../../src/transports/bodies/body-cache.js'
import type { SharedBody } from '../../../src/transports/bodies/shared-body.js'
import { FairGate } from '../../../src/auth/fair-gate.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const asker = (identity = 'ann') => ({ identity, signal: new AbortController().signal })

function setUp(slots: number) {
  const most = { maxSlotsPerIdentity: slots, maxWaiting: 10, maxWaitingPerIdentity: 10, maxWaitMs: 1_000 }
  const clock = new VirtualClock()
  const gate = new FairGate({ slots, ...most, clock, onRejected: () => {} })
  return { gate, clock, bodies: new BodyCache({ maxBytes: 1_000_000, gate }) }
}

/** A source that notes when it is read and when it is ended. */
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

async function readAll(body: SharedBody): Promise<number> {
  let bytes = 0
  for (let i = 0; ; i++) {
    const piece = await body.piece(i)
    if (piece === undefined) return bytes
    bytes += piece.length
  }
}

void t.test('requests that come at once share the making of a body, and later ones its result', async (t) => {
  const { bodies, gate } = setUp(1)
  const { made, pieces } = source()
  const uses = await Promise.all(Array.from({ length: 50 }, () => bodies.use('a', asker(), pieces)))
  t.equal(gate.running, 1)
  t.same(new Set(await Promise.all(uses.map(({ body }) => readAll(body)))), new Set([30]))
  t.equal(made.pieces, 3)
  for (const use of uses) {
    use.release()
    use.release()
  }
  t.equal(gate.running, 0)
  const later = await bodies.use('a', asker(), () => {
    throw new Error('it is there')
  })
  t.equal(await readAll(later.body), 30)
  later.release()
})

void t.test('a body that nobody wants any more is dropped halfway', async (t) => {
  const { bodies, gate } = setUp(1)
  const { made, pieces } = source()
  const uses = [await bodies.use('a', asker(), pieces), await bodies.use('a', asker('bob'), pieces)]
  await uses[0]!.body.piece(0)
  uses[0]!.release()
  t.notOk(made.isLetGo, 'one is left')
  uses[1]!.release()
  t.ok(made.isLetGo)
  t.equal(gate.running, 0)
  const again = source()
  t.equal(await readAll((await bodies.use('a', asker(), again.pieces)).body), 30, 'and made anew for the next')
})

void t.test('a body made from another one needs no slot of its own', async (t) => {
  const { bodies, gate, clock } = setUp(1)
  const plain = await bodies.use('a', asker(), source().pieces)
  const derived = bodies.useDerived('a gzip', source().pieces)
  t.equal(gate.running, 1)
  const other = bodies.use('b', asker(), source().pieces)
  clock.advance(1_000)
  await t.rejects(other, { code: 429 })
  derived.release()
  plain.release()
  t.equal(gate.running, 0)
})

void t.test('many requests of one identity for one body take one place in the queue', async (t) => {
  const { bodies, gate } = setUp(1)
  const first = await bodies.use('a', asker(), source().pieces)
  const { made, pieces } = source()
  const same = Array.from({ length: 40 }, (_, i) => bodies.use('b', asker(i < 20 ? 'ann' : 'bob'), pieces))
  t.equal(gate.waiting, 2, 'each identity has a place of its own')
  first.release()
  const uses = await Promise.all(same)
  t.same(new Set(await Promise.all(uses.map(({ body }) => readAll(body)))), new Set([30]))
  t.equal(made.pieces, 3)
  t.match(gate, { running: 1, waiting: 0 })
  for (const use of uses) use.release()
  t.equal(gate.running, 0)
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
