/** How long a client waits after a failure. */
import { type BackoffOptions, backoffMs } from '../../support/backoff.js'
import type { Random } from '../../support/random.js'

/** The longest wait that a server can request. It is limited because the header may contain a date by a wrong clock. */
const MAX_RETRY_AFTER_MS = 600_000

/** @param retryAfterMs what the server has asked for; null if it has not. */
export function failurePauseMs(
  backoff: BackoffOptions,
  attempt: number,
  retryAfterMs: number | null,
  random: Random,
): number {
  const waitMs = backoffMs(backoff, attempt, random)
  if (retryAfterMs === null) return waitMs
  // All clients may have got the same time, and must not all come back at once.
  const requestedMs = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
  return Math.max(waitMs, requestedMs + (random.next() * requestedMs) / 4)
}
