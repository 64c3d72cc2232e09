/**
 * Keeps an HTTP/2 session in memory for as long as its streams exist.
 *
 * Node aborts the process if the garbage collector frees a session while memory of nghttp2 is still in use (the
 * assertion `current_nghttp2_memory_ == 0`, Node 20 to 26). A stream can hold such memory, for the fields of trailers
 * that are never completed. If the stream is destroyed while its bytes are being written, Node leaves it to the garbage
 * collector, which may free the session first. To cause this, a peer only has to send half of the trailers of a request
 * or a response; a client needs no credentials.
 */
import type { Http2Session, Http2Stream } from 'node:http2'

/** Holds the handle of a session until the handle of the stream has been collected. */
const kept = new FinalizationRegistry<object>(() => {})

let handleKey: symbol | undefined

/** Does nothing for a stream that cannot have trailers, because the peer's message was complete with its headers. */
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
