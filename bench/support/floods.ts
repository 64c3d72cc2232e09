/**
 * Floods that no single request can cause: bytes that a client keeps sending on one connection. `bench -- loop`
 * measures the cost of each; tests check how the server ends them (`test/security/attack`).
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { FLAG, frame, PREFACE, request, settings, TYPE, uint32 } from '../../test/security/support/http2-frames.js'
import { sleep } from './processes.js'

export interface Flood {
  readonly name: string
  readonly pieces: () => Generator<Buffer, void, void>
  /** Whether the client reads the responses. */
  readonly isReading: boolean
  /** How many connections send it, one after another. */
  readonly connections: number
}

/**
 * A loopback address that nothing else in the bench uses, because the server may refuse connections from the flood's
 * address for a while.
 */
const ADDRESS = '127.0.0.9'
/** A server that has read nothing for this long has protected itself. */
const UNREAD_MS = 500
const ANSWERING_MS = 700
const PATH = '/api/v1/namespaces/bad/pods/victim'
const WATCH = '/api/v1/namespaces/bad/pods?watch=true&resourceVersion=0'
const authorization = 'Bearer admin'

const get = Buffer.from(`GET ${PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`)
const upgrade = Buffer.from(
  `GET ${WATCH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}\r\n\r\n`,
)
const http2Start = Buffer.concat([PREFACE, settings()])

function* times(count: number, make: (i: number) => Buffer): Generator<Buffer, void, void> {
  for (let i = 0; i < count; i++) yield make(i)
}

/** Returns a masked WebSocket frame, as clients send it (RFC 6455, 5.2). The mask is zero. */
function clientFrame(opcode: number, payload: string): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), Buffer.from(payload)])
}

function repeated(piece: Buffer, count: number): Buffer {
  return Buffer.concat(Array.from({ length: count }, () => piece))
}

export const floods: readonly Flood[] = [
  {
    name: '10,000 requests pipelined',
    connections: 1,
    isReading: true,
    *pieces() {
      yield* times(10, () => repeated(get, 1_000))
    },
  },
  {
    name: '2,000 requests pipelined, answers unread',
    connections: 4,
    isReading: false,
    *pieces() {
      yield repeated(get, 2_000)
    },
  },
  {
    name: 'HTTP/2 streams reset at once, 8,000',
    connections: 3,
    isReading: true,
    *pieces() {
      yield http2Start
      yield* times(80, (piece) =>
        Buffer.concat(
          Array.from({ length: 100 }, (_, i) => {
            const stream = 1 + 2 * (piece * 100 + i)
            return Buffer.concat([
              request(stream, PATH, [['authorization', authorization]]),
              frame(TYPE.reset, 0, stream, uint32(8)),
            ])
          }),
        ),
      )
    },
  },
  {
    name: 'HTTP/2 pings, 100,000',
    connections: 1,
    isReading: true,
    *pieces() {
      yield http2Start
      yield* times(100, () => repeated(frame(TYPE.ping, 0, 0, Buffer.alloc(8)), 1_000))
    },
  },
  {
    name: 'HTTP/2 data of no bytes, 100,000',
    connections: 1,
    isReading: true,
    *pieces() {
      yield http2Start
      yield request(1, PATH, [['authorization', authorization]], FLAG.endHeaders)
      yield* times(100, () => repeated(frame(TYPE.data, 0, 1), 1_000))
    },
  },
  {
    name: 'WebSocket messages of a byte, 100,000',
    connections: 1,
    isReading: true,
    *pieces() {
      yield upgrade
      yield* times(100, () => repeated(clientFrame(1, 'x'), 1_000))
    },
  },
  {
    name: 'WebSocket pings, 100,000',
    connections: 1,
    isReading: true,
    *pieces() {
      yield upgrade
      yield* times(100, () => repeated(clientFrame(9, ''), 1_000))
    },
  },
]

/**
 * Sends a flood to a port of this machine. @param answeringMs how long the client stays after it has sent everything.
 * @returns the status of the first response; 0 if there is none.
 */
export async function sendFlood(one: Flood, port: number, answeringMs = ANSWERING_MS): Promise<number> {
  let status = 0
  for (let i = 0; i < one.connections; i++) {
    const first = await sendOnce(one, port, answeringMs)
    status ||= Number(/^HTTP\/1\.1 (\d+)/.exec(first)?.[1] ?? 0)
  }
  return status
}

/**
 * Sends until the server ends the connection, stops reading, or the time is up. @returns the beginning of its response.
 */
async function sendOnce({ pieces, isReading }: Flood, port: number, answeringMs: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: ADDRESS })
  const ended = new AbortController()
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  void closed.then(() => ended.abort())
  // The server may end the connection with a reset.
  socket.on('error', () => undefined)
  let first = ''
  if (isReading) socket.on('data', (bytes: Buffer) => (first ||= bytes.subarray(0, 32).toString('latin1')))
  else socket.pause()
  for (const piece of pieces()) {
    if (ended.signal.aborted) break
    if (socket.write(piece)) continue
    const drained = once(socket, 'drain', { signal: ended.signal }).then(() => true)
    const hasDrained = await Promise.race([drained.catch(() => false), sleep(UNREAD_MS).then(() => false)])
    if (!hasDrained) break
  }
  await Promise.race([closed, sleep(answeringMs)])
  socket.destroy()
  return first
}
