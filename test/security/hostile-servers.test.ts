/**
 * Servers behind this one that answer with whatever they like: their responses reach one client and affect no other
 * request, and this server survives.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import net, { type AddressInfo, type Socket } from 'node:net'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { createAuthority } from '../support/certificates.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { ANSWERS, EMPTY, OK } from './support/hostile-answers.js'
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

const THINGS = '/apis/other.io/v1/things'
/** The server reads no more than this of a discovery document. */
const MAX_DISCOVERY_BYTES = 4 * 2 ** 20

const startBefore = (t: Test, { url, cafile }: RawServer): Promise<ServerProcess> =>
  startServer(t, {
    flags: [
      ['--apiservice', `other.io/v1=${url}`, '--passthrough-cafile', cafile],
      ['--authorization-mode', 'AlwaysAllow', '--requests-per-second', '100000'],
    ].flat(),
  })

void t.test('whatever an aggregated API answers, this server survives and no other request is affected', async (t) => {
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
