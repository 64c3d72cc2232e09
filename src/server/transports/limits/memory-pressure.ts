/**
 * Keeps the process near `--memory-target`. Well before the target, caches shrink. Beyond it, clients take turns to
 * start lists and watches, so that a client that fills the memory does not keep the others out. Well beyond it, new
 * lists and watches get 429, but for lists and polls of small resources: they cost next to nothing, and must not wait
 * for the memory that another resource fills. Running requests continue.
 *
 *     0 ────────────────────── 85% ──────────────── target ───────────── 105% ─────▶ resident memory
 *          as configured         │  caches shrink     │  lists take turns  │  and 429
 *
 * It measures resident memory, because that is what a container is killed for. It does not end running watches, because
 * each client would come back with a list, the most expensive request.
 */
import { TooManyRequestsError } from '../../../kubernetes/model/status.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import type { Clock, Timer } from '../../../support/clock.js'
import { type Collections, countCollections } from './collections.js'

export interface MemoryPressureOptions {
  /** null for no limit, in which case nothing is measured. */
  readonly targetBytes: number | null
  readonly residentBytes: () => number
  readonly clock: Clock
  /** Frees data that can be read again. Called at most once every 10 s while memory is short. */
  readonly relieve: () => void
  /** Called when caches have to shrink, and again when they no longer have to. */
  readonly onShort: (isShort: boolean) => void
  readonly onRejected: () => void
  /** The slots for lists and watches that begin while memory is beyond the target. */
  readonly turns: IdentitySemaphore
  /** Default: the garbage collections of this process. */
  readonly collections?: Pick<Collections, 'count' | 'collect'>
}

const CHECK_MS = 1_000
/**
 * A request also triggers a check after this time, because a storm of requests outruns the timer. A check costs about
 * 10 µs.
 */
const ADMIT_CHECK_MS = 50
const RELIEF_SHARE = 0.85
/** Leaves room below the container's limit, since lists and watches that have already begun still grow. */
const FULL_SHARE = 1.05
/**
 * Relief frees history. A client that reconnects after its position is gone has to list again, which is the most
 * expensive request. So history is freed in steps, and each step waits until a garbage collection has shown the effect
 * of the previous one.
 */
const RELIEF_GAP_MS = 10_000
/** Freed memory returns to the system slowly, so a client that retries sooner would only be rejected again. */
const RETRY_AFTER_SECONDS = 5

export class MemoryPressure {
  #targetBytes: number | null
  #timer: Timer | null = null
  #isStarted = false
  #isShort = false
  #isOver = false
  #isFull = false
  #residentBytes = 0
  #checkedMs = Number.NEGATIVE_INFINITY
  #relievedMs = Number.NEGATIVE_INFINITY
  #collectionsAtRelief = -1
  #collections: Pick<Collections, 'count' | 'collect'> | null = null
  #ownCollections: Collections | null = null

  constructor(private readonly options: MemoryPressureOptions) {
    this.#targetBytes = options.targetBytes
  }

  /** Whether so much memory is used that no work that holds memory may begin. */
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

  /**
   * Called before work that holds memory begins.
   *
   * @param bytes how much it will take at once, if that is much.
   * @throws TooManyRequestsError
   */
  admit(bytes = 0): void {
    this.#checkAgain()
    const hasNoRoom =
      this.#targetBytes !== null && bytes > 0 && this.#resident() + bytes > this.#targetBytes * FULL_SHARE
    if (this.#isOver || hasNoRoom) throw this.#refusal()
  }

  /**
   * Called before a list or watch begins. A little beyond the target, the request waits for its turn.
   *
   * @param isSmall whether the request holds next to no memory, so that it only waits for its turn.
   * @returns a function to call when the list has been answered or the watch has begun; null if the request needs no
   * turn.
   * @throws TooManyRequestsError; the signal's reason when it aborts.
   */
  async admitInTurn(
    identity: string,
    signal: AbortSignal,
    isSmall: () => boolean = () => false,
  ): Promise<(() => void) | null> {
    this.#checkAgain()
    if (!this.#isOver) return null
    if (this.#isFull && !isSmall()) throw this.#refusal()
    const leave = await this.options.turns.acquire(identity, signal)
    // Requests that were admitted earlier may have filled the memory.
    this.#checkAgain()
    if (!this.#isFull || isSmall()) return leave
    leave()
    throw this.#refusal()
  }

  #checkAgain(): void {
    if (this.options.clock.monotonic() - this.#checkedMs >= ADMIT_CHECK_MS) this.#check()
  }

  #refusal(): TooManyRequestsError {
    this.options.onRejected()
    return new TooManyRequestsError('the server is at its memory target, please try again later', RETRY_AFTER_SECONDS)
  }

  #measure(): void {
    if (this.#timer !== null) return
    const { clock } = this.options
    this.#collections = this.options.collections ?? (this.#ownCollections = countCollections())
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
    const { clock } = this.options
    const targetBytes = this.#targetBytes
    if (targetBytes === null) return
    this.#checkedMs = clock.monotonic()
    const bytes = this.#resident()
    this.#isOver = bytes > targetBytes
    this.#isFull = bytes > targetBytes * FULL_SHARE
    this.#setShort(bytes > targetBytes * RELIEF_SHARE)
    if (this.#isShort) this.#relieve()
  }

  /** Reading it takes a file descriptor. While there is none left, the last value applies. */
  #resident(): number {
    try {
      this.#residentBytes = this.options.residentBytes()
    } catch {
      // Out of descriptors.
    }
    return this.#residentBytes
  }

  #setShort(isShort: boolean): void {
    if (isShort === this.#isShort) return
    this.#isShort = isShort
    this.options.onShort(isShort)
  }

  #relieve(): void {
    const { relieve, clock } = this.options
    const nowMs = clock.monotonic()
    const collections = this.#collections?.count ?? 0
    if (nowMs - this.#relievedMs < RELIEF_GAP_MS || collections === this.#collectionsAtRelief) return
    this.#relievedMs = nowMs
    this.#collectionsAtRelief = collections
    relieve()
    this.#collections?.collect()
  }
}
