/** Headers of a handshake that no real client sends; `websocket.test.ts` tests the rest with one. */
import t from 'tap'
import type { Exchange } from '../../../../src/server/transports/exchange/exchange.js'
import { checkHandshake } from '../../../../src/server/transports/websocket/upgrade.js'

void t.test('subprotocols are read in linear time', async (t) => {
  const request = { method: 'GET' } as Exchange['request']
  const check = (protocols: string): void => {
    const key = { 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==', 'sec-websocket-version': '13' }
    checkHandshake({ request, requestHeaders: { ...key, 'sec-websocket-protocol': protocols } })
  }
  const spaces = ' '.repeat(2_000_000)
  check(`${spaces}one\t `)
  for (const protocols of [`one${spaces}two`, `one,${spaces}two x`, `one,${spaces}`])
    t.throws(() => check(protocols), /Sec-WebSocket-Protocol cannot be read/)
})
