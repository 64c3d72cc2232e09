import t from 'tap'
import { BodyCache } from '../../src/transports/body-cache.js'
import type { SharedBody } from '../../src/transports/shared-body.js'
import { Slots } from '../../src/transports/slots.js'
import { TooManyRequestsError } from '../../src/model/status.js'

function setUp(slotCount: number) {
  const slots = new Slots(slotCount, 'lists', () => {})
  return { slots, bodies: new BodyCache({ maxBytes: 1_000_000, slots }) }
}

/** Notes when it is made and when it is let go. */
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

void t.test('those who ask at once share one making, and those who come later its result', async (t) => {
  const { bodies, slots } = setUp(1)
  const { made, pieces } = source()
  const uses = Array.from({ length: 50 }, () => bodies.use('a', pieces))
  t.equal(slots.taken, 1)
  t.same(new Set(await Promise.all(uses.map(({ body }) => readAll(body)))), new Set([30]))
  t.equal(made.pieces, 3)
  for (const use of uses) {
    use.release()
    use.release()
  }
  t.equal(slots.taken, 0)
  const later = bodies.use('a', () => {
    throw new Error('it is there')
  })
  t.equal(await readAll(later.body), 30)
  later.release()
})

void t.test('what nobody wants any more is let go in the middle', async (t) => {
  const { bodies, slots } = setUp(1)
  const { made, pieces } = source()
  const uses = [bodies.use('a', pieces), bodies.use('a', pieces)]
  await uses[0]!.body.piece(0)
  uses[0]!.release()
  t.notOk(made.isLetGo, 'one is left')
  uses[1]!.release()
  t.ok(made.isLetGo)
  t.equal(slots.taken, 0)
  const again = source()
  t.equal(await readAll(bodies.use('a', again.pieces).body), 30, 'and made anew for the next')
})

void t.test('what is made of another body needs no slot of its own', (t) => {
  const { bodies, slots } = setUp(1)
  const plain = bodies.use('a', source().pieces)
  const derived = bodies.useDerived('a gzip', source().pieces)
  t.equal(slots.taken, 1)
  t.throws(() => bodies.use('b', source().pieces), TooManyRequestsError)
  derived.release()
  plain.release()
  t.equal(slots.taken, 0)
  t.end()
})

void t.test('a failure is told to everybody who shares it, and to nobody after them', async (t) => {
  const { bodies } = setUp(1)
  const uses = [0, 1].map(() =>
    bodies.use('a', function* () {
      yield Buffer.from('x')
      throw new Error('broken')
    }),
  )
  for (const { body } of uses) await t.rejects(readAll(body), { message: 'broken' })
  for (const use of uses) use.release()
  t.equal(await readAll(bodies.use('a', source().pieces).body), 30)
})
