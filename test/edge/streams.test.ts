/**
 * Streams of every kind through real caches, as `deploy/edge/` configures them: an event arrives when it happens, not
 * with the next ones.
 */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { keyFromText } from '../../src/engine/model/event.js'
import { startApp } from '../support/app.js'
import { startHttpCache } from '../support/http-cache.js'
import { pause, until } from '../support/until.js'
import { FLAGS } from './poller.js'

/** The part of a response that has arrived. */
interface Arrived {
  text: string
  isOver: boolean
}

function openStream(t: Test, url: string, headers: Readonly<Record<string, string>> = {}): Arrived {
  const arrived: Arrived = { text: '', isOver: false }
  const request = http.get(url, { headers }, (response) => {
    response.on('data', (bytes: Buffer) => (arrived.text += bytes.toString()))
    response.on('close', () => (arrived.isOver = true))
  })
  request.on('error', () => (arrived.isOver = true))
  t.teardown(() => request.destroy())
  return arrived
}

function openWebSocket(t: Test, url: string): Arrived {
  const arrived: Arrived = { text: '', isOver: false }
  const socket = new WebSocket(url.replace('http:', 'ws:'))
  socket.on('message', (bytes: Buffer) => (arrived.text += bytes.toString()))
  socket.on('error', (error) => (arrived.text += error.message))
  socket.on('close', () => (arrived.isOver = true))
  t.teardown(() => socket.terminate())
  return arrived
}

/** @returns the port. */
async function listening(t: Test, origin: http.Server): Promise<number> {
  t.teardown(() => {
    origin.closeAllConnections()
    origin.close()
  })
  await once(origin.listen(0, '127.0.0.1'), 'listening')
  return (origin.address() as AddressInfo).port
}

for (const name of ['nginx', 'varnish'] as const) {
  void t.test(`through ${name} every stream gets each event by itself`, async (t) => {
    const app = await startApp(t, {
      flags: ['--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s/30s'],
    })
    const put = (value: string): void =>
      void app.upstream.commit([{ type: 'put', key: keyFromText('/config/flags/a'), value: Buffer.from(value) }])
    put('first')
    const cache = await startHttpCache(t, name, app.port)
    const url = `${cache.url}${FLAGS}?watch=1`
    const streams: Readonly<Record<string, Arrived>> = {
      'JSON lines': openStream(t, url),
      'JSON lines again': openStream(t, url),

      'the old path': openStream(t, `${cache.url}${FLAGS.replace('/v1/', '/v1/watch/')}`),
      SSE: openStream(t, url, { accept: 'text/event-stream' }),
      WebSocket: openWebSocket(t, url),
    }
    for (const value of ['first', 'second', 'third']) {
      // Nothing happens for a while, as on most streams.
      if (value === 'third') await pause(2_000)
      if (value !== 'first') put(value)
      for (const [kind, arrived] of Object.entries(streams)) {
        await until(
          () => arrived.text.includes(value),
          () => `${kind}: ${value} (${arrived.isOver ? 'over' : 'open'}): ${arrived.text}`,
        )
      }
    }
    t.notOk(Object.values(streams).some(({ isOver }) => isOver))
  })
}

for (const name of ['nginx', 'varnish'] as const) {
  // `curl --http2` and Java's HttpClient offer HTTP/2 with every request.
  void t.test(`${name} caches the answers of clients that offer to upgrade to HTTP/2`, async (t) => {
    let requests = 0
    const origin = http.createServer((_request, response) => {
      requests++
      response.writeHead(200, { 'cache-control': 'public, max-age=60' }).end('{}')
    })
    const cache = await startHttpCache(t, name, await listening(t, origin))
    for (let i = 0; i < 3; i++) {
      const answer = openStream(t, `${cache.url}/apis/distributary.io/v1/flags?history=`, {
        connection: 'Upgrade, HTTP2-Settings',
        upgrade: 'h2c',
        'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA',
      })
      await until(() => answer.isOver || answer.text !== '', 'an answer')
      t.equal(answer.text, '{}')
    }
    t.equal(requests, 1)
  })
}

void t.test('through nginx, requests with private answers do not wait for each other', async (t) => {
  const waiting: http.ServerResponse[] = []
  const origin = http.createServer((_request, response) => void waiting.push(response))
  const cache = await startHttpCache(t, 'nginx', await listening(t, origin))
  const answers = Array.from({ length: 20 }, async () => (await fetch(`${cache.url}/api/v1/pods?limit=500`)).status)
  await until(
    () => waiting.length === 20,
    () => `${waiting.length} have arrived`,
  )
  for (const response of waiting) response.writeHead(200, { 'cache-control': 'no-cache, private' }).end('{}')
  t.same(new Set(await Promise.all(answers)), new Set([200]))
})
