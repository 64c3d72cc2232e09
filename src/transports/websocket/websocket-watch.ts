/**
 * `Upgrade: websocket` on the URL of a watch. What can be refused is refused before the upgrade, as an ordinary answer; the
 * handshake itself and all that the client sends afterwards are the library's.
 *
 * Not compressed: per-message deflate keeps a window for each client, so that no bytes could be shared.
 */
import { WebSocketServer, type WebSocket } from 'ws'
import type { Negotiated } from '../../dialect/accept.js'
import { BadRequestError, ForbiddenError, UnauthorizedError } from '../../model/status.js'
import type { Caller } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { wireOf } from '../framing/framings.js'
import { webSocketJson, webSocketProtobuf } from '../framing/websocket-messages.js'
import { upgradeHead } from '../server/listeners.js'
import type { OpenStream, WatchTransport } from '../api/watch-handler.js'
import { WebSocketSink } from './websocket-sink.js'

/** What a client sends is read and forgotten; larger messages end the connection (1009). */
const MAX_MESSAGE_BYTES = 64 * 1024
const KEEPALIVE_MS = 30_000
/** A browser cannot set headers, so this is how it sends a token; it is never echoed. */
const TOKEN_PROTOCOL = 'base64url.bearer.authorization.k8s.io.'

const server = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  maxPayload: MAX_MESSAGE_BYTES,
  skipUTF8Validation: true,
  handleProtocols: (protocols) => [...protocols].find((protocol) => !protocol.startsWith(TOKEN_PROTOCOL)) ?? false,
})

export function isWebSocket({ request, requestHeaders }: Exchange): boolean {
  return upgradeHead(request) !== undefined && requestHeaders.upgrade?.toLowerCase() === 'websocket'
}

/**
 * @param allowedOrigins whose pages may connect, besides the server's own: browsers send a WebSocket's cookies and client
 * certificates without asking CORS first.
 * @throws StatusError when the handshake would fail.
 */
export function webSocketWatch(
  exchange: Exchange,
  form: Negotiated,
  caller: Caller,
  allowedOrigins: readonly string[],
): WatchTransport {
  checkOrigin(exchange, allowedOrigins)
  checkHandshake(exchange)
  return {
    query: exchange.query,
    lastEventId: undefined,
    caller,
    signal: exchange.signal,
    open: () => openWebSocket(exchange, form),
    begun: () => {},
  }
}

function openWebSocket(exchange: Exchange, form: Negotiated): OpenStream {
  const { request, response } = exchange
  const { socket } = request
  // The library would drop it in silence.
  if (!socket.readable || !socket.writable) throw new BadRequestError('the connection was closed before the upgrade')
  exchange.release()
  response.detachSocket(socket)
  exchange.statusCode = 101
  socket.setKeepAlive(true, KEEPALIVE_MS)
  const webSocket = upgrade(exchange)
  // Whoever waits for the end of the answer waits for the end of the watch.
  if (response.listenerCount('close') > 0) webSocket.once('close', () => response.emit('close'))
  const framing = form.stream === 'protobuf-frames' ? webSocketProtobuf : webSocketJson
  return { wire: wireOf(framing, 'websocket'), sink: new WebSocketSink(webSocket, socket) }
}

function upgrade({ request }: Exchange): WebSocket {
  let made: WebSocket | null = null
  // Calls back before it returns: there is nothing to wait for once the request is valid.
  server.handleUpgrade(request, request.socket, upgradeHead(request)!, (webSocket) => (made = webSocket))
  if (made === null) throw new Error('a checked handshake was refused')
  return made
}

/** @throws ForbiddenError for a page that is not allowed. */
export function checkOrigin({ requestHeaders }: Exchange, allowedOrigins: readonly string[]): void {
  const { origin, host } = requestHeaders
  if (origin === undefined || allowedOrigins.includes(origin)) return
  const isOwn = URL.canParse(origin) && new URL(origin).host === host
  if (!isOwn) throw new ForbiddenError(`origin ${JSON.stringify(origin.slice(0, 256))} is not allowed`)
}

function checkHandshake({ request, requestHeaders }: Exchange): void {
  const key = requestHeaders['sec-websocket-key']
  if (request.method !== 'GET') throw new BadRequestError('a WebSocket is opened by GET')
  if (key === undefined || !/^[+/0-9A-Za-z]{22}==$/.test(key)) {
    throw new BadRequestError('Sec-WebSocket-Key is missing or not 16 bytes in base64')
  }
  if (requestHeaders['sec-websocket-version'] !== '13') {
    throw new BadRequestError('Sec-WebSocket-Version must be 13')
  }
  const protocols = protocolsOf(requestHeaders['sec-websocket-protocol'])
  const others = protocols.filter((protocol) => !protocol.startsWith(TOKEN_PROTOCOL))
  // As the API server: a browser that names protocols takes no answer without one of them, and the token is no answer.
  if (others.length < protocols.length && others.length === 0) {
    throw new UnauthorizedError('a bearer token as a subprotocol needs another subprotocol beside it, to be echoed')
  }
  if (others.length > 1) throw new BadRequestError(`at most one subprotocol can be chosen from, not ${others.length}`)
}

function protocolsOf(header: string | undefined): readonly string[] {
  const protocols = (header ?? '').split(',').map((protocol) => protocol.trim())
  const named = protocols.filter((protocol) => protocol !== '')
  if (
    named.some((protocol) => !/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(protocol)) ||
    new Set(named).size < named.length
  ) {
    throw new BadRequestError('Sec-WebSocket-Protocol cannot be read')
  }
  return named
}
