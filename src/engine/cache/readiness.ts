/**
 * Whether a cache can be read, and why not: its first state is still being loaded, the source cannot be listed, or some
 * of its values cannot be read.
 */
import { BusyError, RefusedWatchError, SealedError, WithheldError } from '../model/errors.js'
import { nextRevision, ZERO_REVISION } from '../model/revision.js'
import type { CacheState } from './state.js'
import { Waiters } from './waiters.js'

/**
 * Retry-After grows by a second for each such period without a first state. A client whose read has waited here may
 * retry soon, because it will wait again. For a client whose read could not wait, each Retry-After is about twice the
 * one before.
 */
const MS_PER_RETRY_SECOND = { waited: 8_000, refused: 1_000 }

const LOADED = nextRevision(ZERO_REVISION)

const NOT_LISTED = 'this server cannot list it at its source'

export class Readiness {
  readonly #state: CacheState
  /**
   * Reads that wait for the first state. Their position is 0 until the state is complete, or until it is known why it
   * cannot be.
   */
  readonly #loads: Waiters
  readonly #pendingSinceMs: number
  #listing: 'pending' | 'complete' | 'refused' = 'pending'
  /** Why the source refused the list, in its own words. */
  #refusal = ''
  #isAwaited = false

  constructor(state: CacheState) {
    this.#state = state
    this.#loads = new Waiters(state.options, () => (this.isLoading ? ZERO_REVISION : LOADED))
    this.#pendingSinceMs = state.options.clock.monotonic()
  }

  get kind(): 'pending' | 'ready' | 'refused' {
    if (this.#listing !== 'complete') return this.#listing
    return this.#state.held.withheldReason === null ? 'ready' : 'refused'
  }

  /** Why the cache is refused, for the operator; null if it is not. */
  get refusal(): string | null {
    if (this.isListed) return this.#state.held.withheldReason
    return this.#listing === 'refused' ? this.#refusal : null
  }

  /** The same for callers: the source's own words are only for the operator. */
  get publicRefusal(): string | null {
    return this.#listing === 'refused' ? NOT_LISTED : this.refusal
  }

  /** Whether a read has waited for the first state, or would have. */
  get isAwaited(): boolean {
    return this.#isAwaited
  }

  /** Whether the first state is still being loaded. */
  get isLoading(): boolean {
    return this.#listing === 'pending' && this.#state.source.disconnectedReason === null
  }

  /**
   * Waits until the first state is complete, or until it is known why it cannot be.
   * @throws BusyError after the limit.
   */
  async load(signal: AbortSignal): Promise<void> {
    this.#isAwaited = true
    const isOver = await this.#loads.wait(LOADED, { signal, requestsProgress: false })
    if (!isOver) throw this.#whileLoading(MS_PER_RETRY_SECOND.waited)
  }

  /**
   * @param isWhole false for a list or a get: `assertListOpen` or `assertOpen` then checks the part that it reads.
   * @throws BusyError before the first state; SealedError while a value is sealed; WithheldError when the resource
   * cannot be listed or some value cannot be read; RefusedWatchError for a watch that would get no events.
   */
  assertReadable(isWhole = true): void {
    const { kind } = this
    const { name, held, source } = this.#state
    if (kind === 'ready') {
      if (isWhole && source.isRefusing) throw new RefusedWatchError(name)
      return
    }
    const isReadable = this.isListed && held.unreadableReason === null
    if (isReadable && !isWhole) return
    // Without the keys, which the caller may not know.
    if (isReadable) throw new SealedError(name, new Map(), 'watch')
    if (kind === 'refused') throw new WithheldError(`${name} cannot be served: ${this.publicRefusal}`)
    this.#isAwaited = true
    throw this.#whileLoading(MS_PER_RETRY_SECOND.refused)
  }

  #whileLoading(msPerRetrySecond: number): BusyError {
    const retryAfter = (this.#state.options.clock.monotonic() - this.#pendingSinceMs) / msPerRetrySecond
    const why = this.#state.source.disconnectedReason === null ? '' : ': the storage does not answer'
    const message = `${this.#state.name}: storage is (re)initializing${why}`
    return new BusyError(message, Math.max(1, Math.min(30, Math.round(retryAfter))))
  }

  // For `watch-cache.ts`

  /** Whether the first state is complete, even if it cannot be read. */
  get isListed(): boolean {
    return this.#listing === 'complete'
  }

  listed(): void {
    this.#listing = 'complete'
    this.#loads.reached(LOADED)
  }

  refused(reason: string): void {
    this.#listing = 'refused'
    this.#refusal = reason
    this.#loads.reached(LOADED)
  }

  /** No read waits for a source that is disconnected. */
  disconnected(): void {
    this.#loads.reached(LOADED)
  }
}
