/**
 * Holds reads until the cache reaches a revision, and sends the progress requests that make the cache reach it sooner.
 */
import type { FreshnessSource } from '../model/freshness-source.js'
import type { Revision } from '../model/revision.js'
import type { CacheMetrics } from '../model/stage-metrics.js'
import type { Clock } from '../../support/clock.js'

export interface WaitersOptions {
  /** The position that the cache has reached. */
  readonly position: () => Revision
  readonly freshness: () => FreshnessSource
  readonly clock: Clock
  readonly metrics: CacheMetrics
  readonly limitMs: number
}

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined
  /** Whether to ask the source for its progress repeatedly. */
  readonly asksProgress: boolean
  readonly limitMs?: number
}

/**
 * Even an etcd with trusted progress silently drops a progress request while a watcher is behind, so ask again after
 * this time.
 */
const PROGRESS_REPEAT_MS = 100
/** Minimum milliseconds between two progress requests, however many reads wait. */
const PROGRESS_GAP_MS = 5

interface Waiter {
  readonly revision: Revision
  readonly wake: () => void
}

export class Waiters {
  readonly #options: WaitersOptions
  readonly #waiters = new Set<Waiter>()
  #askedMs = Number.NEGATIVE_INFINITY
  #isAskDue = false

  constructor(options: WaitersOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#waiters.size
  }

  /** Ends the waits for revisions that the cache has reached. */
  reached(position: Revision): void {
    for (const waiter of this.#waiters) if (waiter.revision <= position) waiter.wake()
  }

  /** @returns whether everything at or before `revision` has arrived within the limit. */
  async wait(
    revision: Revision,
    { signal, asksProgress, limitMs = this.#options.limitMs }: WaitOptions,
  ): Promise<boolean> {
    const { clock, metrics, position } = this.#options
    if (revision <= position()) return true
    if (signal?.aborted) return false
    const startedMs = clock.monotonic()
    const askMs = asksProgress ? Math.min(PROGRESS_REPEAT_MS, limitMs) : limitMs
    const reached = await new Promise<boolean>((resolve) => {
      const finish = (): void => {
        this.#waiters.delete(waiter)
        timer.cancel()
        signal?.removeEventListener('abort', finish)
        resolve(revision <= position())
      }
      const waiter: Waiter = { revision, wake: finish }
      const repeat = (): void => {
        if (clock.monotonic() - startedMs >= limitMs) return finish()
        if (asksProgress) this.#ask()
        timer = clock.setTimer(askMs, repeat)
      }
      let timer = clock.setTimer(askMs, repeat)
      this.#waiters.add(waiter)
      signal?.addEventListener('abort', finish, { once: true })
      if (asksProgress) this.#ask()
    })
    metrics.readWait((clock.monotonic() - startedMs) / 1000)
    return reached
  }

  /**
   * Sends a progress request at once. Within `PROGRESS_GAP_MS` of the last request, schedules a single one for all
   * reads that ask until then.
   */
  #ask(): void {
    if (this.#isAskDue) return
    const { clock, freshness } = this.#options
    const ask = (): void => {
      this.#askedMs = clock.monotonic()
      freshness().requestProgress()
    }
    const leftMs = this.#askedMs + PROGRESS_GAP_MS - clock.monotonic()
    if (leftMs <= 0) return ask()
    this.#isAskDue = true
    clock.setTimer(leftMs, () => {
      this.#isAskDue = false
      ask()
    })
  }
}
