/**
 * Detects that the peer of an HTTP/2 session has disconnected.
 *
 * After an illegal frame, Node 20 sends GOAWAY and stops reading the connection, so it does not notice when the peer
 * closes it. The session, its streams and about 180 KB (over TLS) then stay in memory until the session times out or a
 * PING goes unanswered. Node 22 ends such a session itself.
 */
import type { Http2Session } from 'node:http2'
import type { Socket } from 'node:net'
import { isBun } from '../../../support/is-bun.js'

const CHECK_MS = 500

/** Node's private object in C++. */
interface Handle {
  readonly writeQueueSize?: number
  readStart?(): unknown
}

/** Sockets that are deliberately not read for a moment. */
export const heldSockets = new WeakSet<Socket>()

const sockets = new Set<Socket>()
let timer: NodeJS.Timeout | undefined

export function noticeDeparture(session: Http2Session): void {
  if (isBun || Number.parseInt(process.versions.node, 10) >= 22) return
  // `session.socket` is a proxy; its `once` returns the socket itself.
  const socket = session.socket.once('close', () => {
    sockets.delete(socket)
    if (sockets.size > 0) return
    clearInterval(timer)
    timer = undefined
  })
  sockets.add(socket)
  timer ??= setInterval(readAgain, CHECK_MS).unref()
}

/**
 * Starts reading all sockets again. This costs nothing if Node is still reading, and otherwise reveals at once that a
 * peer has disconnected.
 */
function readAgain(): void {
  for (const socket of sockets) {
    const { _handle: handle } = socket as { _handle?: Handle | null }
    // Node also stops reading while a peer does not accept the data sent to it, and that must not be undone.
    if (handle?.writeQueueSize === 0 && !heldSockets.has(socket)) handle.readStart?.()
  }
}
