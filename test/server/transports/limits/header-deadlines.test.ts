/** Deadlines for headers, on a server of Node's whose own are turned off. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { HeaderDeadlines } from '../../../../src/server/transports/limits/header-deadlines.js'

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
const LONG = 3_600_000

async function start(
  t: Test,
  limits: { readonly firstMs: number; readonly nextMs: number },
  handler: RequestListener = (_, response) => void response.end('answered'),
): Promise<{ connect(): Socket; late(): number }> {
  let late = 0
  const deadlines = new HeaderDeadlines({
    ...limits,
    onLate: (socket) => {
      late++
      socket.destroy()
    },
  })
  const server = createServer({ headersTimeout: 0, requestTimeout: 0, keepAliveTimeout: 0 }, deadlines.wrap(handler))
  server.on('connection', (socket: Socket) => deadlines.follow(socket))
  server.on('upgrade', (request, socket: Socket) => {
    deadlines.forget(request)
    socket.write('upgraded')
    // The server does not know it any more.
    t.teardown(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    connect() {
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      return socket.on('error', () => {})
    },
    late: () => late,
  }
}

/** Writes until the connection is closed. A write that meets the end gets an error, which `once` would throw. */
async function drip(socket: Socket, text: string): Promise<void> {
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.resume()
  const timer = setInterval(() => socket.write(text), 10)
  await closed
  clearInterval(timer)
}

void t.test('a connection ends whose first request does not become complete', async (t) => {
  const server = await start(t, { firstMs: 100, nextMs: LONG })
  const silent = server.connect().resume()
  const slow = server.connect()
  slow.write('GET / HTTP/1.1\r\nHost: localhost\r\nX: ')
  await Promise.all([once(silent, 'close'), drip(slow, 'x')])
  t.equal(server.late(), 2)
})

void t.test('so does one whose next request does not, and that is not reported', async (t) => {
  const server = await start(t, { firstMs: LONG, nextMs: 100 })
  const socket = server.connect()
  socket.write(GET)
  t.match(String((await once(socket, 'data'))[0]), /answered/)
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nX: ')
  await drip(socket, 'x')
  t.equal(server.late(), 0)
})

void t.test('an answer may take longer, also before one that is done, and so may an upgraded connection', async (t) => {
  const limits = { firstMs: 1_000, nextMs: 100 }
  const server = await start(t, limits, (request, response) => {
    setTimeout(() => response.end('answered'), request.url === '/slow' ? 2_000 : 0)
  })
  const socket = server.connect()
  // On a busy machine it may close before the other has been upgraded.
  const closed = once(socket, 'close')
  let heard = ''
  socket.on('data', (bytes: Buffer) => (heard += bytes.toString()))
  socket.write(GET.replace('/', '/slow') + GET)
  const upgraded = server.connect()
  upgraded.write(GET.replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'))
  await once(upgraded, 'data')
  await closed
  t.equal(heard.split('answered').length - 1, 2)
  t.notOk(upgraded.destroyed)
  t.equal(server.late(), 0)
})
