/**
 * Lets an HTTP/2 session serve the requests that still arrive while it closes.
 *
 * Node refuses a request that reaches a closed session, in the middle of reading it, and frees a stream that nghttp2
 * then goes on to use: the heap is corrupt, and the process ends sooner or later (Node 20.20.2; nodejs/node#64113). A
 * peer needs no credentials for that, only a GOAWAY and a request in one packet, which Node takes for `close()`; an
 * honest request that meets the GOAWAY of a drain does it too. Here a session says GOAWAY, and is not closed before the
 * turn in which it ends.
 */
import type { ServerHttp2Session } from 'node:http2'

/** Replaces the session's `close`, which Node itself calls when the peer says GOAWAY. */
export function deferClose(session: ServerHttp2Session): void {
  // Bun has its own implementation.
  if (process.versions['bun'] !== undefined) return
  const close = session.close.bind(session)
  let streams = 0
  let isClosing = false
  const endWhenIdle = (): void => {
    if (streams > 0 || session.destroyed) return
    close()
    // Otherwise it would stay closed until the peer has taken all bytes, and read requests meanwhile.
    if (!session.destroyed) session.destroy()
  }
  session.on('stream', (stream) => {
    streams++
    stream.once('close', () => {
      streams--
      if (isClosing) setImmediate(endWhenIdle)
    })
  })
  session.close = (callback) => {
    if (callback !== undefined) session.once('close', callback)
    if (isClosing || session.destroyed) return
    isClosing = true
    // It names the last request that is served, which may be in the packet that is being read.
    setImmediate(() => {
      if (session.destroyed) return
      session.goaway()
      endWhenIdle()
    })
  }
}
