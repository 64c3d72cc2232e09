/** Reads the whole body of a request up to a bound, on HTTP/1.1 and HTTP/2. Only writes and reviews have one. */
import {
  BadRequestError,
  RequestEntityTooLargeError,
  TimeoutError,
  UnsupportedMediaTypeError,
} from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import type { Exchange } from '../server/exchange.js'

/** The API server's limit. It is twice what etcd takes by default, so etcd itself refuses an object that is too large for it. */
export const MAX_BODY_BYTES = 3 * 1024 * 1024

/**
 * The pieces that a body may come in: so many, and one more for so many bytes. Each takes some microseconds of the event loop
 * and hundreds of bytes, and one read of a socket may hold ten thousand: without a bound 3 MB a byte at a time take 800 MB.
 */
const MIN_PIECES = 2_048
const PIECE_BYTES = 32

/**
 * @param timeoutMs the longest that a client that sends slowly may hold its slot.
 * @throws RequestEntityTooLargeError, UnsupportedMediaTypeError, TimeoutError, BadRequestError when the client is gone, or
 * when the body comes in very small pieces.
 */
export async function readBody(
  exchange: Exchange,
  clock: Clock,
  timeoutMs: number,
  maxBytes = MAX_BODY_BYTES,
): Promise<Buffer> {
  const { request, requestHeaders } = exchange
  const coding = requestHeaders['content-encoding'] ?? 'identity'
  if (coding !== 'identity') {
    throw new UnsupportedMediaTypeError(`a body with Content-Encoding ${JSON.stringify(coding)} is not read`)
  }
  if (Number(requestHeaders['content-length'] ?? 0) > maxBytes) throw tooLarge(exchange, maxBytes)
  const pieces: Buffer[] = []
  let bytes = 0
  return await new Promise<Buffer>((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () =>
      finish(() => reject(new TimeoutError(`the body of the request did not arrive within ${timeoutMs} ms`))),
    )
    const onData = (piece: Buffer): void => {
      bytes += piece.length
      if (bytes > maxBytes) return finish(() => reject(tooLarge(exchange, maxBytes)))
      if (pieces.push(piece) > MIN_PIECES + bytes / PIECE_BYTES) finish(() => reject(tooManyPieces(exchange)))
    }
    const onEnd = (): void => finish(() => resolve(Buffer.concat(pieces)))
    const onGone = (): void => finish(() => reject(new BadRequestError('the body of the request ended too early')))
    const finish = (settle: () => void): void => {
      timer.cancel()
      request.off('data', onData).off('end', onEnd).off('aborted', onGone).off('error', onGone).off('close', onGone)
      // A socket that breaks later must not throw here.
      request.on('error', () => {})
      settle()
    }
    request.on('data', onData).on('end', onEnd).on('aborted', onGone).on('error', onGone).on('close', onGone)
  })
}

function tooLarge(exchange: Exchange, maxBytes: number): RequestEntityTooLargeError {
  endConnection(exchange)
  return new RequestEntityTooLargeError(`Request entity too large: limit is ${maxBytes}`)
}

function tooManyPieces(exchange: Exchange): BadRequestError {
  endConnection(exchange)
  return new BadRequestError(
    `the body of the request comes in pieces that are too small: send ${PIECE_BYTES} bytes at once or more`,
  )
}

/** Ends the connection with the answer, because the unread rest of the body would be taken for the next request. */
function endConnection({ response, request }: Exchange): void {
  if (request.httpVersionMajor !== 1) return
  response.setHeader('connection', 'close')
  // What is left of it would be handed on piece by piece for nobody.
  request.pause()
}
