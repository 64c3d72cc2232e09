/**
 * A browser's EventSource with tickets, at a server whose stream breaks. The rest is in test/security/tickets.test.ts.
 */
import { getEventListeners } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { ticketEvents } from '../../src/client/ticket-events.js'
import { openPage } from '../support/chromium.js'
import { until } from '../support/until.js'
import { serveModules } from './serve-modules.js'

void t.test('a stream that breaks inside the initial state starts over, so no deleted object stays', async (t) => {
  const origin = await serveModules(t)
  const streams: http.ServerResponse[] = []
  const server = http.createServer((request, response) => {
    const cors = { 'access-control-allow-origin': origin, 'access-control-allow-headers': '*' }
    if (request.method === 'OPTIONS') return void response.writeHead(204, cors).end()
    if (request.url === '/tickets')
      return void response.writeHead(201, { ...cors, 'content-type': 'application/json' }).end('{"ticket":"x"}')
    response.writeHead(200, { ...cors, 'content-type': 'text/event-stream' })
    // Objects of the initial state have no id before the last one.
    if (streams.push(response) === 1) response.write('event: ADDED\ndata: "gone"\n\n')
    else response.write('id: 7\nevent: ADDED\ndata: "there"\n\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const page = await openPage(t, origin)
  await page.addScriptTag({
    type: 'module',
    content: `import { ticketEvents } from '/client/browser.js'
      globalThis.seen = []
      ticketEvents({
        server: 'http://127.0.0.1:${(server.address() as AddressInfo).port}', token: 'x', path: '/api/v1/pods',
        backoff: { firstMs: 20, capMs: 100 },
        reset: () => seen.push('reset'),
        event: (type, object) => seen.push(object),
      })`,
  })
  let seen = ''
  const untilSeen = (object: string): Promise<void> =>
    until(
      async () => (seen = await page.evaluate('globalThis.seen?.join()')).endsWith(object),
      () => `${object} is seen: ${seen}`,
    )
  await untilSeen('gone')
  // If the stream broke at once, the browser might drop the events that have arrived.
  streams[0]!.destroy()
  await untilSeen('there')
  t.equal(seen, 'reset,gone,reset,there')
})

void t.test('a closed stream leaves no listener on a signal that outlives it', (t) => {
  const { signal } = new AbortController()
  const options = { server: 'http://127.0.0.1:9', path: '/api/v1/pods', reset: () => {}, event: () => {}, signal }
  const close = ticketEvents(options)
  t.equal(getEventListeners(signal, 'abort').length, 1)
  close()
  t.equal(getEventListeners(signal, 'abort').length, 0)
  t.end()
})
