/**
 * Lets an HTTP/2 session serve the requests that still arrive while it closes.
 *
 * When a request reaches a closed session, Node resets the request while nghttp2 is still reading it, and so frees a
 * stream that nghttp2 still uses. That corrupts the heap, and sooner or later the process crashes (Node 20.20.2;
 * nodejs/node#64113). A peer can cause this without credentials, by sending a GOAWAY and a request in one packet,
 * because Node answers GOAWAY with `close()`. A request that crosses our own GOAWAY also causes it. So a session here
 * first only sends GOAWAY, and is closed in the same turn of the event loop in which it is destroyed.
 */
import type { ServerHttp2Session } from 'node:http2'
import { isBun } from '../../../support/is-bun.js'

/**
 * Replaces the session's `close`, which Node itself calls when the peer sends GOAWAY.
 *
 * @param openStreams returns the number of unanswered requests.
 * @returns a function to call after each answered request.
 */
export function deferClose(session: ServerHttp2Session, openStreams: () => number): () => void {
  // Bun has its own implementation.
  if (isBun) return () => {}
  const close = session.close.bind(session)
  let isClosing = false
  const endWhenIdle = (): void => {
    if (openStreams() > 0 || session.destroyed) return
    close()
    // A closed session with unsent bytes would continue to read requests.
    if (!session.destroyed) session.destroy()
  }
  session.close = (callback) => {
    if (callback !== undefined) session.once('close', callback)
    if (isClosing || session.destroyed) return
    isClosing = true
    // GOAWAY names the last request that will be served, and that request may be in the packet that is being read.
    setImmediate(() => {
      if (session.destroyed) return
      session.goaway()
      endWhenIdle()
    })
  }
  return () => {
    if (isClosing) setImmediate(endWhenIdle)
  }
}
