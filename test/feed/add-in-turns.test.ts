import t from 'tap'
import { addInTurns } from '../../src/feed/add-in-turns.js'
import type { Key, KeyValue } from '../../src/model/event.js'
import type { Revision } from '../../src/model/revision.js'

const keyValues: readonly KeyValue[] = Array.from({ length: 300 }, (_, i) => ({
  key: `/p/${i}` as Key,
  value: Buffer.alloc(i % 7 === 0 ? 30_000 : 500),
  createRevision: 1 as Revision,
  modRevision: (i + 1) as Revision,
  version: 1,
  leaseId: '0',
}))

/** Takes longer than any slice. */
function work(): void {
  for (const endMs = performance.now() + 6; performance.now() < endMs;);
}

void t.test('everything is added, in order, and others have turns in between', async (t) => {
  const added: KeyValue[] = []
  let parts = 0
  let partsInTurn = 0
  let mostInTurn = 0
  let isDone = false
  const turn = (): void => {
    partsInTurn = 0
    if (!isDone) setImmediate(turn)
  }
  turn()
  await addInTurns(keyValues, (part) => {
    added.push(...part)
    parts++
    mostInTurn = Math.max(mostInTurn, ++partsInTurn)
    work()
  })
  isDone = true
  t.same(
    added.map(({ key }) => key),
    keyValues.map(({ key }) => key),
  )
  t.ok(parts > 10, `${parts} parts`)
  t.equal(mostInTurn, 1)
})

void t.test('whoever gives up in the middle adds no more', async (t) => {
  const abort = new AbortController()
  let added = 0
  const adding = addInTurns(
    keyValues,
    (part) => {
      added += part.length
      work()
      abort.abort(new Error('given up'))
    },
    abort.signal,
  )
  await t.rejects(adding, { message: 'given up' })
  t.ok(added > 0 && added < keyValues.length / 2, `${added} were added`)
})
