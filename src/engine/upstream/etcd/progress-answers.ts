/**
 * Whether etcd answers progress requests at all. The grpc-proxy of etcd 3.7 drops them, although the versions that it
 * reports are those of the members behind it, so a consistent read of a quiet resource would wait for its whole limit.
 *
 * A watch that has caught up counts the requests that nothing followed within 0.8 s: a watch that lags is never
 * answered, but events follow. After three in a row progress is not relied on, as with old versions. A watch that opens
 * in the meantime asks again, and so do all of them every ten minutes; one answer is enough.
 */
import type { Clock, Timer } from '../../../support/clock.js'
import type { Logger } from '../../../support/log.js'

export interface ProgressAnswersOptions {
  readonly clock: Clock
  readonly logger: Logger
  /** Asks every open watch for its progress, although it may not be answered. */
  readonly askAll: () => void
}

/** Three of these fit into the time that a consistent read waits. */
const ANSWER_MS = 800
const MAX_UNANSWERED = 3
const RETRY_MS = 10 * 60_000
/** A watch that has just opened may still lag. */
const REOPENED_MS = 1_000

export class ProgressAnswers {
  readonly #options: ProgressAnswersOptions
  #areDropped = false
  #timer: Timer | null = null

  constructor(options: ProgressAnswersOptions) {
    this.#options = options
  }

  get areDropped(): boolean {
    return this.#areDropped
  }

  answered(): void {
    if (!this.#areDropped) return
    this.#areDropped = false
    this.stop()
    this.#options.logger.info({}, 'etcd answers progress requests again')
  }

  /** Called when a watch has opened. */
  opened(): void {
    if (this.#areDropped) this.#askIn(REOPENED_MS)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #dropped(): void {
    if (this.#areDropped) return
    this.#areDropped = true
    this.#options.logger.warn(
      {},
      'etcd does not answer progress requests, perhaps because a grpc-proxy drops them: consistent reads compare keys instead',
    )
    this.#askIn(RETRY_MS)
  }

  #askIn(delayMs: number): void {
    this.#timer?.cancel()
    this.#timer = this.#options.clock.setTimer(delayMs, () => {
      this.#options.askAll()
      this.#askIn(RETRY_MS)
    })
  }

  /** Returns the count of one watch. */
  ofWatch(): { requested(): void; received(): void } {
    let unanswered = 0
    let sinceMs: number | null = null
    return {
      requested: () => {
        const nowMs = this.#options.clock.monotonic()
        if (sinceMs !== null && nowMs - sinceMs < ANSWER_MS) return
        if (sinceMs !== null && ++unanswered >= MAX_UNANSWERED) this.#dropped()
        sinceMs = nowMs
      },
      received: () => {
        unanswered = 0
        sinceMs = null
      },
    }
  }
}
