/**
 * Limits the requests per second of each identity. A noisy tenant gets 429 before it affects others.
 * `fair-semaphore.ts` limits what clients hold for a while: watches, and requests that take memory.
 */
import type { CountedRates, Draw } from '../../engine/model/shared-limits.js'
import { BusyError } from '../../engine/model/errors.js'
import type { Clock } from '../../support/clock.js'
import { TokenBuckets } from './token-buckets.js'
import { MAX_IDENTITIES } from './fixed-limits.js'

export interface IdentityRateLimitsOptions {
  readonly clock: Clock
  readonly requestsPerSecond: () => number
}

/** The allowed burst, in seconds of the sustained rate. An informer starts with a burst of lists. */
const BURST_SECONDS = 10
/**
 * The share of the remaining budget that one process may reserve for later requests, so that the other processes need
 * not wait for it.
 */
const SPARE_SHARE = 1 / 8

export class IdentityRateLimits implements CountedRates {
  readonly #requests: TokenBuckets

  constructor(private readonly options: IdentityRateLimitsOptions) {
    this.#requests = new TokenBuckets(options.clock, MAX_IDENTITIES)
  }

  /**
   * @param identity the user's name, or the client's address if callers are not authenticated.
   * @throws BusyError
   */
  countRequest(identity: string): void {
    this.drawRequests(identity, { needed: 1, spare: 0, unused: 0 })
  }

  drawRequests(identity: string, { needed, spare, unused }: Draw): number {
    const rate = this.options.requestsPerSecond()
    const most = rate * BURST_SECONDS
    const bucket = this.#requests.filled(identity, { perSecond: rate, burst: most })
    bucket.tokens = Math.min(most, bucket.tokens + unused)
    const wanted = needed + Math.min(spare, Math.floor(bucket.tokens * SPARE_SHARE))
    const granted = Math.min(wanted, Math.floor(bucket.tokens))
    if (granted < 1) {
      const wait = Math.ceil((1 - bucket.tokens) / rate)
      throw new BusyError(`too many requests: more than ${rate} a second`, Math.max(1, wait))
    }
    bucket.tokens -= granted
    return granted
  }
}
