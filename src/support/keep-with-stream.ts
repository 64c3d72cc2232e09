/**
 * Keeps HTTP/2 sessions in memory for as long as their streams exist.
 *
 * Node aborts the process if the garbage collector frees a session while memory of nghttp2 is still in use (the
 * assertion `current_nghttp2_memory_ == 0`, Node 20 to 26). A stream holds such memory for received fields that Node has
 * not reported to anybody: those of trailers that are never completed, or of a malformed request. Such a stream outlives
 * its session in two cases:
 *
 * - Every destroyed stream stays until the next turn of the event loop.
 * - A stream whose bytes are being written when it is destroyed is left to the garbage collector.
 *
 * A peer causes either with a few frames; a client needs no credentials.
 */
import type { Http2Session, Http2Stream } from 'node:http2'

/** Holds the handle of a session until the handle of the stream has been collected. */
const kept = new FinalizationRegistry<object>(() => {})

let handleKey: symbol | undefined

/** For every session: keeps it past the turn in which it closes, because of streams that Node has never reported. */
export function keepUntilClosed(session: Http2Session): void {
  let handle = handleOf(session)
  // A client's session gets its handle when it has connected.
  if (handle === undefined) session.once('connect', () => (handle = handleOf(session)))
  // Streams that are destroyed while a turn ends stay until the end of the next one.
  session.once('close', () => setImmediate(() => setImmediate(() => void handle)))
}

/**
 * For every stream of which a peer may send trailers: keeps the session until the stream is collected. Does nothing for
 * a stream that cannot have trailers, because the peer's message was complete with its headers.
 */
export function keepWithStream(session: Http2Session, stream: Http2Stream): void {
  if (stream.endAfterHeaders) return
  const [ofStream, ofSession] = [handleOf(stream), handleOf(session)]
  if (ofStream !== undefined && ofSession !== undefined) kept.register(ofStream, ofSession)
}

/** Node's private object in C++; undefined on runtimes that have none. */
function handleOf(owner: object): object | undefined {
  handleKey ??= Object.getOwnPropertySymbols(owner).find(({ description }) => description === 'kHandle')
  return handleKey === undefined ? undefined : (owner as Record<symbol, object | undefined>)[handleKey]
}
