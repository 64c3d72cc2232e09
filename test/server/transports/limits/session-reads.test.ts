/** Tests that the HTTP/2 connections of one client are read in turns, on connections that are all ready at once. */
import { once } from 'node:events'
import { createSecureServer, createServer, type Http2Server, type ServerHttp2Session } from 'node:http2'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { SessionReads } from '../../../../src/server/transports/limits/session-reads.js'
import { frame, PREFACE, request, settings, TYPE, uint32 } from '../../../security/support/http2-frames.js'
import { selfSignedCertificate } from '../../../support/issue-certificate.js'
import { until } from '../../../support/until.js'

const CONNECTIONS = 20
const STREAMS = 10
const certificate = selfSignedCertificate()

for (const isSecure of [false, true]) {
  const how = isSecure ? 'TLS' : 'plain'
  void t.test(`a burst on many connections is read in turns, and other clients are not held (${how})`, async (t) => {
    const h = await listen(t, isSecure)
    const burst: Socket[] = []
    for (let i = 0; i < CONNECTIONS; i++) burst.push(await h.open('burst'))
    const other = await h.open('other')
    for (let round = 0; round < 2; round++) {
      h.seen.length = 0
      for (const socket of burst) socket.write(requests(round * STREAMS))
      other.write(request(1 + 2 * round * STREAMS, '/'))
      const all = CONNECTIONS * STREAMS + 1
      await until(() => h.seen.length === all && h.answered === all * (round + 1), 'every request is answered')
      const otherAt = h.seen.findIndex(({ client }) => client === 'other')
      t.ok(otherAt <= 4 * STREAMS, `the other client is read after ${otherAt} of ${all} requests`)
    }
    for (const socket of burst) socket.destroy()
    await until(() => h.sessions() === 1, 'closed connections are forgotten')
  })
}

void t.test('a connection that always has more to read does not keep the others of its client waiting', async (t) => {
  const h = await listen(t, false)
  const greedy = await h.open('one')
  const others: Socket[] = []
  for (let i = 0; i < 5; i++) others.push(await h.open('one'))
  // A read of 64 KB brings 900 of them.
  const many = 20_000
  greedy.write(Buffer.concat(Array.from({ length: many }, (_, i) => request(1 + 2 * i, '/'))))
  for (const other of others) other.write(request(1, '/'))
  await until(() => h.answered === many + others.length, 'every request is answered')
  const greedySession = h.seen.at(-1)!.session
  const lastAt = h.seen.findLastIndex(({ session }) => session !== greedySession)
  t.ok(lastAt < many / 4, `the last of them is read after ${lastAt} of ${many} requests`)
})

void t.test('an answer larger than every window arrives although its connection is held again and again', async (t) => {
  const h = await listen(t, false, Buffer.alloc(200_000))
  const socket = await h.open('one')
  const other = await h.open('one')
  let received = 0
  socket.on('data', (bytes: Buffer) => {
    received += bytes.length
    socket.write(Buffer.concat([0, 1].map((stream) => frame(TYPE.windowUpdate, 0, stream, uint32(bytes.length)))))
  })
  socket.write(request(1, '/'))
  for (let i = 0; received < 200_000; i++) {
    other.write(request(1 + 2 * i, '/'))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  t.ok(received >= 200_000)
})

function requests(from: number): Buffer {
  return Buffer.concat(Array.from({ length: STREAMS }, (_, i) => request(1 + 2 * (from + i), '/')))
}

interface Seen {
  readonly client: string
  readonly session: ServerHttp2Session
}

interface Listening {
  /** Every stream, in order. */
  readonly seen: Seen[]
  readonly answered: number
  sessions(): number
  /** Resolves when the session has begun. */
  open(client: string): Promise<Socket>
}

/** Starts a server whose streams each use up the time that a session may take. */
async function listen(t: Test, isSecure: boolean, answer = Buffer.alloc(0)): Promise<Listening> {
  const reads = new SessionReads({ isOver: true })
  const server: Http2Server = isSecure ? createSecureServer(certificate) : createServer({ maxSessionMemory: 256 })
  const clients = new WeakMap<ServerHttp2Session, string>()
  const sessions = new Set<ServerHttp2Session>()
  const names: string[] = []
  const seen: Seen[] = []
  let answered = 0
  server.on('session', (session) => {
    const client = names.shift()!
    clients.set(session, client)
    sessions.add(session)
    session.on('error', () => {}).once('close', () => sessions.delete(session))
    reads.follow(session, client)
  })
  server.on('stream', (stream) => {
    const session = stream.session as ServerHttp2Session
    seen.push({ client: clients.get(session)!, session })
    reads.streamWaits(session)
    stream.on('error', () => {})
    stream.once('finish', () => answered++)
    setImmediate(() => {
      if (stream.destroyed) return
      stream.respond({ ':status': 200 })
      stream.end(answer)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const open: Socket[] = []
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    seen,
    get answered() {
      return answered
    },
    sessions: () => sessions.size,
    open: async (client) => {
      names.push(client)
      const options = { port, host: '127.0.0.1' }
      const socket = isSecure
        ? connectTls({ ...options, rejectUnauthorized: false, ALPNProtocols: ['h2'] })
        : connect(options)
      open.push(socket)
      socket.on('error', () => {}).resume()
      await once(socket, isSecure ? 'secureConnect' : 'connect')
      socket.write(Buffer.concat([PREFACE, settings()]))
      await until(() => names.length === 0, 'the session')
      return socket
    },
  }
}
