/** What watches keep in memory, which this process shares with the server. */
import t from 'tap'
import { memoryAfterCollection } from '../../support/memory-after-collection.js'
import { encode, startEtcdApi } from '../support/harness.js'

const PADDING = 'x'.repeat(1024 * 1024)
const WATCHES = 40

void t.test('a watch does not keep the request that created it', async (t) => {
  const { ours } = await startEtcdApi(t)
  const stream = ours.stream('Watch/Watch')
  for (const range of [{ 1: '/flags/', 2: '/flags0' }, { 1: '/other/x' }]) {
    const before = memoryAfterCollection()
    const from = stream.messages.length
    for (let i = 0; i < WATCHES; i++) {
      // No field of a create has this number.
      stream.send(encode({ 1: { ...range, 99: PADDING } }))
      t.equal((await stream.message(from + i)).number(4), 0)
    }
    const kept = memoryAfterCollection() - before
    t.ok(kept < (WATCHES / 2) * PADDING.length, `${kept} bytes are kept`)
  }
})
