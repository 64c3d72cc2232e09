/**
 * Bounds how long an ended stream waits for its peer to take the last bytes. A peer that reads nothing would keep the socket
 * and the bytes for ever, so its stream is destroyed after half a minute.
 */
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'

const LINGER_MS = 30_000
/** Long enough for the last bytes to arrive. Bytes that come from the peer meanwhile are ignored. */
const CLOSE_MS = 5_000

/** Destroys the stream if it does not finish in time. The caller has called `end()`. */
export function lingerAtMost(stream: Pick<Writable, 'writableFinished' | 'destroyed' | 'once' | 'destroy'>): void {
  if (stream.writableFinished || stream.destroyed) return
  const timer = setTimeout(() => stream.destroy(), LINGER_MS)
  timer.unref()
  const over = (): void => clearTimeout(timer)
  stream.once('finish', over)
  stream.once('close', over)
}

/** Writes the last bytes and ends the connection, without waiting long for a peer that keeps its half open. */
export function endSocket(socket: Socket, bytes?: Buffer): void {
  if (bytes === undefined) socket.end()
  else socket.end(bytes)
  const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
}
