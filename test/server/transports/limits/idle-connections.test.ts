/** Connections of unknown clients at the ports themselves. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { IdleConnections, noteAllowed, noteKnown } from '../../../../src/server/transports/limits/idle-connections.js'
import { createPlainListener, createSecureListener } from '../../../../src/server/transports/server/listeners.js'
import { selfSignedCertificate } from '../../../support/issue-certificate.js'
import { until } from '../../../support/until.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const CONNECTION = 96 * 1024
/** The age from which a connection gives way to newer ones. */
const OLD_MS = 5_000

interface Client {
  readonly socket: Socket
  readonly isClosed: boolean
  /** Sends a request over HTTP/1.1, and waits for the head of its response. @param user of a known client. */
  ask(path: string, user?: string): Promise<void>
}

/** @param most the number of idle connections that unknown clients may have. */
async function listen(t: Test, most: number) {
  const clock = new VirtualClock()
  let rejected = 0
  let isFull = false
  const held: ServerResponse[] = []
  const idleConnections = new IdleConnections({
    clock,
    maxBytes: most * CONNECTION,
    isFull: () => isFull,
    onRejected: () => rejected++,
  })
  const limits = { maxStreams: 100, idleConnections }
  const serve: Parameters<typeof createPlainListener>[0] = (request, response) => {
    if (request.url!.startsWith('/known')) noteKnown(request, response, String(request.headers['x-user']))
    if (request.url!.startsWith('/allowed')) noteAllowed(request, response)
    response.write('an answer')
    if (request.url!.endsWith('held')) held.push(response)
    else if (!request.url!.endsWith('watch')) response.end()
  }
  const { cert, key } = selfSignedCertificate()
  const [plain, secure] = [createPlainListener(serve, limits), createSecureListener(serve, limits, { cert, key })]
  for (const listener of [plain, secure]) {
    listener.listen(0, '0.0.0.0')
    await once(listener, 'listening')
    t.teardown(() => {
      listener.closeAllConnections()
      listener.close()
    })
  }
  const [port, securePort] = [plain, secure].map((listener) => (listener.address() as AddressInfo).port)
  let accepted = 0
  for (const listener of [plain, secure]) listener.on('connection', () => accepted++)
  const begun = new Set<number>()
  const begin = idleConnections.begin.bind(idleConnections)
  idleConnections.begin = (socket) => {
    begun.add(socket.remotePort!)
    begin(socket)
  }
  let connects = 0

  /** Connects from an address, and waits until the server has counted it, or has closed it. */
  const from = async (address: string, overTls = false, isSilent = false): Promise<Client> => {
    const tcp = connect({ port: overTls ? securePort! : port!, host: '127.0.0.1', localAddress: address })
    tcp.on('error', () => {})
    const socket = overTls ? connectTls({ socket: tcp, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] }) : tcp
    socket.on('error', () => {})
    socket.resume()
    let isClosed = false
    socket.once('close', () => (isClosed = true))
    t.teardown(() => socket.destroy())
    const number = ++connects
    await until(() => accepted >= number, 'it is accepted')
    // A request may begin with an empty line.
    if (!isSilent && !overTls) socket.write('\r\n')
    if (!isSilent) await until(() => isClosed || begun.has(tcp.localPort!), 'it has begun')
    return {
      socket,
      get isClosed() {
        return isClosed
      },
      async ask(path, user = 'somebody') {
        // Without `Connection: upgrade` this is no upgrade, after which a connection would not count.
        const headers = ['Host: localhost', `X-User: ${user}`, 'Upgrade: nothing']
        socket.write(`GET ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`)
        await once(socket, 'data')
      },
    }
  }
  const closes = async (client: Client): Promise<void> => {
    await until(() => client.isClosed, 'it is closed')
  }
  const fill = (): void => void (isFull = true)
  /** Ends the responses to `…held`. */
  const release = (): void => held.splice(0).forEach((response) => response.end())
  return {
    clock,
    idleConnections,
    from,
    closes,
    fill,
    release,
    port: port!,
    rejected: () => rejected,
    countConnect: () => ++connects,
  }
}

const CROWD = '127.0.0.1'
const OTHER = '127.0.0.2'

void t.test(
  'beyond the limit the address with the most connections loses its oldest, and others are let in',
  async (t) => {
    const h = await listen(t, 4)
    const crowd = [await h.from(CROWD), await h.from(CROWD, true), await h.from(CROWD), await h.from(CROWD)]
    h.clock.advance(OLD_MS)
    const other = await h.from(OTHER)
    await h.closes(crowd[0]!)
    const neighbour = await h.from(CROWD)
    await h.closes(crowd[1]!)
    for (const client of [other, neighbour]) await client.ask('/known')
    t.equal(h.rejected(), 2)
    t.same(
      [...crowd.slice(2), other, neighbour].map(({ isClosed }) => isClosed),
      [false, false, false, false],
    )
  },
)

void t.test('while all are young, those that came first stay, as when all clients reconnect', async (t) => {
  const h = await listen(t, 3)
  const first = [await h.from(CROWD), await h.from(CROWD), await h.from(CROWD)]
  const late = await h.from(CROWD)
  await h.closes(late)
  const other = await h.from(OTHER)
  await h.closes(first[0]!)
  for (const client of [first[1]!, first[2]!, other]) await client.ask('/known')
  t.equal(h.rejected(), 2)
})

void t.test('however young they are, those whose request was answered give way to newcomers', async (t) => {
  const h = await listen(t, 3)
  const waiting = await h.from(CROWD)
  const answered = [await h.from(CROWD), await h.from(CROWD, true)]
  for (const client of answered) await client.ask('/allowed')
  const late = await h.from(CROWD)
  await h.closes(answered[0]!)
  const later = await h.from(CROWD, true)
  await h.closes(answered[1]!)
  await h.closes(await h.from(CROWD))
  t.equal(h.rejected(), 3)
  for (const client of [waiting, late, later]) await client.ask('/known')
})

void t.test('a connection that waits for its turn counts a quarter of one that has begun', async (t) => {
  const h = await listen(t, 2)
  const waiting: Client[] = []
  for (let i = 0; i < 8; i++) waiting.push(await h.from(CROWD, false, true))
  t.equal(h.rejected(), 0, 'as when all clients reconnect')
  await h.closes(await h.from(CROWD, false, true))
  t.equal(h.rejected(), 1)
  waiting[0]!.socket.write('\r\n')
  await h.closes(waiting[0]!)
  t.equal(h.rejected(), 2, 'while all are young, the one that grows beyond the limit goes')
  for (const client of waiting.slice(1)) t.notOk(client.isClosed)
})

void t.test('a connection counts until its first authenticated request, with TLS or without', async (t) => {
  const h = await listen(t, 2)
  const clients: Client[] = []
  for (let i = 0; i < 10; i++) {
    const client = await h.from(CROWD, i % 2 === 1)
    await client.ask('/known/watch')
    clients.push(client)
  }
  const session = connectHttp2(`http://127.0.0.1:${h.port}`)
  h.countConnect()
  t.teardown(() => session.destroy())
  const streams = Array.from({ length: 50 }, () => session.request({ ':path': '/watch' }).on('error', () => {}))
  const known = session.request({ ':path': '/known' })
  await once(session, 'close')
  t.ok(known.destroyed, 'before that its open requests count too')
  t.ok(streams.every(({ destroyed }) => destroyed))
  t.equal(h.rejected(), 1)
  t.ok(clients.every(({ isClosed }) => !isClosed))
})

void t.test('an HTTP/2 session that has authenticated may have any number of requests', async (t) => {
  const h = await listen(t, 2)
  const session = connectHttp2(`http://127.0.0.1:${h.port}`)
  h.countConnect()
  t.teardown(() => session.destroy())
  await once(session.request({ ':path': '/known' }).resume(), 'end')
  const streams = Array.from({ length: 50 }, () => session.request({ ':path': '/watch' }).on('error', () => {}))
  await Promise.all(streams.map((stream) => once(stream, 'data')))
  await Promise.all([h.from(CROWD), h.from(CROWD)])
  t.equal(h.rejected(), 0)
})

void t.test('an anonymous client counts only between its requests', async (t) => {
  const h = await listen(t, 2)
  const watches = [await h.from(CROWD), await h.from(CROWD, true), await h.from(CROWD), await h.from(CROWD)]
  t.equal(h.rejected(), 2, 'before')
  const open = watches.slice(0, 2)
  for (const client of open) await client.ask('/allowed/watch')
  const idle = [await h.from(CROWD), await h.from(CROWD)]
  for (const client of idle) await client.ask('/allowed')
  t.equal(h.rejected(), 2)
  h.clock.advance(OLD_MS)
  await h.from(OTHER)
  await h.closes(idle[0]!)
  t.ok([...open, idle[1]!].every(({ isClosed }) => !isClosed))
})

void t.test(
  'connections of known clients that wait have a share; the user with the most loses its oldest',
  async (t) => {
    const h = await listen(t, 2)
    const other = await h.from(CROWD)
    await other.ask('/known', 'other')
    const watch = await h.from(CROWD)
    await watch.ask('/known/watch', 'many')
    const waiting: Client[] = []
    for (let i = 0; i < 5; i++) {
      const client = await h.from(CROWD, i % 2 === 1)
      await client.ask('/known', 'many')
      waiting.push(client)
      // Another request makes it the newest.
      if (i === 1) await waiting[0]!.ask('/known', 'many')
    }
    await Promise.all([waiting[1]!, waiting[0]!].map((client) => h.closes(client)))
    t.equal(h.rejected(), 2)
    t.same(
      [other, watch, ...waiting.slice(2)].map(({ isClosed }) => isClosed),
      [false, false, false, false, false],
    )
  },
)

void t.test('while memory is full, connections end with their answers, but running watches stay', async (t) => {
  const h = await listen(t, 100)
  const watch = await h.from(CROWD)
  await watch.ask('/known/watch')
  const session = connectHttp2(`http://127.0.0.1:${h.port}`)
  h.countConnect()
  t.teardown(() => session.destroy())
  const running = session.request({ ':path': '/known/watch' })
  running.on('error', () => {})
  await once(running, 'data')
  h.fill()
  for (const path of ['/known', '/allowed']) {
    for (const overTls of [false, true]) {
      const client = await h.from(CROWD, overTls)
      await client.ask(path)
      await h.closes(client)
    }
  }
  await once(session.request({ ':path': '/known' }).resume(), 'end')
  t.notOk(watch.isClosed)
  t.notOk(session.destroyed)
  running.close()
  await once(session, 'close')
  t.equal(h.rejected(), 0, 'nobody is cut off')
})

void t.test('when memory fills while a response is written, the connection serves one more request', async (t) => {
  for (const overTls of [false, true]) {
    const h = await listen(t, 100)
    const client = await h.from(CROWD, overTls)
    await client.ask('/known/held')
    h.fill()
    const ended = once(client.socket, 'data')
    h.release()
    await ended
    // The head of the first response promised to keep the connection.
    await client.ask('/known')
    await h.closes(client)
    t.equal(h.rejected(), 0)
  }
})

void t.test('when memory runs out, those that have waited for long are closed', async (t) => {
  const h = await listen(t, 100)
  const [known, old] = [await h.from(CROWD), await h.from(CROWD, true)]
  await known.ask('/known')
  h.clock.advance(2_000)
  const young = await h.from(CROWD)
  h.idleConnections.closeOlderThan(2_000)
  await h.closes(old)
  await young.ask('/known/watch')
  t.notOk(known.isClosed)
  h.idleConnections.setMaxBytes(0)
  const none = await h.from(CROWD)
  await h.closes(none)
  t.notOk(young.isClosed)
})
