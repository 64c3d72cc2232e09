/**
 * A server whose peers send a malformed request and then one that ends the session, while the garbage collector runs in
 * every turn. Node 20 to 26 then aborts, unless the fault that `keep-with-stream.ts` describes is avoided.
 *
 * Argument: `ours` or `bare`, a port of ours or a server of Node's own.
 */
import { once } from 'node:events'
import { createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net'
import { createPlainListener } from '../../src/server/transports/server/listeners.js'
import { FLAG, PREFACE, TYPE, frame, headerBlock, request, settings } from '../security/support/http2-frames.js'

const ROUNDS = 3
/** Several at once, so that collections come between the end of one and the next turn. */
const CONNECTIONS = 20
const TURNS = 10
const collect = (globalThis as { gc?: () => void }).gc!

const ignore = (): void => {}
const server =
  process.argv[2] === 'bare'
    ? createHttp2Server()
        .on('session', (session) => void session.on('error', ignore))
        .on('stream', (stream) => void stream.on('error', ignore))
    : createPlainListener(ignore, { maxStreams: 10 })
const collector = createServer((socket) => {
  socket.on('error', ignore).on('data', () => (collect(), socket.write('.')))
})

for (const listener of [server, collector]) await once(listener.listen(0, '127.0.0.1'), 'listening')

async function connectTo(listener: Server): Promise<Socket> {
  const socket = connect((listener.address() as AddressInfo).port, '127.0.0.1').on('error', ignore)
  await once(socket, 'connect')
  return socket
}

const opening = Buffer.concat([PREFACE, settings()])
const attack = Buffer.concat([
  // A field of a connection makes a request malformed. The stream is reset before anybody has heard of it.
  frame(TYPE.headers, FLAG.endHeaders, 1, headerBlock([[':method', 'GET'], ['x-some', 'thing'], ['connection', 'close']])), // prettier-ignore
  request(3, '/'),
  request(3, '/'),
])

/** Sends the last packet, and messages to the collector that are read right after it and in the turns that follow. */
function send(socket: Socket, pulse: Socket, packet: Buffer): void {
  socket.write(packet)
  let turns = 0
  pulse.on('data', () => turns++ < TURNS && pulse.write('.')).write('.')
}

for (let round = 0; round < ROUNDS; round++) {
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => [await connectTo(server), await connectTo(collector)] as const),
  )
  const closed = connections.map(([socket]) => new Promise((resolve) => void socket.resume().once('close', resolve)))
  // Half of them send all in one packet, which is read before the session exists.
  for (const [i, [socket]] of connections.entries()) if (i % 2 === 0) socket.write(opening)
  await new Promise((resolve) => setTimeout(resolve, 50))
  for (const [i, [socket, pulse]] of connections.entries()) {
    send(socket, pulse, i % 2 === 0 ? attack : Buffer.concat([opening, attack]))
  }
  await Promise.all(closed)
  for (const [, pulse] of connections) pulse.destroy()
}
process.exit(0)
