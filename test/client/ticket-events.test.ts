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

void t.test(
  'a ticket that never comes is requested again, and a silent stream continues after a bookmark',
  async (t) => {
    const origin = await serveModules(t)
    let tickets = 0
    const streams: { readonly query: URLSearchParams; readonly response: http.ServerResponse }[] = []
    const server = http.createServer((request, response) => {
      const cors = { 'access-control-allow-origin': origin, 'access-control-allow-headers': '*' }
      if (request.method === 'OPTIONS') return void response.writeHead(204, cors).end()
      if (request.url === '/tickets') {
        // The first request is never answered.
        if (++tickets > 1)
          response.writeHead(201, { ...cors, 'content-type': 'application/json' }).end('{"ticket":"x"}')
        return
      }
      response.writeHead(200, { ...cors, 'content-type': 'text/event-stream' })
      response.write('id: 7\nevent: ADDED\ndata: "a"\n\nid: 9\nevent: BOOKMARK\ndata: {}\n\n')
      streams.push({ query: new URL(request.url ?? '', origin).searchParams, response })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    t.teardown(() => server.closeAllConnections())
    const page = await openPage(t, origin)
    await page.clock.install()
    await page.addScriptTag({
      type: 'module',
      content: `import { ticketEvents } from '/client/browser.js'
      globalThis.seen = []
      ticketEvents({
        server: 'http://127.0.0.1:${(server.address() as AddressInfo).port}', token: 'x', path: '/api/v1/pods',
        backoff: { firstMs: 20, capMs: 100 },
        reset: () => seen.push('reset'),
        event: (type, object) => seen.push(object),
        failed: (failure) => { seen.push(failure.message); throw failure },
      })`,
    })
    const seen = async (): Promise<unknown> => await page.evaluate('globalThis.seen')
    await until(() => tickets === 1, 'a ticket is requested')
    await page.clock.fastForward(30_000)
    await until(async () => JSON.stringify(await seen()).includes('"a"'), 'the stream has begun')
    t.same(await seen(), ['no ticket within 30000 ms', 'reset', 'a'])
    t.equal(streams[0]?.query.get('allowWatchBookmarks'), '1')
    for (let i = 0; i < 2; i++) {
      await page.clock.fastForward(100_000)
      streams[0]?.response.write('id: 11\nevent: BOOKMARK\ndata: {}\n\nid: 12\nevent: ADDED\ndata: "b"\n\n')
      await until(async () => String(await seen()).endsWith(',b'.repeat(i + 1)), 'it speaks, so it goes on')
    }
    t.equal(streams.length, 1)
    streams[0]?.response.write('id: 13\nevent: BOOKMARK\ndata: {}\n\n')
    // The bookmark itself cannot be seen.
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(resolve))')
    await page.clock.fastForward(150_000)
    await until(() => streams.length === 2, 'another stream')
    t.match(String(await seen()), /the stream was silent for 150000 ms/)
    t.match(streams[1]?.query.get('resourceVersion'), /^1[23]$/)
  },
)

void t.test('a closed stream leaves no listener on a signal that outlives it', (t) => {
  const { signal } = new AbortController()
  const options = { server: 'http://127.0.0.1:9', path: '/api/v1/pods', reset: () => {}, event: () => {}, signal }
  const close = ticketEvents(options)
  t.equal(getEventListeners(signal, 'abort').length, 1)
  close()
  t.equal(getEventListeners(signal, 'abort').length, 0)
  t.end()
})

void t.test('while no ticket is to be had, the pauses grow', async (t) => {
  let asked = 0
  const server = http.createServer((_, response) => {
    asked++
    response.writeHead(503).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const close = ticketEvents({
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    path: '/api/v1/pods',
    backoff: { firstMs: 20, capMs: 200 },
    reset: () => {},
    event: () => {},
  })
  t.teardown(close)
  await until(() => asked > 0, 'it asks')
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  // Without growth there would be more than a hundred.
  t.ok(asked < 40, `${asked} attempts`)
})
