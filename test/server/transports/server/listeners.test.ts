/** Tests idle connections at the ports themselves: they are closed, and those that only look idle stay open. */
import { once } from 'node:events'
import { type Http2ServerResponse, type ServerHttp2Session, connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, type Server, type Socket, connect } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import {
  type ListenerLimits,
  createPlainListener,
  createSecureListener,
} from '../../../../src/server/transports/server/listeners.js'
import type { RapidResets } from '../../../../src/server/transports/limits/rapid-resets.js'
import { rejectUnreadable } from '../../../../src/server/transports/server/reject-unreadable.js'
import {
  type StreamHandle,
  findHttp2Handle,
  writeTo,
} from '../../../../src/server/transports/exchange/stream-handle.js'
import { selfSignedCertificate } from '../../../support/issue-certificate.js'
import {
  FLAG,
  PREFACE,
  TYPE,
  answered,
  frame,
  parseFrames,
  request,
  settings,
  uint32,
} from '../../../security/support/http2-frames.js'
import { until } from '../../../support/until.js'

/** Answers `/watch` with an open stream, everything else at once. */
async function listen(
  t: Test,
  limits: Partial<ListenerLimits>,
): Promise<{ port: number; connections(): Promise<number> }> {
  const server = createPlainListener(
    (asked, answer) => {
      answer.write('begun')
      if (asked.url !== '/watch') answer.end()
    },
    { maxStreams: 10, ...limits },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const count = (): Promise<number> =>
    new Promise((resolve, reject) =>
      (server as Server).getConnections((error, n) => (error === null ? resolve(n) : reject(error))),
    )
  return { port: (server.address() as AddressInfo).port, connections: count }
}

/** A TLS port that answers unreadable requests as the whole server does. */
async function listenSecurely(
  t: Test,
  handshakeTimeout: number,
  limits: Partial<ListenerLimits> = {},
): Promise<{ port: number; connections(): Promise<number>; accepted(): number; onSession(then: () => void): void }> {
  const { cert, key } = selfSignedCertificate()
  const server = createSecureListener(
    (_asked, answer) => answer.end('an answer'),
    { maxStreams: 10, ...limits },
    { cert, key, handshakeTimeout },
  )
  server.on('clientError', rejectUnreadable)
  let accepted = 0
  server.on('connection', () => accepted++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const count = (): Promise<number> =>
    new Promise((resolve, reject) => server.getConnections((error, n) => (error === null ? resolve(n) : reject(error))))
  const onSession = (then: () => void): void => void server.once('session', then)
  return { port: (server.address() as AddressInfo).port, connections: count, accepted: () => accepted, onSession }
}

async function drops(of: { connections(): Promise<number> }, to: number): Promise<void> {
  const end = performance.now() + 20_000
  while ((await of.connections()) !== to) {
    if (performance.now() > end) throw new Error(`${await of.connections()} connections, not ${to}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

async function begin(port: number, bytes: Buffer): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  if (bytes.length > 0) socket.write(bytes)
  return socket
}

const start = Buffer.concat([PREFACE, settings()])
const BROKEN = frame(TYPE.data, 0, 0, Buffer.from('against the rules'))

void t.test('a client that leaves before its protocol is known is released at once', async (t) => {
  const h = await listen(t, {})
  for (const bytes of [Buffer.alloc(0), Buffer.from('PR')]) {
    const socket = await begin(h.port, bytes)
    await drops(h, 1)
    socket.end()
    await drops(h, 0)
  }
})

void t.test(
  'an HTTP/2 connection without a request, or after illegal frames, ends in time although the peer has left',
  async (t) => {
    const h = await listen(t, { firstRequestMs: 100, idleMs: 60_000 })
    for (const bytes of [start, Buffer.concat([start, BROKEN])]) {
      const socket = await begin(h.port, bytes)
      socket.resume()
      await drops(h, 0)
      socket.destroy()
    }
  },
)

void t.test(
  'a watch on a connection broken by its peer ends with it, and is not kept for its whole time',
  async (t) => {
    const h = await listen(t, { idleMs: 60_000, probeMs: 100 })
    const socket = await begin(h.port, Buffer.concat([start, request(1, '/watch')]))
    const [first] = (await once(socket, 'data')) as [Buffer]
    t.ok(first.length > 0)
    socket.write(BROKEN)
    socket.end()
    await drops(h, 0)
  },
)

void t.test('a peer that leaves after an illegal frame is noticed, long before any of its deadlines', async (t) => {
  const never = { firstRequestMs: 600_000, idleMs: 600_000, probeMs: 600_000 }
  const [plain, secure] = [await listen(t, never), await listenSecurely(t, 20_000, never)]
  const wrongLength = frame(TYPE.ping, 0, 0, Buffer.alloc(7))
  for (const broken of [BROKEN, wrongLength]) {
    for (const asked of [[], [request(1, '/watch')]]) {
      const socket = await begin(plain.port, Buffer.concat([start, ...asked, broken]))
      const overTls = connectTls({
        port: secure.port,
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ALPNProtocols: ['h2'],
      })
      overTls.on('error', () => {})
      overTls.write(Buffer.concat([start, ...asked, broken]))
      for (const each of [socket, overTls]) {
        // The responses, and the GOAWAY.
        await once(each, 'data')
        each.destroy()
      }
    }
  }
  for (const port of [plain, secure]) await drops(port, 0)
})

void t.test('a silent watch whose peer is alive stays, through any number of silences', async (t) => {
  const h = await listen(t, { idleMs: 50, probeMs: 50 })
  const session = connectHttp2(`http://127.0.0.1:${h.port}`)
  t.teardown(() => session.destroy())
  let pings = 0
  session.on('ping', () => pings++)
  const stream = session.request({ ':path': '/watch' })
  await once(stream, 'data')
  while (pings < 4) await new Promise((resolve) => setTimeout(resolve, 5))
  t.notOk(stream.closed || session.closed)
  t.equal(await h.connections(), 1)
  stream.close()
  await drops(h, 0)
})

void t.test('each silence of a watch leaves no listener behind, and a busy watch is not pinged', async (t) => {
  let session: ServerHttp2Session | undefined
  let handle: StreamHandle | null = null
  const server = createPlainListener(
    (_asked, answer) => {
      const { stream } = answer as unknown as Http2ServerResponse
      session = stream.session as ServerHttp2Session
      answer.write('begun', () => (handle = findHttp2Handle(stream)))
    },
    { maxStreams: 10, idleMs: 100, probeMs: 100 },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.teardown(() => {
    client.destroy()
    server.closeAllConnections()
    server.close()
  })
  let pings = 0
  client.on('ping', () => pings++)
  const stream = client.request({ ':path': '/watch' }).resume()
  await until(() => pings >= 2, 'the first silences')
  const listeners = session!.eventNames().map((name) => [name, session!.listenerCount(name)])
  await until(() => pings >= 5, 'more of them')
  t.same(
    session!.eventNames().map((name) => [name, session!.listenerCount(name)]),
    listeners,
  )

  const owner = { taken: () => {} }
  const writes = setInterval(() => writeTo(handle!, Buffer.from('an event'), owner), 10)
  t.teardown(() => clearInterval(writes))
  await new Promise((resolve) => setTimeout(resolve, 150))
  const before = pings
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  t.equal(pings, before)
  clearInterval(writes)
  await until(() => pings > before, 'a silent watch is asked again')
  t.notOk(stream.closed || client.closed)
})

void t.test('a stalled TLS handshake is cut off in time, whatever the peer keeps open', async (t) => {
  const h = await listenSecurely(t, 100)
  const halves = [Buffer.alloc(0), Buffer.from('160301007a010000760303', 'hex')]
  for (const [i, bytes] of halves.entries()) {
    const socket = connect({ port: h.port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => {})
    await once(socket, 'connect')
    if (bytes.length > 0) socket.write(bytes)
    socket.resume()
    await until(() => h.accepted() === i + 1, 'the connection is taken')
    await drops(h, 0)
    socket.destroy()
  }
})

void t.test('a peer that leaves while it is being answered over TLS leaves no connection behind', async (t) => {
  const h = await listenSecurely(t, 20_000, { firstRequestMs: 100, idleMs: 100, probeMs: 100 })
  const ping = frame(TYPE.ping, 0, 0, Buffer.alloc(8))
  for (const last of [
    [request(1, '/'), ping, request(3, '/')],
    [ping, ping],
    [BROKEN, ping],
  ]) {
    const socket = connectTls({ port: h.port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] })
    socket.on('error', () => {})
    // The server's first write after this one finds that the peer has left; the next one would wait for ever.
    h.onSession(() => {
      for (const bytes of last) socket.write(bytes)
      socket.destroy()
    })
    await once(socket, 'secureConnect')
    for (const bytes of [PREFACE, settings()]) socket.write(bytes)
    await once(socket, 'close')
  }
  await drops(h, 0)
})

void t.test('closing all connections includes an unread upgraded one', async (t) => {
  let asked = 0
  const server = createPlainListener(() => asked++, { maxStreams: 10 })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect(port, '127.0.0.1')
  client.on('error', () => client.destroy())
  client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await until(() => asked === 1, 'it was asked')
  client.write(Buffer.alloc(200_000))
  const closed = new Promise((resolve) => void client.once('close', resolve))
  const stopped = once(server, 'close')
  server.closeAllConnections()
  server.close()
  await Promise.all([closed, stopped])
  t.pass('the server has closed')
})

void t.test('an upgrade behind an unanswered request ends its connection, and not the server', async (t) => {
  const plain = await listen(t, {})
  const secure = await listenSecurely(t, 20_000)
  const watch = 'GET /watch HTTP/1.1\r\nHost: a\r\n\r\n'
  const upgrade = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  const open = [
    () => connect(plain.port, '127.0.0.1'),
    () => connectTls({ port: secure.port, host: '127.0.0.1', rejectUnauthorized: false }),
  ]
  for (const openSocket of open) {
    for (const behind of [upgrade, watch + upgrade]) {
      const socket = openSocket()
      socket.on('error', () => {}).resume()
      socket.write(watch + behind)
      await once(socket, 'close')
    }
  }
  await Promise.all([drops(plain, 0), drops(secure, 0)])
})

void t.test('a request right behind a GOAWAY is answered, not refused while it is being read', async (t) => {
  const of = await listen(t, {})
  const goaway = frame(TYPE.goaway, 0, 0, Buffer.alloc(8))
  const bytes = Buffer.concat([PREFACE, settings(), request(1, '/'), goaway, request(3, '/')])
  const socket = await begin(of.port, bytes)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await once(socket, 'end')
  t.same(answered(Buffer.concat(chunks)), [1, 3])
  socket.destroy()
  await drops(of, 0)
})

void t.test('a closing session waits for its streams, and then ends', async (t) => {
  const of = await listen(t, {})
  const goaway = frame(TYPE.goaway, 0, 0, Buffer.alloc(8))
  const socket = await begin(of.port, Buffer.concat([PREFACE, settings(), request(1, '/watch'), goaway]))
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await until(() => Buffer.concat(chunks).includes('begun'), 'the watch runs')
  t.equal(await of.connections(), 1)
  socket.write(frame(TYPE.reset, 0, 1, Buffer.from([0, 0, 0, 8])))
  await once(socket, 'end')
  socket.destroy()
  await drops(of, 0)
})

void t.test('a request with Expect: 100-continue that is reset at once does not end the server', async (t) => {
  const plain = await listen(t, {})
  const secure = await listenSecurely(t, 20_000)
  const expecting = (stream: number): Buffer => request(stream, '/', [['expect', '100-continue']], 0)
  const reset = frame(TYPE.reset, 0, 1, uint32(8))
  const open = {
    'over TCP': () => connect(plain.port, '127.0.0.1'),
    'over TLS': () =>
      connectTls({ port: secure.port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] }),
  }
  for (const [how, openSocket] of Object.entries(open)) {
    const socket = openSocket()
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    const frames = [PREFACE, settings(), expecting(1), reset, expecting(3), frame(TYPE.data, FLAG.endStream, 3)]
    socket.write(Buffer.concat(frames))
    await until(() => answered(Buffer.concat(chunks)).includes(3), `${how}, the other one is answered`)
    const heads = parseFrames(Buffer.concat(chunks)).filter(({ type, stream }) => type === TYPE.headers && stream === 3)
    t.equal(heads.length, 2, `${how}, 100 comes before the answer`)
    socket.destroy()
  }
  await Promise.all([drops(plain, 0), drops(secure, 0)])
})

void t.test('requests that are reset in the packet that brings them are counted, and never begun', async (t) => {
  const begun: (string | undefined)[] = []
  const counted: number[] = []
  const resets = {
    count: (_address: string, _identity: string | null, ofConnection: number) => !counted.push(ofConnection),
  }
  const server = createPlainListener(
    (asked, answer) => {
      begun.push(asked.url)
      answer.end()
    },
    { maxStreams: 10, resets: resets as unknown as RapidResets },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => client.destroy())
  const given = Array.from({ length: 100 }, (_, i) =>
    Buffer.concat([request(1 + 2 * i, '/reset'), frame(TYPE.reset, 0, 1 + 2 * i, Buffer.from([0, 0, 0, 8]))]),
  )
  client.write(Buffer.concat([PREFACE, settings(), ...given, request(201, '/kept')]))
  await until(() => begun.length > 0, 'the last one')
  t.same(begun, ['/kept'])
  t.same(counted.slice(-1), [100])
  // Data of no bytes ends the whole session with an error, in the packet that brings the request.
  const flood = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
  const nothing = Array.from({ length: 2_000 }, () => frame(TYPE.data, 0, 1))
  flood.write(Buffer.concat([PREFACE, settings(), request(1, '/flood', [], 0), ...nothing]))
  flood.resume()
  await once(flood, 'close')
})

void t.test('handshakes are begun in fair turns, by address', async (t) => {
  const { cert, key } = selfSignedCertificate()
  const server = createSecureListener((_asked, answer) => answer.end(), { maxStreams: 10 }, { cert, key })
  const made: (string | undefined)[] = []
  let accepted = 0
  server.on('connection', () => accepted++)
  server.on('secureConnection', (socket: Socket) => made.push(socket.remoteAddress))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const addresses = [...Array<string>(100).fill('127.0.0.1'), '127.0.0.2']
  const sockets = addresses.map((localAddress) => connect({ host: '127.0.0.1', port, localAddress }))
  t.teardown(() => sockets.forEach((socket) => socket.destroy()))
  await until(() => accepted === sockets.length, 'every connection is taken')
  for (const socket of sockets) connectTls({ socket, rejectUnauthorized: false }).on('error', () => {})
  await until(() => made.length === sockets.length, 'every handshake is done')
  t.ok(made.indexOf('127.0.0.2') < 50, `the last one, from another address, is done after ${made.indexOf('127.0.0.2')}`)
})

void t.test('a connection that ends or fails while it waits for its turn is released', async (t) => {
  const h = await listen(t, {})
  const sockets = Array.from({ length: 200 }, () => connect(h.port, '127.0.0.1'))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (const [i, socket] of sockets.entries()) {
    socket.write(Buffer.concat([PREFACE, settings(), request(1, '/watch')]))
    if (i % 2 === 0) socket.resetAndDestroy()
    else socket.end()
  }
  await until(async () => (await h.connections()) === 0, 'no connection is left')
})

void t.test('a response larger than the buffers reaches a client that offers an upgrade', async (t) => {
  const piece = Buffer.alloc(256 * 1024)
  const server = createPlainListener(
    (_request, response) => {
      response.writeHead(200, { connection: 'close' })
      void pipeline(Readable.from(Array<Buffer>(64).fill(piece)), response)
    },
    { maxStreams: 10 },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let received = 0
  socket.on('data', (bytes: Buffer) => (received += bytes.length))
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
  await until(() => received > 64 * piece.length, 'all has arrived')
  socket.destroy()
})
