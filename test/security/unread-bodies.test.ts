/**
 * Unwanted bodies and messages, sent one byte at a time to hold memory: on watches, which live for hours, and on
 * requests that wait. Each piece takes hundreds of times its size.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { secureFlags } from '../support/secure-flags.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { FLAG, frame, headerBlock, parseFrames, PREFACE, settings, TYPE } from './support/http2-frames.js'

const MiB = 2 ** 20
const WATCH = '/api/v1/pods?watch=true'
const WATCH_IN_CHUNKS = `GET ${WATCH} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n`
const ATTACKERS = 40
/** How much of an unread body Node buffers; an HTTP/2 window. */
const BYTES = 65_535

interface Attacker {
  readonly socket: Socket
  readonly heard: () => Buffer
}

async function attacker(t: Test, { port, securePort }: ServerProcess, isHttp2 = false): Promise<Attacker> {
  const socket = isHttp2
    ? connectTls({ port: securePort, host: '127.0.0.1', ALPNProtocols: ['h2'], rejectUnauthorized: false })
    : connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => {})
  await once(socket, isHttp2 ? 'secureConnect' : 'connect')
  return { socket, heard: () => Buffer.concat(chunks) }
}

/** Resolves when the bytes are sent, or the server has closed the connection. */
async function sendAll(socket: Socket, bytes: Buffer | string): Promise<void> {
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()))
}

async function heldBy(server: ServerProcess, attack: () => Promise<void>): Promise<number> {
  const before = server.memory().now
  await attack()
  return Math.round((server.memory().peak - before) / MiB)
}

/** The streams answered with any status. */
const answers = (heard: Buffer): number => parseFrames(heard).filter(({ type }) => type === TYPE.headers).length

void t.test('unread bodies - a watch over HTTP/1.1 holds none', async (t) => {
  t.setTimeout(120_000)
  const server = await startServer(t, { flags: [] })
  const attackers = await Promise.all(Array.from({ length: ATTACKERS }, () => attacker(t, server)))
  const held = await heldBy(server, async () => {
    for (const { socket } of attackers) await sendAll(socket, `${WATCH_IN_CHUNKS}${'1\r\nx\r\n'.repeat(BYTES)}`)
    const isOver = ({ socket, heard }: Attacker): boolean => socket.closed || heard().includes('\r\n\r\n')
    await until(() => attackers.every(isOver), 'all are answered', 110_000)
  })
  t.ok(held < 100, `${held} MiB`)
  // A connection that is closed while bytes are in flight may lose the response.
  const told = attackers.map(({ heard }) => heard().toString('latin1')).filter((text) => text !== '')
  t.ok(
    told.every((text) => /^HTTP\/1.1 400 [^]*pieces that are too small/.test(text)),
    `${told.length} were answered`,
  )
})

void t.test('unread bodies - a watch over HTTP/2 holds none', async (t) => {
  t.setTimeout(120_000)
  const server = await startServer(t, { flags: secureFlags() })
  const { socket, heard } = await attacker(t, server, true)
  const watch = headerBlock([
    [':method', 'GET'],
    [':scheme', 'https'],
    [':authority', 'localhost'],
    [':path', WATCH],
  ])
  const held = await heldBy(server, async () => {
    await sendAll(socket, Buffer.concat([PREFACE, settings()]))
    for (let i = 0; i < ATTACKERS; i++) {
      const stream = 2 * i + 1
      await sendAll(socket, frame(TYPE.headers, FLAG.endHeaders, stream, watch))
      await sendAll(socket, Buffer.concat(Array<Buffer>(BYTES).fill(frame(TYPE.data, 0, stream, Buffer.from('x')))))
    }
    await until(
      () => answers(heard()) === ATTACKERS || socket.closed,
      () => `${answers(heard())} are answered`,
      110_000,
    )
  })
  t.ok(held < 100, `${held} MiB`)
})
