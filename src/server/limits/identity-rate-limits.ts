/**
 * Rate limits per identity: requests per second, and bytes of lists and initial states per second. A noisy tenant gets
 * 429 before it affects others. `fair-semaphore.ts` limits what clients hold for a while: watches, and requests that
 * take memory.
 */
import type { CountedRates, Draw } from '../../engine/model/shared-limits.js'
import { BusyError } from '../../engine/model/errors.js'
import type { Clock } from '../../support/clock.js'
import { TokenBuckets } from './token-buckets.js'
import { MAX_IDENTITIES } from './fixed-limits.js'

export interface IdentityRateLimitsOptions {
  readonly clock: Clock
  readonly requestsPerSecond: () => number
  /** null means unlimited. */
  readonly initialBytesPerSecond: () => number | null
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
  readonly #bytes: TokenBuckets

  constructor(private readonly options: IdentityRateLimitsOptions) {
    this.#requests = new TokenBuckets(options.clock, MAX_IDENTITIES)
    this.#bytes = new TokenBuckets(options.clock, MAX_IDENTITIES)
  }

  get limitsBytes(): boolean {
    return this.options.initialBytesPerSecond() !== null
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

  /**
   * Counts bytes of a list or initial state that is about to be sent.
   *
   * @returns the milliseconds to wait before sending more. The counted bytes may be sent now, so any size
   * is possible.
   */
  spendInitialBytes(identity: string, bytes: number): number {
    const rate = this.options.initialBytesPerSecond()
    if (rate === null) return 0
    const bucket = this.#bytes.filled(identity, { perSecond: rate, burst: rate })
    bucket.tokens -= bytes
    return bucket.tokens >= 0 ? 0 : Math.ceil((-bucket.tokens / rate) * 1_000)
  }
}
