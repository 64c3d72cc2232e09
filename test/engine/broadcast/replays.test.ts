import t from 'tap'
import { Replays } from '../../../src/engine/broadcast/replays.js'
import type { Cursor } from '../../../src/engine/broadcast/cursor.js'
import type { CacheBatch } from '../../../src/engine/cache/cache-batch.js'
import { rev } from '../../support/objects.js'

const SLICE = { isOver: false }

void t.test('an encoded batch is kept no longer than its batch', (t) => {
  const history = { floorRevision: rev(0), batchAfter: () => undefined }
  const replays = new Replays(history, 1_000_000)
  const replay = () => ({ bytes: Buffer.alloc(100), events: 1 })
  const cursor = { group: { key: 'g', replay }, needsFirst: false } as unknown as Cursor
  const pieceOf = (revision: number): void =>
    void replays.pieceOf(cursor, { revision: rev(revision), events: [] } as unknown as CacheBatch, 1, SLICE as never)
  pieceOf(101)
  const one = replays.bytes
  for (let revision = 102; revision <= 110; revision++) pieceOf(revision)
  t.equal(replays.bytes, 10 * one, 'all of them are in the history')
  history.floorRevision = rev(108)
  pieceOf(111)
  t.equal(replays.bytes, 3 * one, 'those after 108')
  t.end()
})
