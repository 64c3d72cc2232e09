/**
 * One request on its way to another server, and the response on its way back.
 *
 *     connecting ──▶ sent ──▶ failed    the client gets an error, or a response that breaks off
 *          │          │         │
 *          └──────────┴─────────┴─────▶ over    the response is complete, or the client has left
 *
 * A request that changes nothing may go back to `connecting` once: the other server may close an idle connection just
 * when it is reused.
 */
import type http from 'node:http'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { BadGatewayError, StatusError, TimeoutError } from '../../../kubernetes/model/status.js'
import type { Clock, Timer } from '../../../support/clock.js'
import type { Exchange } from '../exchange/exchange.js'
import { expectNoEnd } from '../exchange/expect-no-end.js'
import { flushHead } from '../exchange/flush-head.js'
import { boundResponse } from '../exchange/linger.js'
import { type BodyKind, bodyOf, piecesTooSmall, takeBody, upgradeWithBody } from '../exchange/request-body.js'
import { upgradeHead } from '../exchange/upgrade-head.js'
import { STREAM_HEADERS } from '../framing/framings.js'
import { byName, type PassedRequest, requestTrailers, responseHeaders, responseTrailers } from './passed-headers.js'
import { openTunnel } from './tunnel.js'

/** On whose behalf a request is sent, and with which credentials. */
export type Sender = Pick<PassedRequest, 'address' | 'asUser' | 'passesToken'>

export interface OtherServer {
  readonly name: string
  readonly clock: Clock
  readonly responseTimeoutMs: number
  /** The sockets of all open tunnels. */
  readonly tunnels: Set<Duplex>
  readonly isStripped: (key: string) => boolean
  /** Whether the server is known to be ready. */
  isReady(): boolean
  /** Begins a request. Its body, if any, is to be written. */
  open(exchange: Exchange, sender: Sender, upgrade: string | null, body: BodyKind): http.ClientRequest
  /**
   * Takes note of a response.
   * @param wasReady whether the server was known to be ready when the request was sent.
   * @returns undefined if the response is forwarded at once; otherwise a promise. It rejects with the client's error if
   * the server may have denied the request only because it is starting. In that case nothing was performed.
   */
  responded(incoming: http.IncomingMessage, wasReady: boolean): Promise<void> | undefined
  /** @param isRepeatable whether the request may be sent again: it is a read, or has not been sent. */
  statusOf(error: Error, isRepeatable: boolean): StatusError
}

type State =
  /** No part of the request can have reached the other server. */
  'connecting' | 'sent' | 'failed' | 'over'

export class PassedExchange {
  /** Resolves when the client has been answered or has left. Rejects with a StatusError if nothing was sent to it. */
  readonly done: Promise<void>
  readonly #body: BodyKind
  /** Bytes that the client has sent after its request to upgrade; undefined for any other request. */
  readonly #head: Buffer | undefined
  readonly #upgrade: string | null
  readonly #timer: Timer
  #state: State = 'connecting'
  #outgoing: http.ClientRequest
  #resolve!: () => void
  #reject!: (error: StatusError) => void

  /** @throws BadRequestError for a request to upgrade that has a body. */
  constructor(
    private readonly exchange: Exchange,
    private readonly sender: Sender,
    private readonly server: OtherServer,
    private readonly onHead: (code: number) => void,
  ) {
    const { request, response } = exchange
    if (isStream(exchange)) expectNoEnd(response)
    this.#head = upgradeHead(request)
    this.#body = bodyOf(request)
    if (this.#head !== undefined && this.#body !== 'none') throw upgradeWithBody()
    this.#upgrade = this.#head === undefined ? null : tunnelled(request.headers.upgrade ?? '')
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#outgoing = this.#open()
    this.#timer = server.clock.setTimer(server.responseTimeoutMs, () => {
      this.#outgoing.destroy(new TimeoutError(`${server.name} did not answer in time`))
    })
    response.once('close', () => this.#end())
    if (this.#body !== 'none') this.#sendBody()
  }

  /** A read changes nothing, so it may be sent twice. */
  get #isRead(): boolean {
    const { method = '' } = this.exchange.request
    return this.#body === 'none' && this.#upgrade === null && (method === 'GET' || method === 'HEAD')
  }

  #open(): http.ClientRequest {
    const wasReady = this.server.isReady()
    this.#state = 'connecting'
    const opened = this.server.open(this.exchange, this.sender, this.#upgrade, this.#body)
    whenConnected(opened, () => {
      if (this.#state === 'connecting') this.#state = 'sent'
    })
    opened.once('error', (error) => {
      if (this.#isWaiting && this.#isRead && this.#isStale(opened, error)) this.#outgoing = this.#open()
      else this.#fail(error)
    })
    opened.once('upgrade', (incoming, socket, firstBytes) => this.#agree(incoming, socket, firstBytes))
    opened.once('response', (incoming) => this.#take(opened, incoming, wasReady))
    if (this.#body === 'none') opened.end()
    return opened
  }

  get #isWaiting(): boolean {
    return this.#state === 'connecting' || this.#state === 'sent'
  }

  #isStale({ reusedSocket }: http.ClientRequest, error: Error): boolean {
    return reusedSocket && this.exchange.statusCode === 0 && !(error instanceof StatusError)
  }

  #sendBody(): void {
    const { request } = this.exchange
    const outgoing = this.#outgoing
    request.once('aborted', () => outgoing.destroy())
    request.once('end', () => {
      const trailers = requestTrailers(request.rawTrailers, this.server.isStripped)
      if (trailers.length > 0) outgoing.addTrailers(trailers)
    })
    takeBody(request, () => outgoing.destroy(piecesTooSmall()))
    request.pipe(outgoing)
  }

  #agree(incoming: http.IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    this.#timer.cancel()
    if (this.#head === undefined || this.#upgrade === null) {
      socket.destroy()
      return this.#fail(new BadGatewayError(`${this.server.name} upgraded a request that did not ask for it`))
    }
    this.onHead(101)
    openTunnel(this.exchange, incoming, socket, firstBytes, this.#head, this.server)
  }

  #take(opened: http.ClientRequest, incoming: http.IncomingMessage, wasReady: boolean): void {
    this.#timer.cancel()
    const forwards = this.server.responded(incoming, wasReady)
    if (forwards === undefined) return this.#forward(opened, incoming)
    // Until it settles, nothing else listens for errors, and the client may leave or the connection may break.
    const fail = (error: Error): void => this.#fail(error)
    incoming.once('error', fail)
    forwards.then(
      () => {
        incoming.off('error', fail)
        if (this.#isWaiting) this.#forward(opened, incoming)
      },
      (error: Error) => {
        opened.destroy()
        this.#fail(error)
      },
    )
  }

  #forward(opened: http.ClientRequest, incoming: http.IncomingMessage): void {
    try {
      incoming.once('end', () => {
        // The client may never send the rest. The other server would take the next request of the connection for it.
        if (!opened.writableEnded) opened.destroy()
      })
      forwardResponse(this.exchange, incoming, (error) => this.#fail(error))
      this.onHead(this.exchange.statusCode)
    } catch (cause) {
      opened.destroy()
      this.#fail(new BadGatewayError(`${this.server.name} gave an answer that cannot be forwarded`, { cause }))
    }
  }

  #fail(error: Error): void {
    if (!this.#isWaiting) return
    const isRepeatable = this.#isRead || this.#state === 'connecting'
    this.#state = 'failed'
    this.#timer.cancel()
    if (this.exchange.statusCode === 0) return this.#reject(this.server.statusOf(error, isRepeatable))
    this.exchange.breakOff()
    this.#resolve()
  }

  /** When the client leaves, its request to the other server ends too. */
  #end(): void {
    this.#state = 'over'
    this.#timer.cancel()
    if (!this.exchange.response.writableFinished) this.#outgoing.destroy()
    this.#resolve()
  }
}

/**
 * Returns the protocols of an Upgrade header that may become a tunnel; null if there are none. HTTP is never one of
 * them: its requests could name any user, on a connection that may carry our certificate. Java's client offers h2c with
 * every request, so the offer is ignored, not refused.
 */
function tunnelled(offered: string): string | null {
  const protocols = offered.split(',').map((protocol) => protocol.trim())
  return protocols.filter((protocol) => !/^(h2|http|tls|$)/i.test(protocol)).join(', ') || null
}

/** Whether the response is a watch or a running log. */
function isStream({ query }: Exchange): boolean {
  return query.has('watch') || query.has('follow')
}

/** @throws Error when such a head cannot be sent to a client of this protocol. In that case nothing has been sent. */
function forwardResponse(exchange: Exchange, incoming: http.IncomingMessage, fail: (error: Error) => void): void {
  const { response, request } = exchange
  const code = incoming.statusCode ?? 0
  if (code < 200 || code > 599) throw new Error(`status ${code}`)
  // Repeated headers become one with several values.
  const headers = responseHeaders(incoming.rawHeaders)
  const grouped = byName(headers)
  if (request.httpVersionMajor === 2) delete grouped['trailer']
  // A 204 has no body, so it must not announce a length.
  if (code === 204) delete grouped['content-length']
  if (isStream(exchange)) Object.assign(grouped, STREAM_HEADERS)
  for (const [key, value] of Object.entries(exchange.headers)) {
    if (key.startsWith('access-control-') && value !== undefined) grouped[key] = String(value)
    // These headers depend on the origin, for which a cache must know.
    if (key === 'vary') grouped[key] = [grouped[key] ?? [], String(value)].flat()
  }
  try {
    response.writeHead(code, grouped)
  } catch (error) {
    // An HTTP/2 response keeps the headers that it has rejected, and would reject the error response because of them.
    for (const key of Object.keys(grouped)) response.removeHeader(key)
    throw error
  }
  exchange.statusCode = code
  // A watch or a log may be silent for a long time, so the head is sent now.
  flushHead(response)
  incoming.once('end', () => {
    const trailers = responseTrailers(incoming.rawTrailers)
    if (Object.keys(trailers).length > 0) response.addTrailers(trailers)
  })
  // Not `pipeline`, because it adds seven end listeners to the response. Together with the server's listeners, they
  // make Node warn of a leak.
  incoming.on('error', fail)
  incoming.pipe(response)
  // `pipe` has ended the response before this listener is called.
  incoming.once('end', () => boundResponse(response, exchange.untakenMs))
}

/**
 * Calls back once the connection is established. Before that, no part of the request can have reached the other side. A
 * starting server may break off a handshake.
 */
function whenConnected(request: http.ClientRequest, connected: () => void): void {
  request.once('socket', (socket) => {
    if (request.reusedSocket) connected()
    else socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', connected)
  })
}
