/** What watches keep in memory, which this process shares with the server. */
import t from 'tap'
import { until } from '../../support/until.js'
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

void t.test('a client that does not read old events takes little memory', async (t) => {
  const writes = 60
  const clients = 6
  const { ours } = await startEtcdApi(t, {
    flags: ['--backfill-revisions=0'],
    prepare: async (etcd) => {
      for (let i = 0; i < writes; i++) await etcd.put('/flags/a', Buffer.alloc(200_000, i))
    },
  })
  const before = memoryAfterCollection()
  const streams = Array.from({ length: clients }, () => ours.stream('Watch/Watch'))
  // Each has its own id and its own first event, so that they have no messages in common.
  for (const [i, stream] of streams.entries()) {
    stream.send(encode({ 1: { 1: '/flags/', 2: '/flags0', 3: 2 + i, 7: i + 1 } }))
    await stream.message(0)
    stream.pause()
  }
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  const kept = memoryAfterCollection() - before
  t.ok(kept < clients * 6 * 1024 * 1024, `${kept} bytes are kept`)
  for (const stream of streams) stream.resume()
  for (const [i, stream] of streams.entries()) {
    const isDone = (): boolean => stream.messages.at(-1)?.messages(11).at(-1)?.message(2).number(3) === writes + 1
    await until(isDone, `client ${i} has the last event`, 60_000)
    t.equal(stream.messages.flatMap((message) => message.messages(11)).length, writes - i)
  }
})
