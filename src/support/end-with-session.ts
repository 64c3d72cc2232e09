/**
 * Ends the connection of an HTTP/2 session that was destroyed.
 *
 * Node waits for the last write of such a session. If a write over TLS fails immediately because the peer has
 * disconnected, Node still treats it as pending and sends nothing more (`TLSWrap::EncOut`, Node 20 to 24). The session,
 * its connection and about 100 KB would then leak, without a `close` event. An unauthenticated peer can trigger this by
 * sending a request and disconnecting.
 *
 * Node also forgets to stop the timer of such a session, and the timer keeps the session in memory until it fires.
 */
import type { Http2Session } from 'node:http2'
import type { Socket } from 'node:net'
import { isBun } from './is-bun.js'

/** How long a failed session may take to send its GOAWAY. */
const LAST_WORDS_MS = 1_000
/** How long a slow client may take to receive the end of the last response, after the session was closed properly. */
const LAST_RESPONSE_MS = 5_000

/** Replaces the session's `destroy`, which Node itself calls after an error. */
export function endWithSession(session: Http2Session): void {
  // Bun has its own implementation.
  if (isBun) return
  let timer: NodeJS.Timeout | undefined
  // `session.socket` is a proxy that cannot be destroyed, but its `once` returns the socket itself. The reference is
  // dropped when the socket closes, because a session can stay in memory long after its connection.
  let socket: Socket | null = session.socket.once('close', () => {
    clearTimeout(timer)
    socket = null
  })
  const stopTimer = (): void => session.setTimeout(0)
  // This listener must run before Node's own, which destroys the session.
  socket.prependListener('close', stopTimer)
  const destroy = session.destroy.bind(session)
  let isWaiting = false
  session.destroy = (error, code) => {
    if (socket?.destroyed === true) {
      // The session's writes are about to fail. If the session were destroyed now, Node would not report those failures
      // to it, and it would keep the streams that wrote in memory.
      if (isWaiting) return
      isWaiting = true
      socket.prependOnceListener('close', () => {
        stopTimer()
        destroy(error, code)
      })
      return
    }
    const graceMs = session.closed ? LAST_RESPONSE_MS : LAST_WORDS_MS
    if (!session.destroyed) timer = setTimeout(() => socket?.destroy(), graceMs).unref()
    stopTimer()
    destroy(error, code)
  }
}
