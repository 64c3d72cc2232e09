/**
 * Reads the whole body of a request up to a limit, on HTTP/1.1 and HTTP/2. Writes and reviews use the body; reads drop
 * it.
 */
import {
  BadRequestError,
  RequestEntityTooLargeError,
  TimeoutError,
  UnsupportedMediaTypeError,
} from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import type { Exchange } from './exchange.js'
import { upgradeHead } from './upgrade-head.js'
import { bodyOf, dropBody, piecesTooSmall, takeBody, upgradeWithBody } from './request-body.js'
import { MAX_BODY_BYTES, MAX_IGNORED_BYTES } from '../../limits/fixed-limits.js'

/**
 * @param timeoutMs how long a slow client may hold its slot.
 * @throws RequestEntityTooLargeError, UnsupportedMediaTypeError, TimeoutError, BadRequestError when the client is gone,
 * or when the body comes in very small pieces.
 */
export async function readBody(
  exchange: Pick<Exchange, 'request' | 'requestHeaders'>,
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
export function readAndDropBody(exchange: Exchange, clock: Clock, timeoutMs: number): Promise<void> | null {
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

/** Settles once, and leaves the body in its last state. */
async function takeWhole(
  { request, requestHeaders }: Pick<Exchange, 'request' | 'requestHeaders'>,
  { clock, timeoutMs, maxBytes }: Bounds,
  take: (piece: Buffer) => void,
): Promise<void> {
  if (Number(requestHeaders['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
  let bytes = 0
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error): void => {
      finish()
      reject(error)
    }
    const timer = clock.setTimer(timeoutMs, () =>
      fail(new TimeoutError(`the body of the request did not arrive within ${timeoutMs} ms`)),
    )
    const onData = (piece: Buffer): void => {
      bytes += piece.length
      if (bytes > maxBytes) fail(tooLarge(maxBytes))
      else take(piece)
    }
    const onEnd = (): void => {
      finish()
      resolve()
    }
    const onGone = (): void => fail(new BadRequestError('the body of the request ended too early'))
    const finish = (): void => {
      timer.cancel()
      request.off('data', onData).off('end', onEnd).off('aborted', onGone).off('error', onGone).off('close', onGone)
      // A socket that breaks later must not throw here.
      request.on('error', () => {})
      dropBody(request)
    }
    request.on('data', onData).on('end', onEnd).on('aborted', onGone).on('error', onGone).on('close', onGone)
    takeBody(request, () => fail(piecesTooSmall()))
    if (request.destroyed) onGone()
  })
}

function tooLarge(maxBytes: number): RequestEntityTooLargeError {
  return new RequestEntityTooLargeError(`Request entity too large: limit is ${maxBytes}`)
}
