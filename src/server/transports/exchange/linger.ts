/**
 * Limits how long an ended stream waits for its peer to read the last bytes. A peer that reads nothing would keep the
 * socket and the bytes forever, so its stream is destroyed after half a minute, or later if there are many bytes.
 */
import type { ServerResponse } from 'node:http'
import { type ServerHttp2Stream, constants } from 'node:http2'
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { LINGER_MS, MIN_LINGER_BYTES_PER_SECOND, UNREAD_BODY_MS } from '../../limits/fixed-limits.js'

/**
 * Returns how long a peer may take to read this many last bytes, in milliseconds, rounded to whole seconds to keep
 * Node's number of timer lists small.
 */
export function lingerMs(bytes: number): number {
  return LINGER_MS + Math.ceil(bytes / MIN_LINGER_BYTES_PER_SECOND) * 1000
}

/** Destroys the stream if it does not finish in time. The caller must have called `end()`. */
export function lingerAtMost(
  stream: Pick<Writable, 'writableFinished' | 'destroyed' | 'once' | 'destroy'>,
  ms = LINGER_MS,
  giveUp: () => void = () => stream.destroy(),
): void {
  if (stream.writableFinished || stream.destroyed) return
  const timer = setTimeout(giveUp, ms)
  timer.unref()
  const over = (): void => clearTimeout(timer)
  stream.once('finish', over)
  stream.once('close', over)
}

/**
 * Limits how long a client may take to read the last bytes of a response. A client that takes longer loses the stream
 * over HTTP/2, or the connection over HTTP/1.1. Call this when the last bytes have been written.
 */
export function boundResponse(response: ServerResponse, msFor: (bytes: number) => number = lingerMs): void {
  // A pipelined response has no socket until the responses before it are done.
  if (response.socket === null) return
  // The compatibility response of HTTP/2 lacks some of a stream's state.
  const { stream } = response as { stream?: ServerHttp2Stream }
  const writable = stream ?? response
  const giveUp = stream === undefined ? undefined : (): void => resetStream(stream)
  lingerAtMost(writable, msFor(writable.writableLength), giveUp)
}

/** Aborts a response in the middle, so that its client sees it as broken; see `boundResponse`. */
export function breakOff(response: ServerResponse): void {
  const { stream } = response as { stream?: ServerHttp2Stream }
  if (stream === undefined) response.destroy()
  else resetStream(stream, constants.NGHTTP2_INTERNAL_ERROR)
}

/**
 * Resets a stream at once. Destroying it alone would send NO_ERROR, and the client would take a partial response for a
 * complete one. Closing it alone may never send the reset: when a blocked connection takes bytes again, Node may drop
 * the stream but keep its data, and then loops forever without writing anything (seen on Node 20).
 */
export function resetStream(stream: ServerHttp2Stream, code: number = constants.NGHTTP2_CANCEL): void {
  stream.close(code)
  stream.destroy()
}

/** Ends a stream after its response has been sent completely. The client gets some time to end its request. */
export function endStream(stream: ServerHttp2Stream): void {
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), UNREAD_BODY_MS)
  timer.unref()
  stream.once('close', () => clearTimeout(timer))
}

/** Writes the last bytes and ends the connection, without waiting long for a peer that keeps its half open. */
export function endSocket(socket: Socket, bytes?: Buffer): void {
  if (bytes === undefined) socket.end()
  else socket.end(bytes)
  const timer = setTimeout(() => socket.destroy(), UNREAD_BODY_MS)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
}
