/**
 * Stands for election to publish a resource, and publishes while elected.
 *
 *     waiting ── elected ─▶ publishing ── ended ─▶ retrying ── later ─▶ publishing
 *        ▲                      │                     │
 *        └──── lease lost ──────┴─────────────────────┘
 *
 * After several failures in a row, it stays out of the election for a while, so that another candidate can try.
 */
import { backoffMs } from '../../support/backoff.js'
import type { Timer } from '../../support/clock.js'
import { Election, type ElectionOptions } from './election.js'
import type { Publisher } from './publisher.js'

export interface CandidateOptions extends Omit<ElectionOptions, 'onElected' | 'onLost'> {
  readonly openPublisher: (onEnd: (reason: string) => void) => Publisher
  readonly onPublishing: (isPublishing: boolean) => void
}

const RETRY = { firstMs: 200, capMs: 2_000 }
/** After this many consecutive failures the lease is released for a while. */
const FAILURES_BEFORE_REST = 3
/**
 * How long the lease is released, as a share of its length: longer than the interval at which other candidates check
 * it.
 */
const REST_SHARE = 0.35
/**
 * A publisher that has run this long is healthy. A publisher that repeatedly ends soon after it starts (for example
 * because NATS has room for the stream but not for its snapshots) is retried with back-off, and the reason is logged
 * once.
 */
const WELL_AFTER_MS = 10_000

interface Failures {
  readonly count: number
  readonly reason: string | null
}

const NO_FAILURES: Failures = { count: 0, reason: null }

type State =
  | { readonly kind: 'waiting' }
  /** @param startedMs when the publisher finished starting; infinite before that. */
  | { readonly kind: 'publishing'; readonly publisher: Publisher; startedMs: number }
  | { readonly kind: 'retrying'; readonly timer: Timer }
  | { readonly kind: 'stopped' }

export class Candidate {
  readonly #election: Election
  #state: State = { kind: 'waiting' }
  /** The number of consecutive publishers that were not healthy, and the reason why the last one ended. */
  #failures = NO_FAILURES
  readonly #ending = new Set<Promise<void>>()

  constructor(private readonly options: CandidateOptions) {
    this.#election = new Election({
      ...options,
      onElected: () => {
        this.#log('info', 'elected to publish')
        this.#publish()
      },
      onLost: (reason) => {
        this.#leave({ kind: 'waiting' })
        this.#log('warn', 'stopped publishing', reason)
      },
    })
  }

  get isPublishing(): boolean {
    return this.#state.kind === 'publishing'
  }

  start(): void {
    this.options.onPublishing(false)
    this.#election.start()
  }

  /** Resolves when nothing is running any more; the writer is closed before the lease is released. */
  async stop(): Promise<void> {
    this.#leave({ kind: 'stopped' })
    await Promise.all(this.#ending)
    await this.#election.stop()
  }

  #publish(): void {
    if (this.#state.kind === 'stopped' || !this.#election.isLeader) return
    // Another candidate may hold the lease by now, and this one must not take the stream away from it.
    if (!this.#election.isCertain) return this.#retryIn(RETRY.firstMs)
    const publisher = this.options.openPublisher((reason) => this.#ended(publisher, reason))
    const publishing: State = { kind: 'publishing', publisher, startedMs: Number.POSITIVE_INFINITY }
    this.#state = publishing
    this.options.onPublishing(true)
    void publisher.start().then(() => {
      publishing.startedMs = this.options.clock.monotonic()
    })
  }

  #ended(publisher: Publisher, reason: string): void {
    const state = this.#state
    if (state.kind !== 'publishing' || state.publisher !== publisher) return
    const { logger, random, names } = this.options
    this.#leave({ kind: 'waiting' })
    // Publishing is retried indefinitely; each reason is logged once.
    const level = reason === this.#failures.reason ? 'debug' : 'warn'
    this.#failures = { count: this.#failures.count + 1, reason }
    logger[level]({ stream: names.stream, reason }, 'publishing was interrupted')
    if (this.#failures.count % FAILURES_BEFORE_REST === 0) this.#rest()
    else this.#retryIn(backoffMs(RETRY, this.#failures.count, random))
  }

  #rest(): void {
    const { clock, leaseMs } = this.options
    this.#untilEnded(
      this.#election.stop().then(() => {
        if (this.#state.kind === 'stopped') return
        this.#state = { kind: 'retrying', timer: clock.setTimer(leaseMs * REST_SHARE, () => this.#election.start()) }
      }),
    )
  }

  #retryIn(delayMs: number): void {
    this.#state = { kind: 'retrying', timer: this.options.clock.setTimer(delayMs, () => this.#publish()) }
  }

  /** Changes the state, and ends whatever the previous state was running. */
  #leave(next: State): void {
    const state = this.#state
    if (state.kind === 'stopped') return
    this.#state = next
    if (state.kind === 'retrying') state.timer.cancel()
    if (state.kind !== 'publishing') return
    if (this.options.clock.monotonic() - state.startedMs >= WELL_AFTER_MS) this.#failures = NO_FAILURES
    this.options.onPublishing(false)
    this.#untilEnded(state.publisher.stop())
  }

  #untilEnded(ending: Promise<void>): void {
    const ended = ending.finally(() => this.#ending.delete(ended))
    this.#ending.add(ended)
  }

  /** Logs at debug level after a failure, because the same lines would recur, and the reason is logged elsewhere. */
  #log(level: 'info' | 'warn', message: string, reason?: string): void {
    const { logger, names } = this.options
    const fields = { stream: names.stream, ...(reason === undefined ? {} : { reason }) }
    logger[this.#failures.count === 0 ? level : 'debug'](fields, message)
  }
}
