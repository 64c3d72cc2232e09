/** Decides when a key may be retried: two rules and their combination, with client-go's defaults. */
import type { Clock } from '../support/clock.js'

/** Decides how long a key waits for its next attempt. */
export interface RateLimiter {
  /** Returns the milliseconds to wait before this key's next attempt, and counts an attempt. */
  delayMs(key: string): number
  /** Clears the attempts of the key. */
  forget(key: string): void
  /** Returns the number of attempts since the key was last forgotten. */
  numRequeues(key: string): number
}

/**
 * Doubles the delay with each attempt of a key, from 5 ms up to 1,000 s. There is no jitter, since keys fail at
 * different times anyway.
 */
export function itemExponentialFailureRateLimiter(
  options: { readonly firstMs?: number; readonly capMs?: number } = {},
): RateLimiter {
  const { firstMs = 5, capMs = 1_000_000 } = options
  const tries = new Map<string, number>()
  return {
    delayMs(key) {
      const before = tries.get(key) ?? 0
      tries.set(key, before + 1)
      return Math.min(capMs, firstMs * 2 ** Math.min(before, 40))
    },
    forget: (key) => void tries.delete(key),
    numRequeues: (key) => tries.get(key) ?? 0,
  }
}

/** Limits all keys together: `perSecond` on average, `burst` at once. */
export function bucketRateLimiter(options: {
  readonly perSecond?: number
  readonly burst?: number
  readonly clock: Clock
}): RateLimiter {
  const { perSecond = 10, burst = 100, clock } = options
  let tokens = burst
  let at = clock.monotonic()
  return {
    delayMs() {
      const now = clock.monotonic()
      tokens = Math.min(burst, tokens + ((now - at) * perSecond) / 1_000)
      at = now
      // If the result is negative, the token is reserved ahead of time and the caller must wait for it.
      tokens -= 1
      return tokens >= 0 ? 0 : (-tokens * 1_000) / perSecond
    },
    forget: () => undefined,
    numRequeues: () => 0,
  }
}

/** Waits as long as the slowest of several limiters requires. */
export function maxOfRateLimiter(...limiters: readonly RateLimiter[]): RateLimiter {
  return {
    delayMs: (key) => Math.max(...limiters.map((limiter) => limiter.delayMs(key))),
    forget: (key) => limiters.forEach((limiter) => limiter.forget(key)),
    numRequeues: (key) => Math.max(...limiters.map((limiter) => limiter.numRequeues(key))),
  }
}
