/** Bodies of writes, as they come in over a connection. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectHttp2 } from 'node:http2'
import t from 'tap'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readBody } from '../../../../src/server/transports/api/read-body.js'
import { Exchange } from '../../../../src/server/transports/server/exchange.js'
import { systemClock } from '../../../../src/support/clock.js'
import { startApp } from '../../../support/app.js'

const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a', uid: 'uid-a' } }
const PATH = '/api/v1/namespaces/a/configmaps'

function configMap(name: string, length: number): string {
  const data = { text: 'x'.repeat(length) }
  return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data })
}

function cut(text: string, bytes: number): string[] {
  return Array.from({ length: Math.ceil(text.length / bytes) }, (_, i) => text.slice(i * bytes, (i + 1) * bytes))
}

/** Resolves with all that the server says until it ends the connection. */
async function sendChunks(url: string, pieces: readonly string[]): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  // The server ends the connection while there is still something to send.
  socket.on('error', () => {})
  const head = `POST ${PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
  const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
  socket.write(`${head}${chunks.join('')}0\r\n\r\n`)
  await once(socket, 'close')
  return text
}

void t.test('read body - one that comes a byte at a time is refused, not kept in as many pieces', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'], objects: { 'namespaces/a': namespace } })
  const answer = await sendChunks(url, cut(configMap('drip', 20_000), 1))
  t.match(answer, /^HTTP\/1.1 400 /)
  t.match(answer, /pieces that are too small/)
})

void t.test('read body - one in many small pieces is read whole', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'], objects: { 'namespaces/a': namespace } })
  t.match(await sendChunks(url, cut(configMap('small', 1_500), 1)), /^HTTP\/1.1 201 /, 'a small body in bytes')
  t.match(await sendChunks(url, cut(configMap('large', 200_000), 40)), /^HTTP\/1.1 201 /, 'a large one in pieces')
})

void t.test(
  'read body - over HTTP/2 a body in very small frames is refused, and the connection serves on',
  async (t) => {
    const { url } = await startApp(t, { flags: ['--enable-writes'], objects: { 'namespaces/a': namespace } })
    const session = connectHttp2(url)
    t.teardown(() => session.destroy())
    const stream = session.request({ ':method': 'POST', ':path': PATH, 'content-type': 'application/json' })
    stream.on('error', () => {})
    const answered = once(stream, 'response')
    // One by one, or the client would send them in one frame.
    for (const piece of cut(configMap('frames', 6_000), 1)) {
      if (!stream.writable) break
      await new Promise((resolve) => stream.write(piece, resolve))
    }
    stream.end()
    const [headers] = (await answered) as [{ ':status': number }]
    t.equal(headers[':status'], 400)
    stream.resume()
    const next = session.request({ ':path': '/version' }).resume()
    const [{ ':status': status }] = (await once(next, 'response')) as [{ ':status': number }]
    t.equal(status, 200)
  },
)

void t.test('read body - the rest of a refused one is not handed on', async (t) => {
  let isPaused: boolean | undefined
  const server = createServer((request, response: ServerResponse) => {
    const exchange = new Exchange(request, response)
    void readBody(exchange, systemClock, 60_000).catch(() => {
      isPaused = request.isPaused()
      exchange.send(400, 'text/plain', Buffer.from('refused'))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  t.match(await sendChunks(`http://127.0.0.1:${port}`, cut('x'.repeat(10_000), 1)), /^HTTP\/1.1 400 /)
  t.equal(isPaused, true)
})
