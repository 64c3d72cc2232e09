/**
 * Servers behind this one that answer with whatever they like: what they send reaches one client, and no other request,
 * and this server lives on.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import net, { type AddressInfo, type Socket } from 'node:net'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { createAuthority } from '../support/certificates.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { type Held, hold } from './support/transports.js'

interface RawServer {
  readonly url: string
  readonly cafile: string
  /** Answers the request for a path, which has arrived without its body. */
  answer: (path: string, socket: Socket) => void
}

async function startRawServer(t: Test): Promise<RawServer> {
  const sockets = new Set<Socket>()
  const authority = createAuthority(t)
  const pair = authority.server()
  const server = tls.createServer({ cert: readFileSync(pair.cert), key: readFileSync(pair.key) }, (socket) => {
    sockets.add(socket)
    let text = ''
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      const path = text.split(' ')[1]!
      text = text.slice(end + 4)
      raw.answer(path, socket)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const raw: RawServer = { url: `https://127.0.0.1:${port}`, cafile: authority.ca, answer: () => undefined }
  return raw
}

const OK = 'HTTP/1.1 200 OK\r\n'
const EMPTY = 'Content-Length: 0\r\n\r\n'

const THINGS = '/apis/other.io/v1/things'
/** As much of a discovery document as this server reads. */
const MAX_DISCOVERY_BYTES = 4 * 2 ** 20

const startBefore = (t: Test, { url, cafile }: RawServer): Promise<ServerProcess> =>
  startServer(t, {
    flags: [
      ['--apiservice', `other.io/v1=${url}`, '--apiservice-cafile', cafile],
      ['--authorization-mode', 'AlwaysAllow', '--requests-per-second', '100000'],
    ].flat(),
  })

/** Whole answers, by what is wrong with them. */
const ANSWERS: Readonly<Record<string, string>> = {
  'a status above 599': `HTTP/1.1 700 Odd\r\n${EMPTY}`,
  'a status of 999': `HTTP/1.1 999 Odd\r\n${EMPTY}`,
  'a status below 100': `HTTP/1.1 099 Odd\r\n${EMPTY}`,
  'a status of four digits': `HTTP/1.1 2000 Odd\r\n${EMPTY}`,
  'no status': `HTTP/1.1 OK\r\n${EMPTY}`,
  'an upgrade that nobody asked for':
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nx',
  'informational answers': `${'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(1_000)}${OK}${EMPTY}`,
  'two content types': `${OK}Content-Type: a/b\r\nContent-Type: c/d\r\n${EMPTY}`,
  'two locations': `HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n${EMPTY}`,
  'two lengths': `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
  'a length and chunks': `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'headers of the connection': `${OK}Connection: x-one, close\r\nX-One: 1\r\nKeep-Alive: timeout=1\r\nHTTP2-Settings: AA\r\nTE: gzip\r\n${EMPTY}`,
  'a connection header without a value': `${OK}Connection:\r\nTransfer-Encoding: identity\r\n${EMPTY}`,
  'bytes above 127': `${OK}X-Odd: \xe9\xff\r\n${EMPTY}`,
  'a control character': `${OK}X-Odd: a\x01b\r\n${EMPTY}`,
  'a name with a colon': `${OK}:status: 500\r\n${EMPTY}`,
  'a name that objects inherit': `${OK}__proto__: 1\r\nconstructor: 2\r\n__proto__: 3\r\n${EMPTY}`,
  'many headers': `${OK}${'X-A: b\r\n'.repeat(1_500)}${EMPTY}`,
  'a header of 1 MB': `${OK}X-A: ${'b'.repeat(2 ** 20)}\r\n${EMPTY}`,
  'fewer bytes than announced': `${OK}Content-Length: 10\r\n\r\nabc`,
  'more bytes than announced': `${OK}Content-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen`,
  'a body for 204': 'HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nstolen',
  'a body for 304': 'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nstolen\r\n0\r\n\r\n',
  'a chunk of a negative size': `${OK}Transfer-Encoding: chunked\r\n\r\n-1\r\nabc`,
  'a chunk of 2^63 bytes': `${OK}Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\nabc`,
  'trailers that frame': `${OK}Transfer-Encoding: chunked\r\nTrailer: x, content-length\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nx: y\r\n\r\n`,
  'trailers that objects inherit': `${OK}Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n0\r\n__proto__: a\r\nx: \xff\r\n:path: /\r\n\r\n`,
  'trailers of 1 MB': `${OK}Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n0\r\nx: ${'y'.repeat(2 ** 20)}\r\n\r\n`,
  'another protocol': 'SSH-2.0-OpenSSH_9.9\r\n',
  TLS: '\x15\x03\x01\x00\x02\x02\x28',
  nothing: '',
}

void t.test('whatever an aggregated API answers, this server lives on and no other request is touched', async (t) => {
  const behind = await startRawServer(t)
  const server = await startBefore(t, behind)
  for (const [what, bytes] of Object.entries(ANSWERS)) {
    for (const transport of ['HTTP/1.1', 'HTTP/2'] as const) {
      behind.answer = (path, socket) => {
        socket.end(path === THINGS ? Buffer.from(bytes, 'latin1') : `${OK}${EMPTY}`)
      }
      const odd = await hold(server.url, transport, THINGS).catch((error: unknown) => error)
      if (!(odd instanceof Error)) {
        const { status, ended } = odd as Held
        await ended
        t.ok(status >= 200 && status < 600, `${what}, ${transport}: ${status}`)
        t.notMatch((odd as Held).text, 'stolen')
      }
      const next = await hold(server.url, transport, '/apis/other.io/v1/others')
      await next.ended
      t.equal(next.status, 200, `the next request after ${what}, ${transport}`)
      t.equal(next.text, '')
    }
  }
})

void t.test(
  'an answer that never ends takes no memory: discovery stops reading it, a slow client slows it',
  async (t) => {
    const behind = await startRawServer(t)
    const piece = Buffer.alloc(2 ** 16, ' ')
    const sent = new Map<string, number>()
    const closed = new Set<string>()
    behind.answer = (path, socket) => {
      socket.write(`${OK}Content-Type: application/json\r\n\r\n`)
      const send = (): void => {
        while (!socket.destroyed) {
          sent.set(path, (sent.get(path) ?? 0) + piece.length)
          if (!socket.write(piece)) return void socket.once('drain', send)
        }
      }
      socket.on('close', () => closed.add(path))
      send()
    }
    const server = await startBefore(t, behind)
    await until(() => closed.has('/apis/other.io/v1'), 'discovery gives up')
    t.ok(sent.get('/apis/other.io/v1')! < 4 * MAX_DISCOVERY_BYTES, 'about as much as a document may have')

    const { hostname, port } = new URL(server.url)
    const slow = net.connect(Number(port), hostname)
    t.teardown(() => slow.destroy())
    slow.write(`GET ${THINGS} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    slow.pause()
    let before = -1
    await until(() => {
      const now = sent.get(THINGS) ?? 0
      const isStill = now > 0 && now === before
      before = now
      return isStill
    }, 'the answer stands still while nobody reads it')
    t.ok(before < 64 * 2 ** 20, `${before} bytes lie between the two`)
    slow.destroy()
    await until(() => closed.has(THINGS), 'the answer ends with its client')
  },
)
