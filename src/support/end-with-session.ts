/**
 * Ends the connection of an HTTP/2 session that was destroyed.
 *
 * Node waits for the last write of such a session. If a write over TLS fails immediately because the peer has
 * disconnected, Node still treats it as pending and sends nothing more (`TLSWrap::EncOut`, Node 20 to 24). The session, its
 * connection and about 100 KB would then leak, without a `close` event. An unauthenticated peer can trigger this by sending
 * a request and disconnecting.
 */
import type { Http2Session } from 'node:http2'
import type { Socket } from 'node:net'

/** How long a failed session may take to send its GOAWAY. */
const LAST_WORDS_MS = 1_000
/** How long a slow client may take to receive the end of the last answer, after the session was closed in order. */
const LAST_ANSWER_MS = 5_000

/** Replaces the session's `destroy`, which Node itself calls after an error. */
export function endWithSession(session: Http2Session): void {
  // Bun has its own implementation.
  if (process.versions['bun'] !== undefined) return
  let timer: NodeJS.Timeout | undefined
  // `session.socket` is a proxy that cannot be destroyed, but its `once` returns the socket itself. It is forgotten when it
  // closes: a session can stay in memory long after its connection.
  let socket: Socket | null = session.socket.once('close', () => {
    clearTimeout(timer)
    socket = null
  })
  const destroy = session.destroy.bind(session)
  session.destroy = (error, code) => {
    const graceMs = session.closed ? LAST_ANSWER_MS : LAST_WORDS_MS
    if (!session.destroyed) timer = setTimeout(() => socket?.destroy(), graceMs).unref()
    destroy(error, code)
  }
}
