/**
 * Creates the two kinds of port. A plain port speaks HTTP/1.1, and HTTP/2 with prior knowledge; the first bytes of a
 * connection show which one the client uses. A secure port speaks TLS, and prefers HTTP/2 to HTTP/1.1 in ALPN. Each
 * port is one of Node's own servers with its limits set. Fastify listens on it and routes its requests.
 *
 * HTTP/2 without TLS has no port of its own, because a client's configuration has room for only one address.
 */
import type { EventEmitter } from 'node:events'
import { type RequestListener, type Server, ServerResponse, createServer } from 'node:http'
import {
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
  constants,
  createServer as createHttp2Server,
  createSecureServer,
} from 'node:http2'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { peerCertificateOf } from '../../auth/peer-certificate.js'
import { endWithSession } from '../../../support/end-with-session.js'
import { isBun } from '../../../support/is-bun.js'
import { keepUntilClosed, keepWithStream } from '../../../support/keep-with-stream.js'
import { noticeDeparture } from '../limits/notice-departure.js'
import { admitConnection, admitStream, followReads } from '../limits/arrivals.js'
import type { DescriptorReserve } from '../limits/descriptor-reserve.js'
import { HeaderDeadlines } from '../limits/header-deadlines.js'
import { identityOfSession, RAPID_MS, type RapidResets } from '../limits/rapid-resets.js'
import type { IdleConnections } from '../limits/idle-connections.js'
import { ConnectionDrain } from './connection-drain.js'
import { deferClose } from './defer-close.js'
import { noteUpgrade } from '../exchange/upgrade-head.js'
import { endSocket } from '../exchange/linger.js'
import { HEADERS_TIMEOUT_MS, MAX_HEADER_BYTES, MAX_SESSION_MEMORY_MB } from '../../limits/fixed-limits.js'

export interface ListenerLimits {
  /** Concurrent requests on one HTTP/2 connection. */
  readonly maxStreams: number
  /** Whether a new HTTP/2 request moves its client to another connection (`--goaway-chance`). Default: never. */
  readonly movesClient?: () => boolean
  /** Counts the requests that clients open and immediately reset. Default: not counted. */
  readonly resets?: RapidResets
  /** Limits the number of connections, over all ports that share it. Default: not limited. */
  readonly descriptors?: DescriptorReserve
  /** Limits the connections of unknown clients. Default: not limited. */
  readonly idleConnections?: IdleConnections
  /**
   * The time limit from the start of an HTTP/2 connection to its first request, in milliseconds. Default: as for
   * headers.
   */
  readonly firstRequestMs?: number
  /** The longest silence of an HTTP/2 connection without open requests, in milliseconds. Default: as for HTTP/1.1. */
  readonly idleMs?: number
  /**
   * The silence after which an HTTP/2 connection with open requests gets a PING, in milliseconds. Default: `PROBE_MS`.
   */
  readonly probeMs?: number
}

/** The methods of a port besides listening. */
export interface Listener {
  closeAllConnections(): void
  /** Ends connections after their next responses; see `ConnectionDrain`. */
  announceDrain(): void
  /** Moves clients elsewhere from now on; see `ConnectionDrain`. */
  beginDrain(): void
  /** Accepts no more connections. Resolves when no request is in progress; see `ConnectionDrain`. */
  finish(): Promise<void>
}

/**
 * 0 means no limit except the limit on bytes. Node silently ignores headers beyond this number, and could so ignore a
 * gateway's `Impersonate-User`, or a second Host or token.
 */
const MAX_HEADERS = 0
/**
 * The longest pause between two requests on one connection. It is longer than the idle timeout of common load balancers
 * (60 s).
 */
const KEEP_ALIVE_TIMEOUT_MS = 75_000
const CHECK_INTERVAL_MS = 5_000
/**
 * The silence after which a peer with open requests is sent a PING. Before Node 22, if a peer sends an illegal frame
 * and keeps the connection open, only an unanswered PING ends the connection. Such connections hold much memory, so the
 * PING comes sooner on those versions.
 */
const PROBE_MS = Number.parseInt(process.versions.node, 10) < 22 ? 15_000 : KEEP_ALIVE_TIMEOUT_MS
/** The longest wait for the response to a PING. */
const PING_MS = 10_000
/** The time between the GOAWAY of an idle connection and its end. */
const LAST_WORDS_MS = 1_000
/** The first bytes of an HTTP/2 client (RFC 9113, 3.4); no HTTP/1.1 method begins with them. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
/** The number of preface bytes that distinguish the protocols. */
const PREFACE_SIGN_BYTES = 4

/** These limits of HTTP/1.1 are options of Node's HTTP/1.1 server. Its HTTP/2 server lacks them. */
const HTTP1_LIMITS = {
  maxHeaderSize: MAX_HEADER_BYTES,
  headersTimeout: HEADERS_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
  requireHostHeader: true,
}

export function createPlainListener(serve: RequestListener, limits: ListenerLimits): Server & Listener {
  const drain = new ConnectionDrain()
  const handler = drain.wrap(serve)
  const server = createServer(HTTP1_LIMITS, handler)
  const http2 = createHttp2Server(http2Options(limits), asHttp2Handler(handler))
  return openPort({
    server,
    http2,
    serve,
    handler,
    drain,
    limits,
    silenceMs: HEADERS_TIMEOUT_MS,
    onSilence: (socket) => socket.destroy(),
    detect: isHttp2,
    begin: (socket, startsHttp2, accept) => {
      // Only HTTP/1.1 clients may half-close their connections. An HTTP/2 server would wait for a peer that is gone.
      if (startsHttp2) socket.allowHalfOpen = false
      if (startsHttp2) http2.emit('connection', socket)
      else accept()
      // Detecting the protocol has paused the connection.
      if (canSniff) process.nextTick(() => socket.resume())
    },
  })
}

export function createSecureListener(
  serve: RequestListener,
  limits: ListenerLimits,
  tls: SecureServerOptions,
): Http2SecureServer & Listener {
  const drain = new ConnectionDrain()
  const deadlines = isBun
    ? headerDeadlines((socket) => void server.emit('clientError', requestTimeout(), socket))
    : null
  const handler = drain.wrap(deadlines === null ? serve : deadlines.wrap(serve))
  const options: SecureServerOptions = {
    ...http2Options(limits),
    handshakeTimeout: HEADERS_TIMEOUT_MS,
    ...tls,
    allowHTTP1: true,
  }
  const server = createSecureServer(options, asHttp2Handler(handler))
  // Node reads them from the server for each connection.
  Object.assign(server, HTTP1_LIMITS)
  server.on('secureConnection', (socket: TLSSocket) => {
    // A client could replace its certificate by one that OpenSSL rejects, and Node would not notice.
    socket.disableRenegotiation()
    limits.idleConnections?.carry(socket, socket)
    // The client may resume this session without having sent a request.
    if (socket.authorized && !socket.isSessionReused()) peerCertificateOf(socket)
    if (socket.alpnProtocol !== 'h2') deadlines?.follow(socket)
  })
  if (deadlines !== null) server.on('upgrade', (request) => deadlines.forget(request))
  return openPort({
    server,
    http2: server,
    serve,
    handler,
    drain,
    limits,
    silenceMs: options.handshakeTimeout!,
    onSilence: (socket) => server.emit('clientError', handshakeTimeout(), socket),
    // Wait for the first bytes, because all the work of a handshake comes after them.
    detect: () => true,
    begin: (_socket, _startsHttp2, accept) => accept(),
  })
}

/** The differences between the kinds of port. */
interface Port<S> {
  readonly server: S
  /** The server of the port's HTTP/2 sessions. */
  readonly http2: EventEmitter
  readonly serve: RequestListener
  /** `serve`, and what the port does around each request. */
  readonly handler: RequestListener
  readonly drain: ConnectionDrain
  readonly limits: ListenerLimits
  /** The longest silence of a new connection. */
  readonly silenceMs: number
  readonly onSilence: (socket: Socket) => void
  /** Decides from the first bytes whether they are HTTP/2 or TLS; null while they do not decide it. */
  readonly detect: (seen: Buffer) => boolean | null
  /** @param accept passes the connection to `server`. */
  readonly begin: (socket: Socket, detected: boolean, accept: () => void) => void
}

/** Lets connections take turns to begin, and follows them to their end. */
function openPort<S extends Server | Http2SecureServer>(port: Port<S>): S & Listener {
  const { http2, serve, handler, drain, limits, silenceMs, onSilence, detect } = port
  const server = port.server as S & Server
  server.maxHeadersCount = MAX_HEADERS
  http2.on('checkContinue', continued(asHttp2Handler(handler)))
  admitStreams(http2)
  const sessions = followSessions(http2, limits, drain)
  const sockets = new Set<Socket>()
  // Bun's HTTP/1.1 server has no listener.
  const [accept] = server.listeners('connection') as [((socket: Socket) => void)?]
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    if (limits.descriptors?.admits(socket) === false) return
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    limits.idleConnections?.add(socket)
    if (socket.destroyed) return
    socket.setNoDelay(true)
    const begin = (detected: boolean): void => {
      limits.idleConnections?.begin(socket)
      if (!socket.destroyed) port.begin(socket, detected, () => accept?.call(server, socket))
    }
    if (!canSniff) return begin(false)
    const silence = { ms: silenceMs, onLate: () => onSilence(socket) }
    detectProtocol(socket, silence, detect, (detected) => admitConnection(socket, () => begin(detected)))
  })
  // An upgraded connection ends with its response or its watch, so the drain need not follow it.
  server.on('upgrade', upgradeAsRequest(serve))
  return Object.assign(server, {
    // Node's own misses two kinds of connection: those that have sent nothing yet (browsers open spare ones), and
    // upgraded ones, which its HTTP/1.1 server no longer knows.
    closeAllConnections: () => {
      sessions.destroyAll()
      for (const socket of sockets) socket.destroy()
    },
    announceDrain: () => drain.announce(),
    beginDrain: () => drain.begin(() => server.closeIdleConnections()),
    finish: async () => {
      server.close()
      await drain.finished()
    },
  })
}

/**
 * Node's own limits apply as well: Node counts invalid frames, refused streams, settings and pings in flight, and
 * nghttp2 counts resets; a client that exceeds a limit loses its connection.
 */
function http2Options({ maxStreams }: ListenerLimits): ServerOptions {
  return {
    maxSessionMemory: MAX_SESSION_MEMORY_MB,
    unknownProtocolTimeout: HEADERS_TIMEOUT_MS,
    settings: { maxConcurrentStreams: maxStreams, maxHeaderListSize: MAX_HEADER_BYTES, enablePush: false },
  }
}

/** Shared by all streams, so that no stream needs its own function. */
const ignore = (): void => {}

type OnStream = (stream: ServerHttp2Stream, ...more: unknown[]) => void

/** Turns HTTP/2 streams into requests, with clients taking fair turns. */
function admitStreams(server: EventEmitter): void {
  // Bun has its own implementation.
  if (isBun) return
  const [begin] = server.listeners('stream') as [OnStream]
  server.removeAllListeners('stream')
  server.on('stream', (stream: ServerHttp2Stream, ...more: unknown[]) => {
    // The stream may already have been aborted. It then has no session, and its error event is still to come.
    stream.on('error', ignore)
    const session = stream.session as ServerHttp2Session | undefined
    if (session === undefined || stream.destroyed) return
    admitStream(stream, session, () => begin.call(server, stream, ...more))
  })
}

/** The compatibility objects of HTTP/2 have all the methods that our handlers and fastify use. */
function asHttp2Handler(
  handler: RequestListener,
): (request: Http2ServerRequest, response: Http2ServerResponse) => void {
  return handler as unknown as (request: Http2ServerRequest, response: Http2ServerResponse) => void
}

/**
 * Answers `Expect: 100-continue`. Node's own answer throws if the client has already reset the request, so any client
 * could end the process. Over TLS the request may also be an HTTP/1.1 request, which has no stream.
 */
function continued(handler: ReturnType<typeof asHttp2Handler>): typeof handler {
  return (request, response) => {
    const { stream } = response as Partial<Http2ServerResponse>
    if (stream?.destroyed !== true && stream?.closed !== true) response.writeContinue()
    handler(request, response)
  }
}

/**
 * Bun does not expose the first bytes. A sniffer would wait for them until its deadline, and then end a watch that had
 * been silent for that long. So on Bun, a plain port speaks only HTTP/1.1.
 */
const canSniff = !isBun

/** Whether a connection begins with the preface of HTTP/2; null while that is undecided. */
function isHttp2(seen: Buffer): boolean | null {
  const length = Math.min(seen.length, PREFACE_SIGN_BYTES)
  const couldBe = seen.compare(PREFACE, 0, length, 0, length) === 0
  return couldBe && seen.length < PREFACE_SIGN_BYTES ? null : couldBe
}

/** The same error as Node's own. */
function handshakeTimeout(): Error {
  return Object.assign(new Error('TLS handshake timeout'), { code: 'ERR_TLS_HANDSHAKE_TIMEOUT' })
}

/** Creates deadlines of the same length as Node's own. */
function headerDeadlines(onLate: (socket: Socket) => void): HeaderDeadlines {
  return new HeaderDeadlines({ firstMs: HEADERS_TIMEOUT_MS, nextMs: KEEP_ALIVE_TIMEOUT_MS, onLate })
}

/** The same error as Node's own. */
function requestTimeout(): Error {
  return Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
}

/**
 * Pauses the socket and calls back once its first bytes decide the protocol. If the client stays silent, it never calls
 * back. The next reader of the socket reads the same bytes again.
 *
 * @param detect returns null while the bytes do not decide the protocol.
 */
function detectProtocol<T>(
  socket: Socket,
  silence: { readonly ms: number; readonly onLate: () => void },
  detect: (seen: Buffer) => T | null,
  then: (what: T) => void,
): void {
  const giveUp = (): void => {
    socket.destroy()
  }
  socket.setTimeout(silence.ms, silence.onLate)
  // The socket may fail before anything else listens for errors.
  socket.on('error', ignore)
  // Half-open connections are allowed, so one whose client has left without sending anything must be ended here.
  socket.on('end', giveUp)
  let seen: Buffer | null = null
  const onData = (bytes: Buffer): void => {
    seen = seen === null ? bytes : Buffer.concat([seen, bytes])
    const what = detect(seen)
    if (what === null) return
    socket.off('data', onData)
    socket.off('end', giveUp)
    socket.setTimeout(0)
    socket.off('timeout', silence.onLate)
    socket.pause()
    socket.unshift(seen)
    then(what)
  }
  socket.on('data', onData)
}

/** Ends idle HTTP/2 connections: a client that disappears without closing its connection would hold it forever. */
function followSessions(
  server: { on(event: 'session', listener: (session: ServerHttp2Session) => void): unknown },
  limits: ListenerLimits,
  drain: ConnectionDrain,
): { destroyAll(): void } {
  const {
    firstRequestMs = HEADERS_TIMEOUT_MS,
    idleMs = KEEP_ALIVE_TIMEOUT_MS,
    probeMs = PROBE_MS,
    resets,
    idleConnections,
    movesClient,
  } = limits
  const sessions = new Set<ServerHttp2Session>()
  server.on('session', (session) => {
    sessions.add(session)
    endWithSession(session)
    keepUntilClosed(session)
    noticeDeparture(session)
    idleConnections?.carry(session, session.socket as Socket)
    followReads(session)
    let streams = 0
    const onStreamClosed = deferClose(session, () => streams)
    drain.follow(session)
    session.setTimeout(firstRequestMs)
    const countResets = resets === undefined ? null : resetCounter(session, resets)
    const listenAgain = (): void => {
      if (!session.destroyed) session.setTimeout(streams > 0 ? probeMs : idleMs)
    }
    const probe = prober(session, Math.min(probeMs, PING_MS), listenAgain)
    // Before the server's own listener, which may destroy the stream.
    session.prependListener('stream', (stream) => keepWithStream(session, stream))
    session.on('stream', (stream) => {
      if (streams++ === 0) listenAgain()
      idleConnections?.countStreams(session, 1)
      stream.once('close', () => {
        idleConnections?.countStreams(session, -1)
        if (--streams === 0) listenAgain()
        onStreamClosed()
      })
      countResets?.(stream)
      if (movesClient?.() === true) session.close()
    })
    session.on('timeout', () => {
      if (streams > 0) return probe()
      session.close()
      destroyLater(session, Math.min(idleMs, LAST_WORDS_MS))
    })
    // A broken connection is normal, and its streams have their own errors.
    session.on('error', () => {})
    session.once('close', () => sessions.delete(session))
  })
  return {
    destroyAll: () => {
      for (const session of sessions) session.destroy()
    },
  }
}

/** Counts the streams that the client immediately resets, and ends the session when there are too many. */
function resetCounter(session: ServerHttp2Session, resets: RapidResets): (stream: ServerHttp2Stream) => void {
  // A session that has ended no longer knows its address.
  const address = session.socket.remoteAddress ?? ''
  let given = 0
  let isOver = false
  return (stream) => {
    const openedMs = performance.now()
    const count = (): void => {
      // A session that ends aborts all its other streams, which must not count.
      if (isOver || performance.now() - openedMs > RAPID_MS) return
      isOver = resets.count(address, identityOfSession(session), ++given)
      if (isOver && !session.destroyed)
        session.destroy(new Error('too many requests were reset at once'), constants.NGHTTP2_ENHANCE_YOUR_CALM)
    }
    // Node may have read the reset together with the request.
    if (stream.aborted) count()
    else stream.once('aborted', count)
  }
}

/**
 * Finds out whether the peer of open requests is still there, with one timer and one listener for the whole session.
 * After an illegal frame, a session on Node 20 sends GOAWAY and stays open with its watches, but it neither sends a PING
 * nor reads the response, and sends nothing else either. So while bytes are written a PING is needed less often: only
 * because a peer may have disappeared without closing its connection.
 *
 * @returns a function to call after each silence.
 */
function prober(session: ServerHttp2Session, patienceMs: number, onAlive: () => void): () => void {
  // The first silence always leads to a PING, because the head of a response was written before it.
  let written = 0
  let heardMs = -Infinity
  let giveUp: NodeJS.Timeout | undefined
  const confirmAlive = (): void => {
    clearTimeout(giveUp)
    giveUp = undefined
    if (session.destroyed) return
    heardMs = performance.now()
    written = session.socket.bytesWritten
    // Node does not count the response to a PING as activity.
    onAlive()
  }
  const onPing = (error: Error | null): void => {
    if (error === null) confirmAlive()
  }
  session.once('close', () => clearTimeout(giveUp))
  return () => {
    if (session.destroyed || giveUp !== undefined) return
    const { bytesWritten } = session.socket
    // Node does not count what was written through a stream's handle as activity.
    if (bytesWritten !== written && performance.now() - heardMs < KEEP_ALIVE_TIMEOUT_MS) {
      written = bytesWritten
      return onAlive()
    }
    // A slow peer is safe from this: as long as it takes bytes, Node sees no silence. That bytes are still queued says
    // nothing, because over TLS they stay queued when the peer has left.
    giveUp = setTimeout(() => session.destroy(), patienceMs).unref()
    session.ping(onPing)
  }
}

function destroyLater(session: ServerHttp2Session, ms: number): void {
  const timer = setTimeout(() => session.destroy(), ms).unref()
  session.once('close', () => clearTimeout(timer))
}

/**
 * Passes an upgrade request to the handler of all requests, so that it is authenticated, routed and rejected like any
 * other. A handler that does not accept the upgrade simply answers (RFC 9110, 7.8: a server may ignore an upgrade, as
 * we do with h2c). The connection ends with that response, because Node's parser has released it.
 */
function upgradeAsRequest(handler: RequestListener) {
  return (...[request, socket, head]: [Parameters<RequestListener>[0], Socket, Buffer]): void => {
    socket.on('error', () => socket.destroy())
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    noteUpgrade(request, head)
    try {
      response.assignSocket(socket)
    } catch {
      // An earlier request of this connection is still unanswered. No known client sends an upgrade behind an
      // unanswered request, and nothing more is read from the connection.
      socket.destroy()
      return
    }
    // Node tells a response only of sockets that its parser still reads.
    const onDrain = (): void => {
      if (response.writableNeedDrain) response.emit('drain')
    }
    socket.on('drain', onDrain)
    response.once('finish', () => {
      socket.off('drain', onDrain)
      response.detachSocket(socket)
      endSocket(socket)
      process.nextTick(() => response.emit('close'))
    })
    handler(request, response as Parameters<RequestListener>[1])
  }
}
