/** Limits the number of watchers, in total and per client; beyond a limit the answer is 429 with Retry-After. */
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import { TooManyRequestsError } from '../../../engine/model/status.js'

export interface WatcherQuotaOptions {
  readonly total: () => number
  readonly perClient: () => number
  readonly onRejected: (limit: 'watchers' | 'watchers-per-client') => void
}

export class WatcherQuota implements IdentitySemaphore {
  readonly #options: WatcherQuotaOptions
  /** At most as many entries as watchers. */
  readonly #byClient = new Map<string, number>()
  #total = 0

  constructor(options: WatcherQuotaOptions) {
    this.#options = options
  }

  get running(): number {
    return this.#total
  }

  tryAcquire(client: string): (() => void) | null {
    return this.#whyFull(client) === null ? this.hold(client) : null
  }

  /**
   * @param client the identity that it counts for. @returns a function that releases the slot. @throws
   * TooManyRequestsError
   */
  async acquire(client: string): Promise<() => void> {
    const limit = this.#whyFull(client)
    if (limit === 'watchers') throw this.#refuse('watchers', `${this.#options.total()} watchers in all`)
    if (limit !== null) throw this.#refuse('watchers-per-client', `${this.#options.perClient()} watchers of one client`)
    return this.hold(client)
  }

  hold(client: string): () => void {
    this.#total++
    this.#byClient.set(client, (this.#byClient.get(client) ?? 0) + 1)
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      this.#total--
      const left = this.#byClient.get(client)! - 1
      if (left === 0) this.#byClient.delete(client)
      else this.#byClient.set(client, left)
    }
  }

  #whyFull(client: string): 'watchers' | 'watchers-per-client' | null {
    if (this.#total >= this.#options.total()) return 'watchers'
    return (this.#byClient.get(client) ?? 0) >= this.#options.perClient() ? 'watchers-per-client' : null
  }

  #refuse(limit: 'watchers' | 'watchers-per-client', text: string): TooManyRequestsError {
    this.#options.onRejected(limit)
    return new TooManyRequestsError(`too many watchers: the limit is ${text}`, 5)
  }
}
