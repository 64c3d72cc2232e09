/**
 * A client whose server sends half of a response's trailers, and reads no request. Node 20 to 26 then aborts, unless
 * the fault that `keep-with-stream.ts` describes is avoided; otherwise the program ends when the session has been
 * collected.
 *
 * Arguments: `ours` or `bare`, our client of etcd or one of Node's own; and how the connection ends: it has `failed`,
 * its session is `destroyed` (in ours by an unanswered ping), or the server sends a `reset`.
 */
import { once } from 'node:events'
import http2, { type ClientHttp2Session } from 'node:http2'
import { syncBuiltinESMExports } from 'node:module'
import { type AddressInfo, type Socket, createServer } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { GrpcEndpoint } from '../../src/engine/upstream/etcd/grpc-endpoint.js'
import {
  FLAG,
  PREFACE,
  TYPE,
  frame,
  headerBlock,
  parseFrames,
  settings,
  uint32,
} from '../security/support/http2-frames.js'

const [, , whose, end] = process.argv
const WINDOW = 2 ** 31 - 1
/** More than the kernel buffers for a peer that reads nothing. */
const REQUEST_BYTES = 16 * 1024 * 1024
const EMPTY_MESSAGE = Buffer.alloc(5)
const collect = (globalThis as { gc?: () => void }).gc!

let isCollected = false
const collected = new FinalizationRegistry(() => (isCollected = true))

let session: ClientHttp2Session | null = null
const { connect } = http2
const remembered = (...all: Parameters<typeof connect>): ClientHttp2Session => (session = connect(...all))
http2.connect = remembered as typeof connect
syncBuiltinESMExports()

let peer: Socket | null = null
const server = createServer((socket) => {
  peer = socket
  socket.on('error', () => {})
  socket.write(Buffer.concat([settings([4, WINDOW]), frame(TYPE.windowUpdate, 0, 0, uint32(WINDOW - 65_535))]))
  let received = Buffer.alloc(0)
  socket.on('data', (bytes) => {
    received = Buffer.concat([received, bytes])
    if (!parseFrames(received.subarray(PREFACE.length)).some(({ type }) => type === TYPE.headers)) return
    socket.pause()
    socket.write(
      Buffer.concat([
        frame(TYPE.headers, FLAG.endHeaders, 1, headerBlock([[':status', '200']])),
        frame(TYPE.data, 0, 1, EMPTY_MESSAGE),
        frame(TYPE.headers, FLAG.endStream, 1, headerBlock([['grpc-message', 'half of it']])),
      ]),
    )
  })
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** Sends a request that the server does not read, once its response has begun. */
async function ask(): Promise<void> {
  if (whose === 'ours') {
    const keepAlive = { keepAliveTimeMs: end === 'destroyed' ? 50 : 60_000, keepAliveTimeoutMs: 50 }
    const endpoint = new GrpcEndpoint({ url, ...keepAlive, maxReceivedBytes: 1_000 })
    await endpoint.connect(10_000)
    await new Promise<void>((resolve) => {
      const call = endpoint.stream(
        '/etcdserverpb.KV/Put',
        {},
        { onMessage: () => void turn().then(send), onEnd: () => {} },
      )
      const send = (): void => {
        call.send(Buffer.alloc(REQUEST_BYTES))
        resolve()
      }
    })
    return
  }
  const bare = http2.connect(url).on('error', () => {})
  await once(bare, 'remoteSettings')
  const stream = bare.request({ ':method': 'POST' })
  stream.on('error', () => {}).resume()
  await once(stream, 'response')
  // A session with many unsent bytes reads nothing more.
  await turn()
  stream.write(Buffer.alloc(REQUEST_BYTES))
}

/** Only this function has references to the session, so that it can be collected afterwards. */
async function attack(): Promise<void> {
  await ask()
  const asked = session!
  session = null
  asked.on('error', () => {})
  const closed = new Promise((resolve) => void asked.once('close', resolve))
  const socket: Socket = asked.socket.once('close', () => {})
  while (socket.writableLength === 0 && socket.bytesWritten < 65_536) await turn()
  if (end === 'failed') socket.destroy(new Error('the connection fails'))
  else if (end === 'reset') peer!.resetAndDestroy()
  else if (whose === 'bare') {
    asked.destroy()
    // Node waits for the write otherwise.
    setTimeout(() => socket.destroy(), 50)
  }
  await closed
  peer!.destroy()
  collected.register(asked, null)
}

await attack()
while (!isCollected) {
  await turn()
  collect()
}
process.exit(0)
