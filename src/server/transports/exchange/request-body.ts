/**
 * The body of a request, from its first byte to its last, as a small state machine:
 *
 *     gathering ─ takeBody ─→ delivering ─┐
 *         │                       │       ├─ dropBody, the end of the body ─→ over
 *         └── pieces too small ───┴→ refused
 *
 * While it is gathered, it stays small in memory. Node keeps every chunk, frame or packet as a separate buffer, for up
 * to 64 KB of the body. If the client sends one byte at a time, these buffers take 10 MB per request, while the request
 * waits for its turn, its authentication or its slot. So bytes that arrive before there is a reader are gathered into
 * one buffer, and a body in very small pieces is refused, because a reader may be slow or may keep the pieces.
 *
 * In the last two states no piece that arrives reaches anyone, so a late piece never answers a request again. A response
 * that begins before the end of the body is the last one of its HTTP/1.1 connection, because nobody knows whether the
 * client will send the rest, and what that rest would be taken for. The client then has a few seconds to stop sending:
 * a connection that is closed while bytes arrive is reset, and the client may lose the response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { BadRequestError } from '../../../kubernetes/model/status.js'
import { stopParser } from './http-pipelining.js'
import { endSocket, endStream } from './linger.js'
import { GATHERED_BYTES, MIN_PIECES, PIECE_BYTES } from '../../limits/fixed-limits.js'
import { endsConnection } from './last-response.js'

export type BodyKind = 'none' | 'counted' | 'chunked'

/** Returns how the end of the body is marked. */
export function bodyOf(request: IncomingMessage): BodyKind {
  const { stream } = request as { stream?: ServerHttp2Stream }
  if (stream?.endAfterHeaders === true) return 'none'
  const length = request.headers['content-length']
  if (length !== undefined) return length === '0' ? 'none' : 'counted'
  return stream !== undefined || request.headers['transfer-encoding'] !== undefined ? 'chunked' : 'none'
}

export function piecesTooSmall(): BadRequestError {
  return new BadRequestError(
    `the body of the request arrives in pieces that are too small: send at least ${PIECE_BYTES} bytes at a time`,
  )
}

/** Node does not read such a body, because the bytes after the headers belong to the requested protocol. */
export function upgradeWithBody(): BadRequestError {
  return new BadRequestError('a request to upgrade must not have a body')
}

const bodies = new WeakMap<IncomingMessage, ArrivingBody>()

/** Gathers the body from now on; call it when the request arrives. */
export function gatherBody(request: IncomingMessage, response: ServerResponse): void {
  if (bodyOf(request) !== 'none') bodies.set(request, new ArrivingBody(request, response))
}

/**
 * Delivers the body to the request's reader from now on.
 * @param refuse called at most once, when the body comes in very small pieces. The rest of the body is then
 * dropped, and its end has no meaning.
 */
export function takeBody(request: IncomingMessage, refuse: () => void): void {
  bodies.get(request)?.deliver(refuse)
}

/**
 * Delivers the body like `takeBody`, for a stream of small messages that may go on for days: each piece is handled when
 * it arrives and never kept, so their number has no limit.
 */
export function streamBody(request: IncomingMessage): void {
  bodies.get(request)?.stream()
}

/** Drops whatever has not been delivered yet. */
export function dropBody(request: IncomingMessage): void {
  bodies.get(request)?.drop()
}

const NOTHING = Buffer.alloc(0)

class ArrivingBody {
  readonly #source: Readable
  /** Node's method that makes a piece readable. */
  readonly #push: (piece: Buffer | null) => boolean
  /** Whether the client asked to keep its HTTP/1.1 connection. */
  readonly #keepsAlive: boolean
  #state: 'gathering' | 'delivering' | 'refused' | 'over' = 'gathering'
  /** The first piece itself, which usually is the whole body. From the second piece on, a copy with room for more. */
  #gathered: Buffer = NOTHING
  #bytes = 0
  #pieces = 0
  #refuse: () => void = () => {}
  #isWhole = false
  #isStream = false

  constructor(
    request: IncomingMessage,
    private readonly response: ServerResponse,
  ) {
    const { stream } = request as { stream?: ServerHttp2Stream }
    // Node pushes the body into the HTTP/2 stream, or into the HTTP/1.1 request itself.
    this.#source = stream ?? request
    this.#push = this.#source.push.bind(this.#source)
    this.#source.push = (piece: Buffer | null) => this.#arrive(piece)
    this.#keepsAlive = response.shouldKeepAlive
    response.shouldKeepAlive = false
    // Node ends the connection in a listener of its own. The compatibility response of HTTP/2 finishes with its stream.
    const written = stream ?? response
    written.prependOnceListener('finish', () => {
      if (this.#isWhole) return
      if (stream === undefined) this.#endConnection(request.socket)
      else endStream(stream)
    })
  }

  deliver(refuse: () => void): void {
    if (this.#state === 'refused') return refuse()
    if (this.#state !== 'gathering') return
    this.#state = 'delivering'
    this.#refuse = refuse
    this.#release()
  }

  stream(): void {
    this.#isStream = true
    this.deliver(() => {})
  }

  drop(): void {
    if (this.#state !== 'refused') this.#state = 'over'
    this.#gathered = NOTHING
    // Node may have stopped reading, and would then not notice that the client leaves.
    if (!this.#source.destroyed) this.#source._read(0)
  }

  /** @returns whether Node may read on. */
  #arrive(piece: Buffer | null): boolean {
    if (piece === null) return this.#end()
    if (this.#state === 'over' || this.#state === 'refused') return true
    if (this.#isStream) return this.#push(piece)
    this.#pieces++
    this.#bytes += piece.length
    if (this.#pieces > MIN_PIECES + this.#bytes / PIECE_BYTES) {
      this.#state = 'refused'
      this.#gathered = NOTHING
      this.#refuse()
      return true
    }
    return this.#state === 'gathering' ? this.#gather(piece) : this.#push(piece)
  }

  /** `#bytes` already includes the piece. */
  #gather(piece: Buffer): boolean {
    const held = this.#bytes - piece.length
    if (held === 0) this.#gathered = piece
    else {
      if (this.#bytes > this.#gathered.length) {
        const grown = Buffer.allocUnsafeSlow(2 * this.#bytes)
        this.#gathered.copy(grown)
        this.#gathered = grown
      }
      piece.copy(this.#gathered, held)
    }
    return this.#bytes < GATHERED_BYTES
  }

  #release(): void {
    if (this.#gathered.length > 0) this.#push(this.#gathered.subarray(0, this.#bytes))
    this.#gathered = NOTHING
  }

  #endConnection(socket: Socket): void {
    this.drop()
    stopParser(socket)
    socket.destroySoon = () => endSocket(socket)
  }

  #end(): boolean {
    this.#isWhole = true
    if (!this.response.headersSent && !endsConnection(this.response)) this.response.shouldKeepAlive = this.#keepsAlive
    this.#release()
    if (this.#state !== 'refused') this.#state = 'over'
    return this.#push(null)
  }
}
