/** Exponential backoff with full-range jitter in its upper half, a cap, and a reset only after a healthy spell. */
import type { Random } from './random.js'

export interface BackoffOptions {
  readonly firstMs: number
  readonly capMs: number
}

/** The wait before attempt `attempt` (1 for the first repeat), in milliseconds: between half and all of the step. */
export function backoffMs(options: BackoffOptions, attempt: number, random: Random): number {
  const step = Math.min(options.capMs, options.firstMs * 2 ** Math.min(attempt - 1, 30))
  return step / 2 + (random.next() * step) / 2
}
