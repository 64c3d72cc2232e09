/**
 * The two kinds of port. Plain: HTTP/1.1, and HTTP/2 by those who know beforehand, told apart by the first bytes of the
 * connection. Secure: TLS, with HTTP/2 preferred to HTTP/1.1 by ALPN. Each is one of Node's own servers with its limits
 * set, which fastify listens on and routes for.
 *
 * A port of its own for h2c was rejected: one address is what goes into a client's configuration.
 */
import { type RequestListener, type Server, ServerResponse, createServer } from 'node:http'
import {
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerOptions,
  createServer as createHttp2Server,
  createSecureServer,
} from 'node:http2'
import type { Socket } from 'node:net'
import { ConnectionDrain } from './connection-drain.js'
import { endSocket } from '../watch/linger.js'

export interface ListenerLimits {
  /** Concurrent requests on one HTTP/2 connection. */
  readonly maxStreams: number
  /** From the beginning of an HTTP/2 connection to its first request, milliseconds. Default: as for headers. */
  readonly firstRequestMs?: number
  /** Silence on an HTTP/2 connection: without a request it ends, with one the peer is asked. Default: as for HTTP/1.1. */
  readonly idleMs?: number
}

/** What a port does besides listening. */
export interface Listener {
  closeAllConnections(): void
  /** Sends clients elsewhere from now on: see `ConnectionDrain`. */
  beginDrain(): void
}

/** Selectors travel in the URL: kube-proxies and controllers write long ones. Node's default is 16 KB. */
const MAX_HEADER_BYTES = 64 * 1024
/** Of a TLS handshake, and from the first byte of a request to the end of its headers: a slow-loris holds a socket no longer. */
const HEADERS_TIMEOUT_MS = 20_000
/** Between two requests on one connection. Longer than the idle times of the usual load balancers (60 s). */
const KEEP_ALIVE_TIMEOUT_MS = 75_000
const CHECK_INTERVAL_MS = 5_000
/** For the answer to a PING. */
const PING_MS = 10_000
/** From the GOAWAY of an idle connection to its end. */
const LAST_WORDS_MS = 1_000
/** How a client of HTTP/2 begins (RFC 9113, 3.4); no method of HTTP/1.1 begins so. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
/** So much of it decides. */
const PREFACE_SIGN_BYTES = 4
/**
 * What one connection may hold, in megabytes: 250 watches with 128 KB each on their way. Beyond it new requests are
 * refused; Node's default of 10 would refuse them to a client with a hundred busy watches.
 */
const MAX_SESSION_MEMORY_MB = 64

export function createPlainListener(serve: RequestListener, limits: ListenerLimits): Server & Listener {
  const drain = new ConnectionDrain()
  const handler = drain.wrap(serve)
  const http1 = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      noDelay: true,
    },
    handler,
  )
  const http2 = createHttp2Server(http2Options(limits), asHttp2Handler(handler))
  const sessions = followSessions(http2, limits, drain)
  const [accept] = http1.listeners('connection') as [(socket: Socket) => void]
  http1.removeAllListeners('connection')
  // Browsers open connections ahead of need: silent ones, which neither server knows of yet.
  const undecided = new Set<Socket>()
  http1.on('connection', (socket: Socket) => {
    sniff(socket, undecided, (isHttp2) => {
      if (!isHttp2) return accept.call(http1, socket)
      // A server of HTTP/1.1 lets a client half-close; one of HTTP/2 would wait for a peer that is gone.
      socket.allowHalfOpen = false
      http2.emit('connection', socket)
    })
  })
  // Such a connection ends with its answer or its watch in any case.
  http1.on('upgrade', upgradeAsRequest(serve))
  const closeHttp1 = http1.closeAllConnections.bind(http1)
  http1.closeAllConnections = () => {
    for (const socket of undecided) socket.destroy()
    sessions.destroyAll()
    closeHttp1()
  }
  const beginDrain = (): void => drain.begin(() => http1.closeIdleConnections())
  return Object.assign(http1, { beginDrain })
}

export function createSecureListener(
  serve: RequestListener,
  limits: ListenerLimits,
  tls: SecureServerOptions,
): Http2SecureServer & Listener {
  const drain = new ConnectionDrain()
  const handler = drain.wrap(serve)
  const options: SecureServerOptions = {
    ...http2Options(limits),
    handshakeTimeout: HEADERS_TIMEOUT_MS,
    ...tls,
    allowHTTP1: true,
  }
  const server = createSecureServer(options, asHttp2Handler(handler))
  // What the options of an HTTP/2 server do not take of HTTP/1.1: Node reads these when a connection comes.
  Object.assign(server, {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
    requireHostHeader: true,
  })
  const sessions = followSessions(server, limits, drain)
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('upgrade', upgradeAsRequest(serve))
  return Object.assign(server, {
    closeAllConnections(): void {
      sessions.destroyAll()
      for (const socket of sockets) socket.destroy()
    },
    beginDrain: () => drain.begin(() => (server as unknown as Server).closeIdleConnections()),
  })
}

/**
 * Node's own bounds hold besides: invalid frames, refused streams, settings and pings in flight are counted by Node, a
 * storm of resets by nghttp2; a client that exceeds one loses its connection.
 */
function http2Options({ maxStreams }: ListenerLimits): ServerOptions {
  return {
    maxSessionMemory: MAX_SESSION_MEMORY_MB,
    unknownProtocolTimeout: HEADERS_TIMEOUT_MS,
    settings: { maxConcurrentStreams: maxStreams, maxHeaderListSize: MAX_HEADER_BYTES, enablePush: false },
  }
}

/** The compatibility objects have the methods that our handlers and fastify use. */
function asHttp2Handler(
  handler: RequestListener,
): (request: Http2ServerRequest, response: Http2ServerResponse) => void {
  return handler as unknown as (request: Http2ServerRequest, response: Http2ServerResponse) => void
}

/**
 * Calls back once, when it is known what the client speaks; never for a client that does not say so in time.
 * @param undecided holds the socket until then.
 */
function sniff(socket: Socket, undecided: Set<Socket>, then: (isHttp2: boolean) => void): void {
  const giveUp = (): void => {
    socket.destroy()
  }
  const forget = (): void => {
    undecided.delete(socket)
  }
  undecided.add(socket)
  socket.setTimeout(HEADERS_TIMEOUT_MS, giveUp)
  socket.on('error', giveUp)
  socket.on('close', forget)
  // Half-open connections are allowed: nobody else would end one whose client has left without a word.
  socket.on('end', giveUp)
  let seen: Buffer | null = null
  const onData = (bytes: Buffer): void => {
    seen = seen === null ? bytes : Buffer.concat([seen, bytes])
    const length = Math.min(seen.length, PREFACE_SIGN_BYTES)
    const couldBe = seen.compare(PREFACE, 0, length, 0, length) === 0
    if (couldBe && seen.length < PREFACE_SIGN_BYTES) return
    socket.off('data', onData)
    socket.off('error', giveUp)
    socket.off('end', giveUp)
    socket.off('close', forget)
    forget()
    socket.setTimeout(0)
    socket.off('timeout', giveUp)
    // What was read goes back, and is read again by the one who takes over, in the next turn when it is set up.
    socket.pause()
    socket.unshift(seen)
    then(couldBe)
    process.nextTick(() => socket.resume())
  }
  socket.on('data', onData)
}

/** Ends HTTP/2 connections on which nothing happens, without which a client that goes away in silence would hold one for ever. */
function followSessions(
  server: { on(event: 'session', listener: (session: ServerHttp2Session) => void): unknown },
  { firstRequestMs = HEADERS_TIMEOUT_MS, idleMs = KEEP_ALIVE_TIMEOUT_MS }: ListenerLimits,
  drain: ConnectionDrain,
): { destroyAll(): void } {
  const sessions = new Set<ServerHttp2Session>()
  server.on('session', (session) => {
    sessions.add(session)
    drain.follow(session)
    let streams = 0
    session.setTimeout(firstRequestMs)
    session.on('stream', (stream) => {
      if (streams++ === 0) session.setTimeout(idleMs)
      stream.once('close', () => streams--)
    })
    session.on('timeout', () => {
      if (streams > 0) return probe(session, idleMs)
      session.close()
      destroyLater(session, Math.min(idleMs, LAST_WORDS_MS))
    })
    // A broken connection is normal; its streams have been told.
    session.on('error', () => {})
    session.once('close', () => sessions.delete(session))
  })
  return {
    destroyAll: () => {
      for (const session of sessions) session.destroy()
    },
  }
}

/**
 * Watches may be silent for long, so the peer is asked whether it is there. After a frame against the rules Node's session
 * says goodbye, reads no more and stays, with its watches, though the peer has long closed: nothing else would tell. A peer
 * that has not taken what was sent before is slow, and slow is no fault.
 */
function probe(session: ServerHttp2Session, idleMs: number): void {
  const isThere = (): void => {
    clearTimeout(giveUp)
    // An answer to a PING does not count as something happening.
    if (!session.destroyed) session.setTimeout(idleMs)
  }
  const giveUp = setTimeout(
    () => {
      if (session.destroyed) return
      if (session.socket.writableLength > 0) isThere()
      else session.destroy()
    },
    Math.min(idleMs, PING_MS),
  ).unref()
  session.once('close', () => clearTimeout(giveUp))
  if (!session.destroyed)
    session.ping((error) => {
      if (error === null) isThere()
    })
}

function destroyLater(session: ServerHttp2Session, ms: number): void {
  const timer = setTimeout(() => session.destroy(), ms).unref()
  session.once('close', () => clearTimeout(timer))
}

/** The bytes that came with an upgrade, by its request. */
const upgradeHeads = new WeakMap<object, Buffer>()

/** What followed the head of a request to upgrade; undefined: it was none. */
export function upgradeHead(request: object): Buffer | undefined {
  return upgradeHeads.get(request)
}

/**
 * A request to upgrade goes the way of every request, so that it is authenticated, routed and refused like one. Whoever
 * does not take the upgrade simply answers (RFC 9110, 7.8: it may be ignored, as we do with h2c); the connection ends
 * with that answer, because Node's parser has let go of it.
 */
function upgradeAsRequest(handler: RequestListener) {
  return (...[request, socket, head]: [Parameters<RequestListener>[0], Socket, Buffer]): void => {
    socket.on('error', () => socket.destroy())
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    upgradeHeads.set(request, head)
    response.assignSocket(socket)
    response.once('finish', () => {
      response.detachSocket(socket)
      endSocket(socket)
      process.nextTick(() => response.emit('close'))
    })
    handler(request, response as Parameters<RequestListener>[1])
  }
}
