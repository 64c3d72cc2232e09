/** Answers while they are sent: a client that does not read a response does not keep it in memory. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect as connectHttp2, constants, createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { Exchange } from '../../../../src/server/transports/exchange/exchange.js'

const SHORTLY_MS = 20

void t.test('exchange - over HTTP/2 a small unread answer ends with its stream, and no other does', async (t) => {
  const server = createHttp2Server((request, response) => {
    const exchange = new Exchange(request as never, response as unknown as ServerResponse, () => SHORTLY_MS)
    exchange.send(200, 'text/plain', Buffer.from(exchange.path === '/empty' ? '' : 'small'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } })
  t.teardown(() => {
    session.destroy()
    server.close()
  })
  const untaken = session.request({ ':path': '/' })
  untaken.on('error', () => {})
  await once(untaken, 'close')
  t.equal(untaken.rstCode, constants.NGHTTP2_CANCEL, 'it was given up, and the client knows')
  const [headers] = (await once(session.request({ ':path': '/empty' }).resume(), 'response')) as [{ ':status': number }]
  t.equal(headers[':status'], 200, 'the connection serves on')
})

void t.test('exchange - over HTTP/1.1 an unread answer ends with its connection', async (t) => {
  const large = Buffer.alloc(64 * 1024 * 1024)
  const server = createServer((request, response) => {
    new Exchange(request, response, () => SHORTLY_MS).send(200, 'text/plain', large)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect(port, '127.0.0.1')
  client.on('error', () => {})
  t.teardown(() => {
    client.destroy()
    server.close()
  })
  client.pause()
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse]
  await once(response, 'close')
  let bytes = 0
  client.on('data', (piece: Buffer) => (bytes += piece.length))
  await once(client.resume(), 'close')
  t.ok(bytes < large.length, `${bytes} bytes arrived: it was given up, not delivered`)
})

void t.test('exchange - over HTTP/2 an answer that is cut off does not look complete', async (t) => {
  const server = createHttp2Server((request, response) => {
    const exchange = new Exchange(request as never, response as unknown as ServerResponse)
    exchange.writeHead(200, { 'content-type': 'text/plain' })
    exchange.response.write('half')
    exchange.breakOff()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.teardown(() => {
    session.destroy()
    server.close()
  })
  const broken = session.request({ ':path': '/' }).resume()
  await t.rejects(once(broken, 'close'), { code: 'ERR_HTTP2_STREAM_ERROR' })
  t.equal(broken.rstCode, constants.NGHTTP2_INTERNAL_ERROR)
})
