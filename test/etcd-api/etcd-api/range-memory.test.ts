/** What large responses keep in memory, which this process shares with the server. */
import { connect } from 'node:http2'
import t from 'tap'
import { memoryAfterCollection } from '../../support/memory-after-collection.js'
import { encode, startEtcdApi } from '../support/harness.js'

const KEYS = 20_000
const CLIENTS = 30

void t.test('large ranges whose clients do not read them take little memory', async (t) => {
  const { app } = await startEtcdApi(t, {
    flags: ['--max-initial-states=100'],
    prepare: async (etcd) => {
      const puts = Array.from({ length: KEYS }, (_, i) => ({ 2: { 1: `/flags/${i}`, 2: 'x' } }))
      for (let i = 0; i < KEYS; i += 100) await etcd.call('KV/Txn', encode({ 2: puts.slice(i, i + 100) }))
    },
  })
  const session = connect(app.url)
  t.teardown(() => session.destroy())
  const request = encode({ 1: '/flags/', 2: '/flags0', 7: true })
  const before = memoryAfterCollection()
  for (let i = 0; i < CLIENTS; i++) {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/etcdserverpb.KV/Range',
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    stream.on('error', () => {})
    stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, request.length]), request]))
    await new Promise((resolve) => stream.once('response', resolve))
  }
  const kept = memoryAfterCollection() - before
  t.ok(kept < CLIENTS * KEYS * 100, `${kept} bytes are kept`)
})
