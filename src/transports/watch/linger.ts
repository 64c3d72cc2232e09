/**
 * A stream that has been ended is over when its peer has taken the last bytes. One who reads nothing would keep socket and
 * bytes for good: after half a minute it is cut.
 */
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'

const LINGER_MS = 30_000
/** Long enough for the last bytes to arrive; what comes from the peer meanwhile is not looked at. */
const CLOSE_MS = 5_000

/** Call it after `end()`. */
export function lingerAtMost(stream: Pick<Writable, 'writableFinished' | 'destroyed' | 'once' | 'destroy'>): void {
  if (stream.writableFinished || stream.destroyed) return
  const timer = setTimeout(() => stream.destroy(), LINGER_MS)
  timer.unref()
  const over = (): void => clearTimeout(timer)
  stream.once('finish', over)
  stream.once('close', over)
}

/** The last bytes and the end of a connection. A peer that keeps its half open is not waited for. */
export function endSocket(socket: Socket, bytes?: Buffer): void {
  if (bytes === undefined) socket.end()
  else socket.end(bytes)
  const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
}
