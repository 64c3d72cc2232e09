/**
 * A server whose peer sends half of a request's trailers, and reads no response. Node 20 to 26 then aborts, unless the
 * fault that `keep-with-stream.ts` describes is avoided; otherwise the program ends when the session has been
 * collected.
 *
 * Arguments: `ours` or `bare`, a port of ours or a server of Node's own; and how the connection ends: it has `failed`,
 * its session is `destroyed`, or the peer sends a `reset`.
 */
import { once } from 'node:events'
import { type ServerHttp2Stream, createServer } from 'node:http2'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { createPlainListener } from '../../src/server/transports/server/listeners.js'
import { FLAG, PREFACE, TYPE, frame, headerBlock, request, settings, uint32 } from '../security/support/http2-frames.js'

const [, , whose, end] = process.argv
const WINDOW = 2 ** 31 - 1
/** More than the kernel buffers for a peer that reads nothing. */
const ANSWER_BYTES = 16 * 1024 * 1024
const collect = (globalThis as { gc?: () => void }).gc!

let isCollected = false
const collected = new FinalizationRegistry(() => (isCollected = true))
let asked: ServerHttp2Stream | null = null
const answer = (stream: ServerHttp2Stream): void => {
  stream.on('error', () => {})
  stream.respond()
  // A session with many unsent bytes takes no more fields.
  setImmediate(() => {
    stream.write(Buffer.alloc(ANSWER_BYTES))
    asked = stream
  })
}
const server =
  whose === 'bare'
    ? createServer().on('stream', answer)
    : createPlainListener((message) => answer((message as unknown as { stream: ServerHttp2Stream }).stream), {
        maxStreams: 10,
      })
server.listen(0, '127.0.0.1')
await once(server, 'listening')

/** Only this function has references to the session, so that it can be collected afterwards. */
async function attack(): Promise<void> {
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.on('error', () => {}).pause()
  client.write(
    Buffer.concat([
      PREFACE,
      settings([4, WINDOW]),
      frame(TYPE.windowUpdate, 0, 0, uint32(WINDOW - 65_535)),
      request(1, '/', [], 0),
      frame(TYPE.headers, FLAG.endStream, 1, headerBlock([['x-checksum', 'half of it']])),
    ]),
  )
  while (asked === null) await turn()
  const session = asked.session!
  asked = null
  session.on('error', () => {})
  const socket: Socket = session.socket.once('close', () => {})
  while (socket.writableLength === 0 && socket.bytesWritten < 65_536) await turn()
  const closed = new Promise((resolve) => void session.once('close', resolve))
  if (end === 'failed') socket.destroy(new Error('the connection fails'))
  else if (end === 'destroyed') session.destroy()
  else client.resetAndDestroy()
  await closed
  client.destroy()
  collected.register(session, null)
}

await attack()
while (!isCollected) {
  await turn()
  collect()
}
process.exit(0)
