/**
 * Opens a watch on a WebSocket. `upgrade.ts` has checked the request; the library does the handshake and handles
 * everything that the client sends afterwards.
 *
 * Events are not compressed: per-message deflate keeps a window for each client, so no bytes could be shared.
 */
import type { Socket } from 'node:net'
import { WebSocketServer, type WebSocket } from 'ws'
import type { Negotiated } from '../../../kubernetes/dialect/accept.js'
import { BadRequestError } from '../../../kubernetes/model/status.js'
import { systemClock } from '../../../support/clock.js'
import type { Exchange } from '../exchange/exchange.js'
import { wireOf } from '../framing/framings.js'
import { webSocketJson, webSocketProtobuf } from '../framing/websocket-messages.js'
import { upgradeHead } from '../exchange/upgrade-head.js'
import { endSocket } from '../exchange/linger.js'
import type { OpenStream, WatchTransport } from '../watch/watch-transport.js'
import { MessageDeadline } from './message-deadline.js'
import { BEARER_PROTOCOL_PREFIX } from '../../auth/authn/bearer-token.js'
import { WebSocketOutput } from './websocket-output.js'
import {
  MAX_READS_PER_FRAME,
  MAX_WEBSOCKET_FRAGMENTS,
  MAX_FRAMES_PER_READ,
  MAX_WEBSOCKET_MESSAGE_BYTES,
  WEBSOCKET_MESSAGE_MS,
} from '../../limits/fixed-limits.js'

const POLICY_VIOLATION = 1008
const NOTHING = Buffer.alloc(0)
const KEEPALIVE_MS = 30_000
const server = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  maxPayload: MAX_WEBSOCKET_MESSAGE_BYTES,
  maxFragments: MAX_WEBSOCKET_FRAGMENTS,
  maxBufferedChunks: MAX_READS_PER_FRAME,
  skipUTF8Validation: true,
  handleProtocols: (protocols) =>
    [...protocols].find((protocol) => !protocol.startsWith(BEARER_PROTOCOL_PREFIX)) ?? false,
})

export function webSocketWatch(exchange: Exchange, form: Negotiated): WatchTransport {
  return { open: () => openWebSocket(exchange, form), started: () => {} }
}

function openWebSocket(exchange: Exchange, form: Negotiated): OpenStream {
  const { request, response } = exchange
  const { socket } = request
  // The library would drop such a connection silently.
  if (!socket.readable || !socket.writable) throw new BadRequestError('the connection was closed before the upgrade')
  exchange.release()
  response.detachSocket(socket)
  // It would keep the response in memory.
  socket.removeAllListeners('drain')
  exchange.statusCode = 101
  socket.setKeepAlive(true, KEEPALIVE_MS)
  const webSocket = upgrade(exchange)
  // Listeners for the end of the response are called when the watch ends.
  if (response.listenerCount('close') > 0) webSocket.once('close', () => response.emit('close'))
  return {
    wire: wireOf(form.encoding === 'protobuf' ? webSocketProtobuf : webSocketJson, 'websocket'),
    output: new WebSocketOutput(webSocket, socket),
  }
}

function upgrade({ request }: Exchange): WebSocket {
  let made: WebSocket | null = null
  const { socket } = request
  const deadline = new MessageDeadline({
    clock: systemClock,
    ms: WEBSOCKET_MESSAGE_MS,
    onLate: () => made?.terminate(),
  })
  const head = upgradeHead(request)!
  const isWithin = deadline.read(head, MAX_FRAMES_PER_READ)
  // The library calls back before it returns, because nothing asynchronous is left for a valid request.
  server.handleUpgrade(request, socket, isWithin ? head : NOTHING, (webSocket) => (made = webSocket))
  if (made === null) throw new Error('a checked handshake was refused')
  const webSocket: WebSocket = made
  webSocket.once('close', () => deadline.stop())
  if (isWithin) boundMessages(webSocket, socket, deadline)
  else endAtOnce(webSocket, socket)
  return webSocket
}

/** Ends a connection whose client exceeds the limit, before the library sees those bytes. */
function boundMessages(webSocket: WebSocket, socket: Socket, deadline: MessageDeadline): void {
  const push = socket.push.bind(socket)
  let isOver = false
  socket.push = (bytes: Buffer | null) => {
    if (bytes === null) return push(null)
    if (isOver) return true
    isOver = !deadline.read(bytes, MAX_FRAMES_PER_READ)
    if (!isOver) return push(bytes)
    endAtOnce(webSocket, socket)
    return true
  }
}

/** Ends the connection without waiting for the client's close frame. */
function endAtOnce(webSocket: WebSocket, socket: Socket): void {
  webSocket.close(POLICY_VIOLATION)
  endSocket(socket)
}
