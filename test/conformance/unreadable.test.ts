/** A request that is not HTTP, or is too large, also gets a Status. */
import { connect } from 'node:net'
import t from 'tap'
import { startApp } from '../support/app.js'

const CASES: readonly (readonly [promise: string, sent: string, code: number, message: string])[] = [
  ['bytes that are not a request', 'nonsense\r\n\r\n', 400, 'the request cannot be read'],
  [
    'headers beyond all measure',
    `GET /api HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(128 * 1024)}\r\n\r\n`,
    431,
    'the headers of the request are too large',
  ],
  [
    'a path that is not UTF-8',
    'GET /metrics/%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    400,
    'the path of the request cannot be read',
  ],
]

void t.test('every answer is a Status', async (t) => {
  const h = await startApp(t)
  for (const [promise, sent, code, message] of CASES) {
    await t.test(promise, async (t) => {
      const socket = connect(h.port, '127.0.0.1')
      socket.write(sent)
      let heard = ''
      for await (const piece of socket) heard += (piece as Buffer).toString('latin1')
      const [head = '', body = ''] = heard.split('\r\n\r\n')
      t.match(head, new RegExp(`^HTTP/1\\.1 ${code} `))
      t.match(head.toLowerCase(), 'cache-control: no-cache, private')
      t.match(JSON.parse(body), { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, message })
    })
  }
})
