/**
 * A token bucket for each client. Tokens are added at a rate, up to a burst, and the caller takes them. The table is
 * bounded. When there are more clients, the least recently active one is forgotten, and later starts with a full bucket
 * again.
 */
import type { LRUCache } from 'lru-cache'
import type { Clock } from '../../support/clock.js'
import { recentEntries } from '../../support/recent-entries.js'

export interface Bucket {
  tokens: number
  filledAtMs: number
}

export class TokenBuckets {
  readonly #buckets: LRUCache<string, Bucket>

  constructor(
    private readonly clock: Clock,
    maxClients: number,
  ) {
    this.#buckets = recentEntries(maxClients)
  }

  /**
   * Returns the client's bucket, filled up to now. A burst smaller than before applies at once, so the bucket may lose
   * tokens.
   */
  filled(client: string, { perSecond, burst }: { readonly perSecond: number; readonly burst: number }): Bucket {
    const nowMs = this.clock.monotonic()
    const bucket = this.#buckets.get(client) ?? { tokens: burst, filledAtMs: nowMs }
    bucket.tokens = Math.min(burst, bucket.tokens + ((nowMs - bucket.filledAtMs) / 1_000) * perSecond)
    bucket.filledAtMs = nowMs
    this.#buckets.set(client, bucket)
    return bucket
  }
}
