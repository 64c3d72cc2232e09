/**
 * A bounded number of turns at one time, given in rounds between identities: who asks for a hundred waits behind who asks
 * for one. What waits is bounded too, in all and for each identity; beyond that the answer is 429 at once.
 */
import { TooManyRequestsError } from '../model/status.js'

export interface FairGateOptions {
  /** Turns at one time. */
  readonly turns: number
  /** Waiting in all. */
  readonly maxWaiting: number
  /** Waiting for one identity: less than all, so that one cannot fill the queue. */
  readonly maxWaitingPerIdentity: number
}

interface Waiter {
  readonly grant: () => void
}

export class FairGate {
  readonly #options: FairGateOptions
  /** In the order of their next turn: a Map keeps it, and an identity that had its turn goes to the end. */
  readonly #queues = new Map<string, Set<Waiter>>()
  #running = 0
  #waiting = 0

  constructor(options: FairGateOptions) {
    this.#options = options
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#waiting
  }

  /**
   * @returns a function to call once, when the turn is over.
   * @throws TooManyRequestsError when too many wait; the signal's reason when it aborts while waiting.
   */
  async enter(identity: string, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted()
    if (this.#running < this.#options.turns) this.#running++
    else await this.#wait(identity, signal)
    let left = false
    return () => {
      if (left) return
      left = true
      if (!this.#grantNext()) this.#running--
    }
  }

  #wait(identity: string, signal: AbortSignal | undefined): Promise<void> {
    const queue = this.#queues.get(identity) ?? new Set()
    const { maxWaiting, maxWaitingPerIdentity } = this.#options
    if (this.#waiting >= maxWaiting || queue.size >= maxWaitingPerIdentity) {
      throw new TooManyRequestsError(
        'too many lists and initial states are being sent',
        1 + Math.floor(this.#waiting / 100),
      )
    }
    return new Promise((resolve, reject) => {
      const aborted = (): void => {
        this.#remove(identity, queue, waiter)
        reject(signal?.reason instanceof Error ? signal.reason : new Error('aborted'))
      }
      const waiter: Waiter = {
        grant: () => {
          signal?.removeEventListener('abort', aborted)
          resolve()
        },
      }
      signal?.addEventListener('abort', aborted, { once: true })
      queue.add(waiter)
      this.#queues.set(identity, queue)
      this.#waiting++
    })
  }

  /** Hands the turn on; false when nobody waits. */
  #grantNext(): boolean {
    for (const [identity, queue] of this.#queues) {
      for (const waiter of queue) {
        this.#remove(identity, queue, waiter)
        if (queue.size > 0) {
          this.#queues.delete(identity)
          this.#queues.set(identity, queue)
        }
        waiter.grant()
        return true
      }
    }
    return false
  }

  #remove(identity: string, queue: Set<Waiter>, waiter: Waiter): void {
    if (!queue.delete(waiter)) return
    this.#waiting--
    if (queue.size === 0) this.#queues.delete(identity)
  }
}
