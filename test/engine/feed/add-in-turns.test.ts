import t from 'tap'
import { PartsInTurns, takeLong } from '../../support/parts-in-turns.js'
import { addInTurns } from '../../../src/engine/feed/add-in-turns.js'
import type { Key, KeyValue } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'

const keyValues: readonly KeyValue[] = Array.from({ length: 300 }, (_, i) => ({
  key: `/p/${i}` as Key,
  value: Buffer.alloc(i % 7 === 0 ? 30_000 : 500),
  createRevision: 1 as Revision,
  modRevision: (i + 1) as Revision,
  version: 1,
  leaseId: '0',
}))

void t.test('everything is added, in order, and others get turns in between', async (t) => {
  const added: KeyValue[] = []
  const parts = new PartsInTurns()
  await addInTurns(keyValues, (part) => {
    added.push(...part)
    parts.part()
  })
  parts.done()
  t.same(
    added.map(({ key }) => key),
    keyValues.map(({ key }) => key),
  )
  t.ok(parts.all > 10, `${parts.all} parts`)
  t.equal(parts.mostInTurn, 1)
})

void t.test('an aborted caller adds no more', async (t) => {
  const abort = new AbortController()
  let added = 0
  const adding = addInTurns(
    keyValues,
    (part) => {
      added += part.length
      takeLong()
      abort.abort(new Error('given up'))
    },
    abort.signal,
  )
  await t.rejects(adding, { message: 'given up' })
  t.ok(added > 0 && added < keyValues.length / 2, `${added} were added`)
})
