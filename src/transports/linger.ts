/**
 * A stream that has been ended is over when its peer has taken the last bytes. One who reads nothing would keep socket and
 * bytes for good: after half a minute it is cut.
 */
import type { Writable } from 'node:stream'

const LINGER_MS = 30_000

/** Call it after `end()`. */
export function lingerAtMost(stream: Pick<Writable, 'writableFinished' | 'destroyed' | 'once' | 'destroy'>): void {
  if (stream.writableFinished || stream.destroyed) return
  const timer = setTimeout(() => stream.destroy(), LINGER_MS)
  timer.unref()
  const over = (): void => clearTimeout(timer)
  stream.once('finish', over)
  stream.once('close', over)
}
