/**
 * Reads the whole body of a request up to a limit, on HTTP/1.1 and HTTP/2. Writes and reviews use the body; reads drop
 * it.
 */
import {
  BadRequestError,
  RequestEntityTooLargeError,
  TimeoutError,
  UnsupportedMediaTypeError,
} from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import type { Exchange } from '../server/exchange.js'
import { upgradeHead } from '../server/upgrade-head.js'
import { bodyOf, dropRest, piecesTooSmall, takeBody, upgradeWithBody } from '../server/request-body.js'

/** The API server's limit. It is twice etcd's default, so etcd itself rejects an object that is too large for it. */
export const MAX_BODY_BYTES = 3 * 1024 * 1024

/** The body of a read has no meaning, and the API server ignores it. */
const MAX_IGNORED_BYTES = 64 * 1024

/**
 * @param timeoutMs how long a slow client may hold its slot.
 * @throws RequestEntityTooLargeError, UnsupportedMediaTypeError, TimeoutError, BadRequestError when the client is gone,
 * or when the body comes in very small pieces.
 */
export async function readBody(
  exchange: Exchange,
  clock: Clock,
  timeoutMs: number,
  maxBytes = MAX_BODY_BYTES,
): Promise<Buffer> {
  const coding = exchange.requestHeaders['content-encoding'] ?? 'identity'
  if (coding !== 'identity') {
    throw new UnsupportedMediaTypeError(`Content-Encoding ${JSON.stringify(coding)} is not supported in requests`)
  }
  const pieces: Buffer[] = []
  await takeWhole(exchange, { clock, timeoutMs, maxBytes }, (piece) => void pieces.push(piece))
  return Buffer.concat(pieces)
}

/**
 * Drops the whole body of a read before the read begins, because anything that a client sends during a watch belongs to
 * another request.
 *
 * @returns null when there is no body.
 * @throws RequestEntityTooLargeError, TimeoutError, BadRequestError as in `readBody`, and for a request to upgrade.
 */
export function dropBody(exchange: Exchange, clock: Clock, timeoutMs: number): Promise<void> | null {
  const { request } = exchange
  if (bodyOf(request) === 'none') return null
  if (upgradeHead(request) !== undefined) throw upgradeWithBody()
  return takeWhole(exchange, { clock, timeoutMs, maxBytes: MAX_IGNORED_BYTES }, () => {})
}

interface Bounds {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly maxBytes: number
}

async function takeWhole(
  exchange: Exchange,
  { clock, timeoutMs, maxBytes }: Bounds,
  take: (piece: Buffer) => void,
): Promise<void> {
  const { request, requestHeaders } = exchange
  if (Number(requestHeaders['content-length'] ?? 0) > maxBytes) throw tooLarge(exchange, maxBytes)
  let bytes = 0
  await new Promise<void>((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () =>
      finish(() => reject(new TimeoutError(`the body of the request did not arrive within ${timeoutMs} ms`))),
    )
    const onData = (piece: Buffer): void => {
      bytes += piece.length
      if (bytes > maxBytes) return finish(() => reject(tooLarge(exchange, maxBytes)))
      take(piece)
    }
    const onEnd = (): void => finish(resolve)
    const onGone = (): void => finish(() => reject(new BadRequestError('the body of the request ended too early')))
    const finish = (settle: () => void): void => {
      timer.cancel()
      request.off('data', onData).off('end', onEnd).off('aborted', onGone).off('error', onGone).off('close', onGone)
      // A socket that breaks later must not throw here.
      request.on('error', () => {})
      settle()
    }
    takeBody(request, () => finish(() => reject(tooManyPieces(exchange))))
    request.on('data', onData).on('end', onEnd).on('aborted', onGone).on('error', onGone).on('close', onGone)
    if (request.destroyed) onGone()
  })
}

function tooLarge(exchange: Exchange, maxBytes: number): RequestEntityTooLargeError {
  endConnection(exchange)
  return new RequestEntityTooLargeError(`Request entity too large: limit is ${maxBytes}`)
}

function tooManyPieces(exchange: Exchange): BadRequestError {
  endConnection(exchange)
  return piecesTooSmall()
}

/** Ends the connection with the response, because the unread rest of the body would be parsed as the next request. */
function endConnection({ response, request }: Exchange): void {
  // Other streams of an HTTP/2 connection continue, and this one ends when the client has sent the rest.
  if (request.httpVersionMajor !== 1) return dropRest(request)
  response.setHeader('connection', 'close')
  // The rest would otherwise be delivered piece by piece and not be used.
  request.pause()
}
