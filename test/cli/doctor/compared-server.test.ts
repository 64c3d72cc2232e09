import t from 'tap'
import { ComparedServer } from '../../../src/cli/doctor/compared-server.js'
import { nodeTransport } from '../../../src/client/node/node-transport.js'
import { startApiServer } from '../../support/api-server-stand-in.js'

void t.test('after Ctrl-C nothing is written, but what was written is deleted', async (t) => {
  const behind = await startApiServer(t)
  const transport = nodeTransport({ server: behind.url })
  t.teardown(() => transport.close())
  const server = new ComparedServer(transport, 'the API server', AbortSignal.abort())
  await t.rejects(server.post('/api/v1/namespaces/default/configmaps', {}))
  t.match(await server.delete('/api/v1/namespaces/default/configmaps/x'), { status: 200 })
  t.same(
    behind.seen.map(({ method }) => method),
    ['DELETE'],
  )
})
