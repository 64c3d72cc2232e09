/** Forwarded responses give their slots back, even if their clients do not read them. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { Exchange } from '../../../../src/server/transports/exchange/exchange.js'
import { Passthrough } from '../../../../src/server/transports/passthrough/passthrough.js'
import { systemClock } from '../../../../src/support/clock.js'
import { startApiServer } from '../../../support/api-server-stand-in.js'
import { until } from '../../../support/until.js'

void t.test('an answered client that never reads its response loses it, and its slots are free', async (t) => {
  const behind = await startApiServer(t)
  let held = 0
  const slots = {
    acquire: async () => {
      held++
      return () => void held--
    },
  }
  const passthrough = new Passthrough({
    url: behind.url,
    name: 'the API server',
    credentials: { value: {}, onChange: () => () => {}, close: () => {} },
    semaphores: { passthrough: slots, 'passthrough-per-client': slots },
    responseTimeoutMs: 10_000,
    clock: systemClock,
  })
  t.teardown(() => passthrough.close())
  const caller = { identity: 'ann', user: null, isAnonymous: false, byToken: false, address: '127.0.0.1' }
  const server = http2.createServer((request, response) => {
    const exchange = new Exchange(request as never, response as unknown as ServerResponse, () => 20)
    void passthrough.pass(exchange, caller)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const session = http2.connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } })
  t.teardown(() => {
    session.destroy()
    server.close()
  })
  const unread = session.request({ ':path': '/api/v1/secrets' })
  unread.on('error', () => {})
  await once(unread, 'response')
  t.equal(held, 2)
  await once(unread, 'close')
  t.equal(unread.rstCode, http2.constants.NGHTTP2_CANCEL)
  await until(() => held === 0, 'the slots are free')
})
