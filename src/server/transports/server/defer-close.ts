/**
 * Lets an HTTP/2 session serve the requests that still arrive while it closes.
 *
 * Node resets a request that reaches a closed session while nghttp2 is still reading it, which frees a stream that
 * nghttp2 still uses. That corrupts the heap, and sooner or later the process ends (Node 20.20.2; nodejs/node#64113). A
 * peer needs no credentials for it, only a GOAWAY and a request in one packet, since Node answers GOAWAY with
 * `close()`. A request that crosses our own GOAWAY does it too. So a session here sends GOAWAY, and is closed only in
 * the turn in which it is destroyed.
 */
import type { ServerHttp2Session } from 'node:http2'
import { isBun } from '../../../support/is-bun.js'

/**
 * Replaces the session's `close`, which Node itself calls when the peer says GOAWAY.
 *
 * @param openStreams the number of requests that are not answered.
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
    // GOAWAY names the last request that is served, which may be in the packet being read.
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
