/**
 * Keeps the unread body of a request small in memory. Node keeps every chunk, frame or packet as a separate buffer, for
 * up to 64 KB of the body. If the client sends one byte at a time, these buffers take 10 MB per request, while the
 * request waits for its turn, its authentication or its slot, and for as long as a watch lives.
 *
 * So bytes that arrive before there is a reader are gathered into one buffer. A body in very small pieces is rejected,
 * because a reader may be slow or may keep the pieces.
 */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import { getOrMake } from '../../../support/memo.js'
import { BadRequestError } from '../../../engine/model/status.js'

/**
 * Once this many bytes are gathered, nothing more is read from the connection. Bytes that the last read has already
 * delivered are also kept.
 */
const GATHERED_BYTES = 64 * 1024
/**
 * A body may have MIN_PIECES pieces, plus one for each PIECE_BYTES of the body. Each piece takes a few microseconds of
 * the event loop and hundreds of bytes of memory.
 */
const MIN_PIECES = 2_048
const PIECE_BYTES = 32

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
export function gatherBody(request: IncomingMessage): void {
  if (bodyOf(request) !== 'none') bodies.set(request, new ArrivingBody(request))
}

/**
 * Delivers the body to the request's reader from now on.
 * @param refuse called at most once, when the body comes in very small pieces. The rest of the body is then dropped,
 * and its end has no meaning.
 */
export function takeBody(request: IncomingMessage, refuse: () => void): void {
  if (bodyOf(request) === 'none') return
  getOrMake(bodies, request, () => new ArrivingBody(request)).deliver(refuse)
}

const NOTHING = Buffer.alloc(0)

/**
 * Drops the rest of a body that was taken. Nothing reads the rest, but an HTTP/2 stream continues with its response.
 */
export function dropRest(request: IncomingMessage): void {
  bodies.get(request)?.drop()
}

class ArrivingBody {
  /** Node's method that makes a piece readable. */
  readonly #push: (piece: Buffer | null) => boolean
  /** The first piece itself, which usually is the whole body. From the second piece on, a copy with room for more. */
  #gathered: Buffer = NOTHING
  #bytes = 0
  #pieces = 0
  /** null while there is no reader and the pieces are gathered. */
  #refuse: (() => void) | null = null
  #isTooSmall = false
  #isDropped = false

  constructor(request: IncomingMessage) {
    // Node pushes the body into the HTTP/2 stream, or into the HTTP/1.1 request itself.
    const source: Readable = (request as { stream?: ServerHttp2Stream }).stream ?? request
    this.#push = source.push.bind(source)
    source.push = (piece: Buffer | null) => this.#arrive(piece)
  }

  deliver(refuse: () => void): void {
    if (this.#isTooSmall) return refuse()
    this.#release()
    this.#refuse = refuse
  }

  drop(): void {
    this.#isDropped = true
    this.#gathered = NOTHING
  }

  /** @returns whether Node may read on. */
  #arrive(piece: Buffer | null): boolean {
    if (piece === null) return this.#end()
    if (this.#isDropped) return true
    this.#pieces++
    this.#bytes += piece.length
    if (this.#pieces > MIN_PIECES + this.#bytes / PIECE_BYTES) {
      this.#isTooSmall = true
      this.drop()
      this.#refuse?.()
      return true
    }
    return this.#refuse === null ? this.#gather(piece) : this.#push(piece)
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

  #end(): boolean {
    this.#release()
    return this.#push(null)
  }
}
