/**
 * The clock of a client: its timers keep the process alive, as open connections do. A program that waits for an
 * informer must not end silently because the server was unreachable and only a timer was left.
 */
import type { Clock } from '../../support/clock.js'

export const activeClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(delayMs, callback) {
    const handle = setTimeout(callback, delayMs)
    return { cancel: () => clearTimeout(handle) }
  },
}
