import { setTimeout as passes } from 'node:timers/promises'
import t from 'tap'
import { admitRequest } from '../../../../src/server/transports/limits/arrivals.js'
import type { Exchange } from '../../../../src/server/transports/exchange/exchange.js'

void t.test('a request whose client has left while it waited is not begun', async (t) => {
  const begun: string[] = []
  const admit = (name: string, work = (): void => {}): { isGone: boolean } => {
    const exchange = { isGone: false, request: { socket: {} } }
    admitRequest(exchange as unknown as Exchange, '192.0.2.1', () => {
      begun.push(name)
      work()
    })
    return exchange
  }
  // This one uses up the time for those that start at once.
  admit('first', () => {
    for (const end = performance.now() + 10; performance.now() < end;);
  })
  const left = admit('left')
  admit('last')
  t.same(begun, ['first'])
  left.isGone = true
  while (!begun.includes('last')) await passes(1)
  t.same(begun, ['first', 'last'])
})
