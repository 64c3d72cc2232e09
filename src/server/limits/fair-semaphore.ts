/**
 * A bounded number of slots, shared fairly between identities. A client that requests a hundred slots waits behind one
 * that requests only one, and no identity holds all slots, however slowly it reads. The queue is bounded in total, per
 * identity, and in time. A request beyond a bound gets 429.
 */
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import { BusyError } from '../../engine/model/errors.js'
import type { Clock, Timer } from '../../support/clock.js'

export interface FairSemaphoreBounds {
  /** The number of slots that can be held at one time. */
  readonly slots: number
  /**
   * The number of slots that one identity can hold, which is fewer than all of them, so that the next identity finds a
   * free slot.
   */
  readonly maxSlotsPerIdentity: number
  /** The total number of requests that can wait. */
  readonly maxWaiting: number
  /**
   * The number of requests of one identity that can wait, which is fewer than all, so that one identity cannot fill the
   * queue.
   */
  readonly maxWaitingPerIdentity: number
}

export interface FairSemaphoreOptions extends FairSemaphoreBounds {
  readonly maxWaitMs: number
  readonly clock: Clock
  /** The message of the 429. Default: `too many requests`. */
  readonly message?: string | ((full: Full, bounds: FairSemaphoreBounds) => string)
  /** Default: longer, the more requests wait. */
  readonly retryAfterSeconds?: number
  /** Called for each 429. */
  readonly onRejected: (full: Full) => void
}

/** Which limit was reached: the limit of the whole semaphore, or only the limit of the identity. */
export type Full = 'all' | 'identity'

interface Waiter {
  readonly grant: () => void
}

export class FairSemaphore implements IdentitySemaphore {
  #bounds: FairSemaphoreBounds
  /**
   * The waiting identities, in the order in which they get the next slots. An identity that gets a slot moves to the
   * end of the Map.
   */
  readonly #queues = new Map<string, Set<Waiter>>()
  /** The number of slots that each identity holds. There are at most as many entries as slots. */
  readonly #held = new Map<string, number>()
  #running = 0
  #waiting = 0

  constructor(private readonly options: FairSemaphoreOptions) {
    this.#bounds = options
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#waiting
  }

  /** @returns a function that gives the slot back; null when no slot is free. */
  tryAcquire(identity: string): (() => void) | null {
    return this.#running < this.#bounds.slots && this.#mayHold(identity) ? this.#begin(identity) : null
  }

  /** Takes a slot, beyond the bounds if necessary. @returns a function that gives the slot back. */
  hold(identity: string): () => void {
    return this.#begin(identity)
  }

  /**
   * @returns a function that gives the slot back.
   * @throws BusyError when too many wait, or this request waited too long; the signal's reason when it
   * aborts.
   */
  async acquire(identity: string, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted()
    return this.tryAcquire(identity) ?? (await this.#wait(identity, signal))
  }

  /**
   * Additional slots go to waiting requests immediately. If there are fewer slots, their holders keep them, and no
   * waiting request is rejected.
   */
  setBounds(bounds: FairSemaphoreBounds): void {
    this.#bounds = bounds
    while (this.#grantNext());
  }

  #mayHold(identity: string): boolean {
    return (this.#held.get(identity) ?? 0) < this.#bounds.maxSlotsPerIdentity
  }

  #begin(identity: string): () => void {
    this.#running++
    this.#held.set(identity, (this.#held.get(identity) ?? 0) + 1)
    let hasLeft = false
    return () => {
      if (hasLeft) return
      hasLeft = true
      this.#running--
      const left = (this.#held.get(identity) ?? 1) - 1
      if (left === 0) this.#held.delete(identity)
      else this.#held.set(identity, left)
      this.#grantNext()
    }
  }

  #wait(identity: string, signal: AbortSignal | undefined): Promise<() => void> {
    const queue = this.#queues.get(identity) ?? new Set()
    const { maxWaitMs, clock } = this.options
    const { maxWaiting, maxWaitingPerIdentity } = this.#bounds
    if (this.#waiting >= maxWaiting || queue.size >= maxWaitingPerIdentity) throw this.#refuse()
    return new Promise((resolve, reject) => {
      const give = (up: () => void): void => {
        timer.cancel()
        signal?.removeEventListener('abort', aborted)
        this.#remove(identity, queue, waiter)
        up()
      }
      const aborted = (): void =>
        give(() => reject(signal?.reason instanceof Error ? signal.reason : new Error('aborted')))
      const waiter: Waiter = { grant: () => give(() => resolve(this.#begin(identity))) }
      const timer: Timer = clock.setTimer(maxWaitMs, () => give(() => reject(this.#refuse())))
      signal?.addEventListener('abort', aborted, { once: true })
      queue.add(waiter)
      this.#queues.set(identity, queue)
      this.#waiting++
    })
  }

  #refuse(): BusyError {
    const full = this.#running < this.#bounds.slots ? 'identity' : 'all'
    const {
      message = 'too many requests',
      retryAfterSeconds = 1 + Math.floor(this.#waiting / 100),
      onRejected,
    } = this.options
    onRejected(full)
    return new BusyError(typeof message === 'string' ? message : message(full, this.#bounds), retryAfterSeconds)
  }

  /** Gives a free slot to the next waiting identity that may hold another slot. @returns whether a slot was given. */
  #grantNext(): boolean {
    if (this.#running >= this.#bounds.slots) return false
    for (const [identity, queue] of this.#queues) {
      if (!this.#mayHold(identity)) continue
      const [waiter] = queue
      if (queue.size > 1) {
        this.#queues.delete(identity)
        this.#queues.set(identity, queue)
      }
      waiter?.grant()
      return waiter !== undefined
    }
    return false
  }

  #remove(identity: string, queue: Set<Waiter>, waiter: Waiter): void {
    if (!queue.delete(waiter)) return
    this.#waiting--
    if (queue.size === 0 && this.#queues.get(identity) === queue) this.#queues.delete(identity)
  }
}
