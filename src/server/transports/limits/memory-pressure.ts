/**
 * Keeps the process near `--memory-target`: well before it, caches shrink; beyond it, clients take turns to start lists
 * and watches, so that one that fills the memory does not keep the others out; and well beyond it, new ones get 429.
 * Running requests continue.
 *
 *     0 ────────────────────── 85 % ─────────────── target ───────────── 105 % ────▶ resident memory
 *          as configured         │  caches shrink     │  lists take turns  │  and 429
 *
 * It measures resident memory, because a container is killed for that. Ending running watches was rejected: each client
 * would come back with a list, the most expensive request.
 */
import { TooManyRequestsError } from '../../../engine/model/status.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import type { Clock, Timer } from '../../../support/clock.js'
import { type Collections, countCollections } from '../../../support/collections.js'

export interface MemoryPressureOptions {
  /** null for no limit, in which case nothing is measured. */
  readonly targetBytes: number | null
  readonly residentBytes: () => number
  readonly clock: Clock
  /** Frees data that can be read again; called at most every 10 s while needed. */
  readonly relieve: () => void
  /** Called when caches have to shrink, and when that is over. */
  readonly onShort: (isShort: boolean) => void
  readonly onRejected: () => void
  /** The slots of lists and watches that begin beyond the target. */
  readonly turns: IdentitySemaphore
  /** Default: the garbage collections of this process. */
  readonly collections?: Pick<Collections, 'count' | 'collect'>
}

const CHECK_MS = 1_000
/** A storm of requests is faster than the timer; a check costs some 10 µs. */
const ADMIT_CHECK_MS = 50
const RELIEF_SHARE = 0.85
/** Leaves room below the container's limit, since lists and watches that have already begun still grow. */
const FULL_SHARE = 1.05
/**
 * Relief frees history, and a client that reconnects after its position is gone lists again, the most expensive request
 * of all. So history is freed in steps, and the next step waits until a collection has shown the effect of the last.
 */
const RELIEF_GAP_MS = 10_000
/** Freed memory returns to the system slowly, so a client that retries sooner would only be rejected again. */
const RETRY_AFTER_SECONDS = 5

export class MemoryPressure {
  readonly #options: MemoryPressureOptions
  #targetBytes: number | null
  #timer: Timer | null = null
  #isStarted = false
  #isShort = false
  #isOver = false
  #isFull = false
  #checkedMs = Number.NEGATIVE_INFINITY
  #relievedMs = Number.NEGATIVE_INFINITY
  #collectionsAtRelief = -1
  #collections: Pick<Collections, 'count' | 'collect'> | null = null
  #ownCollections: Collections | null = null

  constructor(options: MemoryPressureOptions) {
    this.#options = options
    this.#targetBytes = options.targetBytes
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Whether so much is used that nothing that holds memory begins. */
  get isFull(): boolean {
    this.#checkAgain()
    return this.#isFull
  }

  /** A new target applies at once; null removes the limit. */
  setTarget(targetBytes: number | null): void {
    this.#targetBytes = targetBytes
    if (targetBytes === null) this.#stopMeasuring()
    else if (this.#isStarted) {
      this.#measure()
      this.#check()
    }
  }

  start(): void {
    this.#isStarted = true
    if (this.#targetBytes !== null) this.#measure()
  }

  stop(): void {
    this.#isStarted = false
    this.#stopMeasuring()
  }

  /** Called before work that holds memory begins. @throws TooManyRequestsError */
  admit(): void {
    this.#checkAgain()
    if (this.#isOver) throw this.#refusal()
  }

  /**
   * Called before a list or watch begins. A little beyond the target it waits for its turn.
   *
   * @returns a function to be called when it has been answered, or has begun; null for one that needs no turn.
   * @throws TooManyRequestsError; the signal's reason when it aborts.
   */
  async admitInTurn(identity: string, signal: AbortSignal): Promise<(() => void) | null> {
    this.#checkAgain()
    if (!this.#isOver) return null
    if (this.#isFull) throw this.#refusal()
    const leave = await this.#options.turns.acquire(identity, signal)
    // Requests that were let in earlier may have filled the memory.
    this.#checkAgain()
    if (!this.#isFull) return leave
    leave()
    throw this.#refusal()
  }

  #checkAgain(): void {
    if (this.#options.clock.monotonic() - this.#checkedMs >= ADMIT_CHECK_MS) this.#check()
  }

  #refusal(): TooManyRequestsError {
    this.#options.onRejected()
    return new TooManyRequestsError('the server is at its memory target, please try again later', RETRY_AFTER_SECONDS)
  }

  #measure(): void {
    if (this.#timer !== null) return
    const { clock } = this.#options
    this.#collections = this.#options.collections ?? (this.#ownCollections = countCollections())
    const check = (): void => {
      this.#check()
      this.#timer = clock.setTimer(CHECK_MS, check)
    }
    this.#timer = clock.setTimer(CHECK_MS, check)
  }

  #stopMeasuring(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#ownCollections?.stop()
    this.#ownCollections = null
    this.#isOver = false
    this.#isFull = false
    this.#setShort(false)
  }

  #check(): void {
    const { residentBytes, clock } = this.#options
    const targetBytes = this.#targetBytes
    if (targetBytes === null) return
    this.#checkedMs = clock.monotonic()
    const bytes = residentBytes()
    this.#isOver = bytes > targetBytes
    this.#isFull = bytes > targetBytes * FULL_SHARE
    this.#setShort(bytes > targetBytes * RELIEF_SHARE)
    if (this.#isShort) this.#relieve()
  }

  #setShort(isShort: boolean): void {
    if (isShort === this.#isShort) return
    this.#isShort = isShort
    this.#options.onShort(isShort)
  }

  #relieve(): void {
    const { relieve, clock } = this.#options
    const nowMs = clock.monotonic()
    const collections = this.#collections?.count ?? 0
    if (nowMs - this.#relievedMs < RELIEF_GAP_MS || collections === this.#collectionsAtRelief) return
    this.#relievedMs = nowMs
    this.#collectionsAtRelief = collections
    relieve()
    this.#collections?.collect()
  }
}
