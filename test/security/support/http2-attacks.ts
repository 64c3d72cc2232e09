/** HTTP/2 that breaks its rules, or follows them endlessly. */
import type { Socket } from 'node:net'
import { type Random, randomInteger } from '../../../src/support/random.js'
import { FLAG, type Headers, PREFACE, TYPE, frame, headerBlock, request, settings, uint32 } from './http2-frames.js'
import { TOKENS } from './stage.js'

const OPEN = '/api/v1/namespaces/open/pods'
const CLOSED = '/api/v1/namespaces/closed/pods'
const low: Headers = [['authorization', `Bearer ${TOKENS.low}`]]
const start = Buffer.concat([PREFACE, settings()])

/** Malformed requests, or requests for what is closed: never answered with 200, although the credentials are valid. */
export function malformedRequests(): readonly (readonly [name: string, bytes: Buffer])[] {
  const pseudo: Headers = [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':authority', 'localhost'],
    [':path', OPEN],
  ]
  const block = (headers: Headers): Buffer =>
    frame(TYPE.headers, FLAG.endStream | FLAG.endHeaders, 1, headerBlock(headers))
  const rows: readonly (readonly [string, Buffer])[] = [
    ['two paths', block([...pseudo, [':path', CLOSED], ...low])],
    ['a path after the headers', block([...pseudo.slice(0, 3), ...low, [':path', OPEN]])],
    ['no path', block([...pseudo.slice(0, 3), ...low])],
    ['an empty path', block([...pseudo.slice(0, 3), [':path', ''], ...low])],
    ['an unknown pseudo header', block([...pseudo, [':admin', '1'], ...low])],
    ['a status in a request', block([...pseudo, [':status', '200'], ...low])],
    ['upper case', block([...pseudo, ['Authorization', `Bearer ${TOKENS.low}`]])],
    ['Transfer-Encoding', block([...pseudo, ['transfer-encoding', 'chunked'], ...low])],
    ['Connection', block([...pseudo, ['connection', 'upgrade'], ['upgrade', 'websocket'], ...low])],
    // The field is dropped, and with it the credentials.
    ['CR LF in credentials', block([...pseudo, ['authorization', `Bearer ${TOKENS.low}\r\nx: y`]])],
    ['CR LF in the path', block([...pseudo.slice(0, 3), [':path', `${OPEN} HTTP/1.1\r\nHost: b\r\n\r\n`], ...low])],
    ['NUL in credentials', block([...pseudo, ['authorization', `Bearer ${TOKENS.low}\0`]])],
    ['a length that is not the body\'s', Buffer.concat([frame(TYPE.headers, FLAG.endHeaders, 1, headerBlock([[':method', 'POST'], ...pseudo.slice(1), ['content-length', '1'], ...low])), frame(TYPE.data, FLAG.endStream, 1, Buffer.from('12345'))])], // prettier-ignore
    ['the path of the closed namespace', request(1, CLOSED, low)],
    ['dot segments', request(1, `${OPEN}/../../closed/pods`, low)],
    ['an absolute path', request(1, `https://localhost${CLOSED}`, low)],
    ['two tokens', request(1, OPEN, [...low, ['authorization', `Bearer ${TOKENS.admin}`]])],
    ['an even stream', request(2, OPEN, low)],
    ['stream 0', request(0, OPEN, low)],
    ['HEADERS without an end, then DATA', Buffer.concat([frame(TYPE.headers, 0, 1, headerBlock([...pseudo, ...low])), frame(TYPE.data, 1, 1)])], // prettier-ignore
    ['a push', frame(TYPE.push, FLAG.endHeaders, 1, Buffer.concat([uint32(2), headerBlock([...pseudo, ...low])]))],
    ['a frame beyond the limit', frame(TYPE.headers, FLAG.endHeaders, 1, Buffer.alloc(20_000))],
    [
      'broken HPACK',
      frame(TYPE.headers, FLAG.endStream | FLAG.endHeaders, 1, Buffer.from('ffffffffffffffff0f', 'hex')),
    ],
    ['an index that is not there', frame(TYPE.headers, FLAG.endStream | FLAG.endHeaders, 1, Buffer.from([0xfe]))],
    ['padding longer than the frame', frame(TYPE.headers, FLAG.endStream | FLAG.endHeaders | FLAG.padded, 1, Buffer.from([255, 0, 0]))], // prettier-ignore
  ]
  return rows.map(([name, bytes]) => [`HTTP/2: ${name}`, Buffer.concat([start, bytes])])
}

/** A request for this path, with the credentials of a caller who may read the open namespace. */
export function requestFor(path: string): Buffer {
  return Buffer.concat([start, request(1, path, low)])
}

/** Bytes of which only the preface is HTTP/2. */
export function randomFrames(random: Random): Buffer {
  const frames = Array.from({ length: randomInteger(random, 1, 40) }, () => {
    const payload = Buffer.from(
      Array.from({ length: randomInteger(random, 0, 60) }, () => randomInteger(random, 0, 255)),
    )
    return frame(randomInteger(random, 0, 12), randomInteger(random, 0, 255), randomInteger(random, 0, 9), payload)
  })
  return Buffer.concat([start, ...frames])
}

export interface Flood {
  readonly name: string
  /** Endless frames; the flood stops when the server closes the connection. */
  readonly pieces: (random: Random) => Generator<Buffer, void, void>
  readonly isReading: boolean
}

function* repeat(times: number, make: (i: number) => Buffer): Generator<Buffer, void, void> {
  for (let i = 0; i < times; i++) yield make(i)
}

export const floods: readonly Flood[] = [
  {
    name: 'rapid reset',
    isReading: true,
    *pieces() {
      yield start
      yield* repeat(8_000, (i) =>
        Buffer.concat([request(1 + 2 * i, OPEN, low), frame(TYPE.reset, 0, 1 + 2 * i, uint32(8))]),
      )
    },
  },
  {
    name: 'pings, answers unread',
    isReading: false,
    *pieces() {
      yield start
      yield* repeat(200, () =>
        Buffer.concat(Array.from({ length: 500 }, () => frame(TYPE.ping, 0, 0, Buffer.alloc(8)))),
      )
    },
  },
  {
    name: 'settings, answers unread',
    isReading: false,
    *pieces() {
      yield start
      yield* repeat(200, () => Buffer.concat(Array.from({ length: 500 }, (_, i) => settings([4, 65_535 + i]))))
    },
  },
  {
    name: 'headers that never end',
    isReading: true,
    *pieces() {
      yield start
      yield frame(TYPE.headers, 0, 1, headerBlock([[':method', 'GET']]))
      const more = headerBlock([['x', 'y'.repeat(16_000)]])
      yield* repeat(2_000, () => frame(TYPE.continuation, 0, 1, more))
    },
  },
  {
    name: 'empty continuations',
    isReading: true,
    *pieces() {
      yield start
      yield frame(TYPE.headers, 0, 1, headerBlock([[':method', 'GET']]))
      yield* repeat(200, () => Buffer.concat(Array.from({ length: 500 }, () => frame(TYPE.continuation, 0, 1))))
    },
  },
  {
    name: 'a header bomb',
    isReading: true,
    *pieces() {
      yield start
      // A long header enters the table (6.2.1); then its one-byte index is repeated.
      const long = Buffer.concat([
        Buffer.from([0x40, 1, 0x78]),
        Buffer.from([127, 0x81, 0x1e]),
        Buffer.alloc(3_968, 0x79),
      ])
      yield frame(
        TYPE.headers,
        FLAG.endStream | FLAG.endHeaders,
        1,
        Buffer.concat([headerBlock([[':method', 'GET']]), long]),
      )
      const bomb = Buffer.concat([headerBlock([[':method', 'GET'], [':scheme', 'https'], [':path', OPEN], ...low]), Buffer.alloc(15_000, 0xbe)]) // prettier-ignore
      yield* repeat(100, (i) => frame(TYPE.headers, FLAG.endStream | FLAG.endHeaders, 3 + 2 * i, bomb))
    },
  },
  {
    name: 'empty data',
    isReading: true,
    *pieces() {
      yield start
      yield request(1, OPEN, low, 0)
      yield* repeat(200, () => Buffer.concat(Array.from({ length: 500 }, () => frame(TYPE.data, 0, 1))))
    },
  },
  {
    name: 'priorities',
    isReading: true,
    *pieces() {
      yield start
      yield* repeat(200, (n) => Buffer.concat(Array.from({ length: 500 }, (_, i) => frame(TYPE.priority, 0, 1 + 2 * (n * 500 + i), Buffer.from([0, 0, 0, 0, 255]))))) // prettier-ignore
    },
  },
  {
    name: 'windows of nothing',
    isReading: true,
    *pieces() {
      yield Buffer.concat([PREFACE, settings([4, 0])])
      yield* repeat(240, (i) => request(1 + 2 * i, `${OPEN}?resourceVersion=0&labelSelector=n!%3D${i}`, low))
    },
  },
  {
    name: 'windows beyond their limit',
    isReading: true,
    *pieces() {
      yield start
      yield request(1, `${OPEN}?watch=1&timeoutSeconds=2`, low)
      yield* repeat(2, () => frame(TYPE.windowUpdate, 0, 0, uint32(2 ** 31 - 1)))
    },
  },
  {
    name: 'more streams than allowed',
    isReading: true,
    *pieces() {
      yield start
      yield* repeat(2_000, (i) => request(1 + 2 * i, `${OPEN}?watch=1&timeoutSeconds=2`, low))
    },
  },
  {
    name: 'random frames',
    isReading: true,
    *pieces(random) {
      for (let i = 0; i < 30; i++) yield randomFrames(random)
    },
  },
]

/** Sends frames until the flood ends or the server closes. @returns the bytes sent, and what was received. */
export async function flood(
  socket: Socket,
  { pieces, isReading }: Flood,
  random: Random,
): Promise<{ readonly sent: number; readonly heard: Buffer; readonly isClosed: boolean }> {
  const heard: Buffer[] = []
  let isClosed = false
  let wake = (): void => {}
  socket.on('close', () => {
    isClosed = true
    wake()
  })
  socket.on('drain', () => wake())
  if (isReading) socket.on('data', (bytes: Buffer) => heard.push(bytes))
  else socket.pause()
  let sent = 0
  const wait = (ms: number): Promise<boolean> =>
    new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), ms)
      wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
  for (const piece of pieces(random)) {
    if (isClosed || !socket.writable) break
    sent += piece.length
    // A server that stops reading has protected itself.
    if (!socket.write(piece) && !(await wait(1_000))) break
    if (sent % 7 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  if (!isClosed) await wait(150)
  socket.destroy()
  return { sent, heard: Buffer.concat(heard), isClosed }
}
