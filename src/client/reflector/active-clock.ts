/**
 * The clock of a client. Its timers keep the process alive, as open connections do. Otherwise a program that waits for
 * an informer would end silently when the server is unreachable and only a timer is left.
 */
import { type Clock, longTimer } from '../../support/clock.js'

export const activeClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (delayMs, callback) => longTimer(delayMs, callback),
}
