/** Which requests the pages of an allowed origin may send, compared with the API server's `--cors-allowed-origins`. */
import t from 'tap'
import { startApp } from '../../../support/app.js'

const origin = 'https://app.example.org'

void t.test('a page may send the headers that the API server allows, and may not impersonate', async (t) => {
  const app = await startApp(t, { flags: ['--cors-allowed-origins', origin] })
  const preflight = await fetch(`${app.url}/api/v1/pods`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'authorization,impersonate-user',
    },
  })
  t.equal(preflight.status, 204)
  const allowed = (preflight.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ')
  // WithCORS of k8s.io/apiserver 0.37, without the two headers that only browsers set: Content-Length, Accept-Encoding.
  for (const name of ['content-type', 'x-csrf-token', 'authorization', 'x-requested-with', 'if-modified-since']) {
    t.ok(allowed.includes(name), name)
  }
  t.notMatch(allowed.join(), /impersonate|\*/)
})
