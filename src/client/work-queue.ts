/**
 * A queue of keys to work on, each by one worker at a time.
 *
 *     add ──▶ waiting ──take──▶ working ──done──▶ (gone)
 *              ▲  a waiting key is not added twice      │ added again meanwhile: waits again
 *              └────────────────────────────────────────┘
 *     addAfter / addRateLimited ──▶ delayed ──▶ add
 *
 * So no key is worked on twice at once, no added key is lost, and the queue is bounded by the number of keys.
 */
import { activeClock } from './reflector/active-clock.js'
import { notifyUser } from './reflector/notify-user.js'
import type { Clock, Timer } from '../support/clock.js'
import {
  itemExponentialFailureRateLimiter,
  maxOfRateLimiter,
  type RateLimiter,
  bucketRateLimiter,
} from './rate-limiter.js'

/** How a work queue spaces its retries. */
export interface WorkQueueOptions {
  /**
   * Default: 5 ms, doubled with each attempt of a key up to 1,000 s, and at most 10 attempts a second for all keys
   * together, with a burst of 100.
   */
  readonly rateLimiter?: RateLimiter
  readonly clock?: Clock
}

/** Options of `WorkQueue.run`. */
export interface WorkOptions {
  /** How many keys are worked on at once. Default: 1. */
  readonly concurrency?: number
  readonly signal?: AbortSignal
  /** Called with an error thrown by `work`; the key is retried later. */
  onError?(error: unknown, key: string): void
}

/** A queue of keys to work on. No two workers have the same key at once, and failed keys are retried with back-off. */
export class WorkQueue {
  readonly #clock: Clock
  readonly #rateLimiter: RateLimiter
  /** Keys are served in insertion order. */
  readonly #waiting = new Set<string>()
  readonly #working = new Set<string>()
  /** Keys that were added again while being worked on. */
  readonly #again = new Set<string>()
  readonly #delayed = new Map<string, { readonly dueMs: number; readonly timer: Timer }>()
  readonly #takers = new Set<(key: string | null) => void>()
  #isEnded = false

  constructor(options: WorkQueueOptions = {}) {
    this.#clock = options.clock ?? activeClock
    this.#rateLimiter =
      options.rateLimiter ??
      maxOfRateLimiter(itemExponentialFailureRateLimiter(), bucketRateLimiter({ clock: this.#clock }))
  }

  /** The number of keys waiting for a worker, without delayed ones. */
  get length(): number {
    return this.#waiting.size
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  add(key: string): void {
    if (this.#isEnded || this.#waiting.has(key)) return
    if (this.#working.has(key)) {
      this.#again.add(key)
      return
    }
    const [taker] = this.#takers
    if (taker === undefined) {
      this.#waiting.add(key)
      return
    }
    this.#takers.delete(taker)
    this.#working.add(key)
    taker(key)
  }

  /** Adds the key after a delay. If one key has several delays, the shortest applies. */
  addAfter(key: string, delayMs: number): void {
    if (this.#isEnded) return
    if (delayMs <= 0) return this.add(key)
    const dueMs = this.#clock.monotonic() + delayMs
    const earlier = this.#delayed.get(key)
    if (earlier !== undefined) {
      if (earlier.dueMs <= dueMs) return
      earlier.timer.cancel()
    }
    const timer = this.#clock.setTimer(delayMs, () => {
      this.#delayed.delete(key)
      this.add(key)
    })
    this.#delayed.set(key, { dueMs, timer })
  }

  /** Adds the key after a delay from the rate limiter, for a failure. */
  addRateLimited(key: string): void {
    this.addAfter(key, this.#rateLimiter.delayMs(key))
  }

  /** Clears the failures of the key, so that its next failure waits the shortest time again. */
  forget(key: string): void {
    this.#rateLimiter.forget(key)
  }

  numRequeues(key: string): number {
    return this.#rateLimiter.numRequeues(key)
  }

  /**
   * Returns the next key, once there is one; the caller must call `done`. null means that the queue has ended, or that
   * the signal aborted.
   */
  take(signal?: AbortSignal): Promise<string | null> {
    if (signal?.aborted) return Promise.resolve(null)
    const [key] = this.#waiting
    if (key !== undefined) {
      this.#waiting.delete(key)
      this.#working.add(key)
      return Promise.resolve(key)
    }
    if (this.#isEnded) return Promise.resolve(null)
    return new Promise((resolve) => {
      const onAbort = (): void => {
        this.#takers.delete(taker)
        resolve(null)
      }
      const taker = (taken: string | null): void => {
        signal?.removeEventListener('abort', onAbort)
        resolve(taken)
      }
      this.#takers.add(taker)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  /** Reports that the work on a key is over, whether it succeeded or not. */
  done(key: string): void {
    this.#working.delete(key)
    if (!this.#again.delete(key)) return
    // A key that was added before the end of the queue is still returned.
    if (this.#isEnded) this.#waiting.add(key)
    else this.add(key)
  }

  /** Accepts no more keys; waiting keys are still returned, and then `take` returns null. */
  end(): void {
    this.#isEnded = true
    for (const { timer } of this.#delayed.values()) timer.cancel()
    this.#delayed.clear()
    for (const taker of this.#takers) taker(null)
    this.#takers.clear()
  }

  /**
   * Works through the keys until the queue ends or the signal aborts. A key is forgotten on success, retried later when
   * the work throws, and retried after the returned number of milliseconds when it returns one.
   */
  async run(work: (key: string) => Promise<number | void> | number | void, options: WorkOptions = {}): Promise<void> {
    const { concurrency = 1, signal } = options
    const worker = async (): Promise<void> => {
      for (let key = await this.take(signal); key !== null; key = await this.take(signal)) {
        try {
          const againMs = await work(key)
          this.forget(key)
          if (againMs !== undefined) this.addAfter(key, againMs)
        } catch (error) {
          notifyUser('onError', undefined, () => options.onError?.(error, key))
          this.addRateLimited(key)
        } finally {
          this.done(key)
        }
      }
    }
    await Promise.all(Array.from({ length: concurrency }, worker))
  }

  /** Yields keys. Requesting the next key marks the previous one as done. */
  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for (let key = await this.take(); key !== null; key = await this.take()) {
      try {
        yield key
      } finally {
        this.done(key)
      }
    }
  }
}
