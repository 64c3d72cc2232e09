/** Bounds the number of watchers, in all and of one client; beyond a bound the answer is 429 with Retry-After. */
import { TooManyRequestsError } from '../../model/status.js'

export interface WatcherLimitsOptions {
  readonly total: () => number
  readonly perClient: () => number
  readonly onRejected: (limit: 'watchers' | 'watchers-per-client') => void
}

export class WatcherLimits {
  readonly #options: WatcherLimitsOptions
  /** As many entries as there are watchers at the most. */
  readonly #byClient = new Map<string, number>()
  #total = 0

  constructor(options: WatcherLimitsOptions) {
    this.#options = options
  }

  get total(): number {
    return this.#total
  }

  /** The clients with the most watchers, at most `count` of them, the largest first. */
  largest(count: number): readonly (readonly [client: string, watchers: number])[] {
    return [...this.#byClient].toSorted(([, a], [, b]) => b - a).slice(0, count)
  }

  /** @param client the identity it counts for. @returns a function that gives the place back. @throws TooManyRequestsError */
  enter(client: string): () => void {
    const own = this.#byClient.get(client) ?? 0
    if (this.#total >= this.#options.total()) throw this.#refuse('watchers', `${this.#options.total()} watchers in all`)
    if (own >= this.#options.perClient()) {
      throw this.#refuse('watchers-per-client', `${this.#options.perClient()} watchers of one client`)
    }
    this.#total++
    this.#byClient.set(client, own + 1)
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

  #refuse(limit: 'watchers' | 'watchers-per-client', text: string): TooManyRequestsError {
    this.#options.onRejected(limit)
    return new TooManyRequestsError(`too many watchers: the limit is ${text}`, 5)
  }
}
