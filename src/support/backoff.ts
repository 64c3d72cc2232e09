/**
 * Exponential back-off with a cap and with jitter in the upper half of each step. Callers reset it only after a healthy
 * period.
 */
import type { Random } from './random.js'

export interface BackoffOptions {
  readonly firstMs: number
  readonly capMs: number
}

/**
 * Returns the wait before attempt `attempt` (1 for the first retry) in milliseconds, between half and all of the step.
 */
export function backoffMs(options: BackoffOptions, attempt: number, random: Random): number {
  const step = Math.min(options.capMs, options.firstMs * 2 ** Math.min(attempt - 1, 30))
  return step / 2 + (random.next() * step) / 2
}
