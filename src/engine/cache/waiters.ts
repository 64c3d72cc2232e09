/**
 * Holds reads until the cache reaches a revision, and sends the progress requests that make the cache reach it sooner.
 */
import type { FreshnessSource } from '../model/freshness-source.js'
import type { Revision } from '../model/revision.js'
import type { CacheMetrics } from '../model/stage-metrics.js'
import type { Clock } from '../../support/clock.js'

export interface WaitersOptions {
  readonly freshness: () => FreshnessSource
  readonly clock: Clock
  readonly metrics: CacheMetrics
}

/**
 * How long a read waits for a revision, or for the first state. The API server waits equally long, and some clients
 * give up after five seconds.
 */
const WAIT_LIMIT_MS = 3_000
export interface WaitOptions {
  readonly signal?: AbortSignal | undefined
  /** Whether to ask the source for its progress repeatedly. */
  readonly requestsProgress: boolean
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
  readonly #position: () => Revision
  readonly #waiters = new Set<Waiter>()
  #requestedAtMs = Number.NEGATIVE_INFINITY
  #isRequestDue = false

  /** @param position the position that the cache has reached. */
  constructor(options: WaitersOptions, position: () => Revision) {
    this.#options = options
    this.#position = position
  }

  get size(): number {
    return this.#waiters.size
  }

  /** Ends the waits for revisions that the cache has reached. */
  reached(position: Revision): void {
    for (const waiter of this.#waiters) if (waiter.revision <= position) waiter.wake()
  }

  /** @returns whether everything at or before `revision` has arrived within the limit. */
  async wait(revision: Revision, { signal, requestsProgress, limitMs = WAIT_LIMIT_MS }: WaitOptions): Promise<boolean> {
    const { clock, metrics } = this.#options
    if (revision <= this.#position()) return true
    if (signal?.aborted) return false
    const startedMs = clock.monotonic()
    const intervalMs = requestsProgress ? Math.min(PROGRESS_REPEAT_MS, limitMs) : limitMs
    const reached = await new Promise<boolean>((resolve) => {
      const finish = (): void => {
        this.#waiters.delete(waiter)
        timer.cancel()
        signal?.removeEventListener('abort', finish)
        resolve(revision <= this.#position())
      }
      const waiter: Waiter = { revision, wake: finish }
      const repeat = (): void => {
        if (clock.monotonic() - startedMs >= limitMs) return finish()
        if (requestsProgress) this.#requestProgress()
        timer = clock.setTimer(intervalMs, repeat)
      }
      let timer = clock.setTimer(intervalMs, repeat)
      this.#waiters.add(waiter)
      signal?.addEventListener('abort', finish, { once: true })
      if (requestsProgress) this.#requestProgress()
    })
    metrics.readWait((clock.monotonic() - startedMs) / 1000)
    return reached
  }

  /**
   * Sends a progress request at once. Within `PROGRESS_GAP_MS` of the last request, schedules a single one for all
   * reads that ask until then.
   */
  #requestProgress(): void {
    if (this.#isRequestDue) return
    const { clock, freshness } = this.#options
    const send = (): void => {
      this.#requestedAtMs = clock.monotonic()
      freshness().requestProgress()
    }
    const leftMs = this.#requestedAtMs + PROGRESS_GAP_MS - clock.monotonic()
    if (leftMs <= 0) return send()
    this.#isRequestDue = true
    clock.setTimer(leftMs, () => {
      this.#isRequestDue = false
      send()
    })
  }
}
