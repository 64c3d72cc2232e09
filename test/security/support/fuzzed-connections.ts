/**
 * Connections that begin as a client's or an attacker's, over HTTP/1.1, HTTP/2 and WebSocket, and are then changed at
 * random: in single bits, in whole frames and lines, in their order, and in how they are cut into packets.
 */
import type { Socket } from 'node:net'
import { type Random, randomInteger } from '../../../src/support/random.js'
import { LOW, bodyAttacks, get, headerAttacks, smugglingAttacks, webSocketAttacks } from './http1-attacks.js'
import { malformedRequests, randomFrames } from './http2-attacks.js'
import { FLAG, type Headers, PREFACE, TYPE, frame, headerBlock, request, settings, uint32 } from './http2-frames.js'
import { type Heard, type Layer, open, type Target } from './raw.js'
import { TOKENS } from './stage.js'
import { clientHello } from './tls-attacks.js'

type Parts = readonly Buffer[]

export interface FuzzedConnection {
  readonly layer: Layer
  readonly packets: Parts
  /** How long it stays after its last packet, unless the server ends it. */
  readonly staysMs: number
}

const OPEN = '/api/v1/namespaces/open/pods'
const low: Headers = [['authorization', `Bearer ${TOKENS.low}`]]
const WATCH = `${OPEN}?watch=1&resourceVersion=0&timeoutSeconds=2`

/** Values at which lengths, windows and identifiers change their meaning. */
const EDGES = [0, 1, 2, 0x7f, 0x80, 0xff, 0x3fff, 0x4000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]

const asBuffers = (parts: readonly (Buffer | string)[]): Parts =>
  parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part))

const http1: readonly Parts[] = [
  [get(OPEN, LOW)],
  [get(WATCH, LOW)],
  [get(`${OPEN}?limit=2`, LOW), get(`${OPEN}/p1`, LOW), get('/livez', LOW)],
  [get(WATCH, LOW, 'Accept: text/event-stream', 'Last-Event-ID: 5')],
  [get(OPEN, LOW, 'Accept: application/json;as=Table;v=v1;g=meta.k8s.io', 'Accept-Encoding: gzip', 'If-None-Match: "a"')],
  [`POST ${OPEN} HTTP/1.1\r\nHost: localhost\r\n${LOW}\r\nTransfer-Encoding: chunked\r\n\r\n`, '5\r\nhello\r\n', '0\r\n\r\n'],
  ...[...smugglingAttacks(), ...bodyAttacks()].map(({ parts }) => parts),
].map(asBuffers) // prettier-ignore

const http2: readonly Parts[] = [
  [request(1, OPEN, low), request(3, WATCH, low), frame(TYPE.windowUpdate, 0, 0, uint32(70_000)), frame(TYPE.ping, 0, 0, Buffer.alloc(8)), frame(TYPE.reset, 0, 3, uint32(8))],
  [settings([4, 1]), request(1, WATCH, low), request(3, OPEN, low), frame(TYPE.windowUpdate, 0, 1, uint32(5)), frame(TYPE.windowUpdate, 0, 3, uint32(9)), settings([4, 65_535], [1, 0], [5, 16_384])],
  [frame(TYPE.headers, FLAG.endHeaders, 1, headerBlock([[':method', 'POST'], [':scheme', 'https'], [':authority', 'localhost'], [':path', OPEN], ...low])), frame(TYPE.data, FLAG.padded, 1, Buffer.concat([Buffer.from([4]), Buffer.from('{"kind":"Pod"}'), Buffer.alloc(4)])), frame(TYPE.data, FLAG.endStream, 1)],
  [frame(TYPE.headers, FLAG.endStream, 1, headerBlock([[':method', 'GET'], [':scheme', 'https']])), frame(TYPE.continuation, 0, 1, headerBlock([[':authority', 'localhost'], [':path', OPEN]])), frame(TYPE.continuation, FLAG.endHeaders, 1, headerBlock(low))],
  [request(1, OPEN, low), frame(TYPE.priority, 0, 1, Buffer.from('8000000310', 'hex')), frame(TYPE.goaway, 0, 0, Buffer.alloc(8)), request(3, OPEN, low)],
] // prettier-ignore

const webSocket: readonly Parts[] = webSocketAttacks().map(({ parts }) => asBuffers(parts))
/** A complete handshake, whose frames alone are changed. */
const UPGRADE = asBuffers(webSocketAttacks().find(({ name }) => name === 'WebSocket: garbage')!.parts)[0]!
const MASK = Buffer.from('01020304', 'hex')

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, 0, from.length - 1)]!
}

function randomBytes(random: Random, most: number): Buffer {
  return Buffer.from(Array.from({ length: randomInteger(random, 0, most) }, () => randomInteger(random, 0, 255)))
}

/** A masked frame of any type and size, whose length field may be wrong. */
function webSocketFrame(random: Random): Buffer {
  const payload = randomBytes(random, pick(random, [0, 4, 125, 126, 600]))
  const first = pick(random, [0x81, 0x82, 0x01, 0x00, 0x80, 0x88, 0x89, 0x8a, 0xc1, randomInteger(random, 0, 255)])
  const length = random.next() < 0.8 ? payload.length : pick(random, EDGES)
  const head = length < 126 ? Buffer.from([first, 0x80 | length]) : Buffer.alloc(4)
  if (length >= 126) {
    head[0] = first
    head[1] = 0xfe
    head.writeUInt16BE(length & 0xffff, 2)
  }
  return Buffer.concat([head, MASK, payload])
}

/** Leaves a part as it is, or changes some of its bits, or an integer, or its length. */
function changed(random: Random, part: Buffer): Buffer {
  if (part.length === 0 || random.next() < 0.6) return part
  const bytes = Buffer.from(part)
  const at = randomInteger(random, 0, bytes.length - 1)
  switch (randomInteger(random, 0, 4)) {
    case 0:
      for (let i = randomInteger(random, 1, 8); i > 0; i--) {
        bytes[randomInteger(random, 0, bytes.length - 1)]! ^= 1 << randomInteger(random, 0, 7)
      }
      return bytes
    case 1:
      if (at + 4 <= bytes.length) bytes.writeUInt32BE(pick(random, EDGES), at)
      return bytes
    case 2:
      return bytes.subarray(0, at)
    case 3:
      return Buffer.concat([bytes.subarray(0, at), randomBytes(random, 40), bytes.subarray(at)])
    default: {
      const until = randomInteger(random, at, bytes.length)
      return Buffer.concat([bytes.subarray(0, until), bytes.subarray(at)])
    }
  }
}

/** Drops, repeats, swaps or changes random parts of a connection. */
function mutated(random: Random, parts: Parts): Parts {
  const made = parts.flatMap((part) => {
    const chance = random.next()
    if (chance < 0.05) return []
    if (chance < 0.15) return Array<Buffer>(randomInteger(random, 2, 20)).fill(changed(random, part))
    return [changed(random, part)]
  })
  if (made.length > 1 && random.next() < 0.2) {
    const i = randomInteger(random, 0, made.length - 2)
    ;[made[i], made[i + 1]] = [made[i + 1]!, made[i]!]
  }
  return made
}

/** Cuts the bytes into other packets, so that a frame or line may begin anywhere in one. */
function packets(random: Random, parts: Parts): Parts {
  if (random.next() < 0.5) return parts
  const bytes = Buffer.concat(parts)
  const most = pick(random, [1, 7, 100, 2_000])
  const cut: Buffer[] = []
  // A long remainder is sent in one piece: byte by byte would only take time.
  for (let at = 0; at < bytes.length;) {
    const end = cut.length < 60 ? at + randomInteger(random, 1, most) : bytes.length
    cut.push(bytes.subarray(at, end))
    at = end
  }
  return cut
}

export function fuzzedConnection(random: Random): FuzzedConnection {
  const staysMs = pick(random, [0, 0, 20, 100, 1_000])
  const make = (layer: Layer, parts: Parts): FuzzedConnection => ({ layer, packets: packets(random, parts), staysMs })
  const chance = random.next()
  if (chance < 0.25) {
    const base = random.next() < 0.2 ? asBuffers(pick(random, headerAttacks(random)).parts) : pick(random, http1)
    return make(pick(random, ['plain', 'tls']), mutated(random, base))
  }
  if (chance < 0.65) {
    const layer = pick<Layer>(random, ['h2', 'h2c'])
    if (random.next() < 0.2) return make(layer, [randomFrames(random)])
    if (random.next() < 0.2) return make(layer, mutated(random, [pick(random, malformedRequests())[1]]))
    return make(layer, [PREFACE, settings(), ...mutated(random, pick(random, http2))])
  }
  if (chance < 0.95) {
    const layer = pick<Layer>(random, ['plain', 'tls'])
    if (random.next() < 0.3) return make(layer, mutated(random, pick(random, webSocket)))
    const frames = Array.from({ length: randomInteger(random, 1, 30) }, () => webSocketFrame(random))
    return make(layer, [UPGRADE, ...mutated(random, frames)])
  }
  return make('tcp-to-tls', mutated(random, [clientHello(random)]))
}

/** Sends it, a packet in each turn, and returns what came back. */
export async function run(target: Target, { layer, packets: parts, staysMs }: FuzzedConnection): Promise<Heard> {
  let socket: Socket
  try {
    socket = await open(target, layer)
  } catch {
    return { text: '', bytes: Buffer.alloc(0), isClosed: true }
  }
  const heard: Buffer[] = []
  let isClosed = false
  socket.setNoDelay(true)
  socket.on('data', (bytes: Buffer) => heard.push(bytes))
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      isClosed = true
      resolve()
    })
  })
  for (const part of parts) {
    if (!socket.writable) break
    socket.write(part)
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (staysMs > 0) await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, staysMs))])
  socket.destroy()
  const bytes = Buffer.concat(heard)
  return { text: bytes.toString('latin1'), bytes, isClosed }
}
