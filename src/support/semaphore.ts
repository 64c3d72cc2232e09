/**
 * A counting semaphore: it limits how many expensive operations run at once. Urgent callers go first; the others are
 * served in order.
 */
interface Waiting {
  readonly onTurn: () => void
  readonly isUrgent: () => boolean
}

export class Semaphore {
  #free: number
  readonly #waiting: Waiting[] = []

  /** @param permits how many holders there may be at once, at least 1. */
  constructor(permits: number) {
    this.#free = permits
  }

  /** The number of waiting callers. The queue needs no limit, because the number of callers is limited elsewhere. */
  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Resolves to a function that releases the permit. Only its first call has an effect.
   * @throws the signal's reason when the signal aborts first.
   *
   * @param isUrgent called each time a permit is free, because a caller may become urgent while it waits.
   */
  acquire(signal?: AbortSignal, isUrgent = (): boolean => false): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error)
      if (this.#free > 0) {
        this.#free--
        return resolve(this.#releaser())
      }
      const onTurn = (): void => {
        signal?.removeEventListener('abort', onAbort)
        resolve(this.#releaser())
      }
      const onAbort = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(signal?.reason as Error)
      }
      const waiting = { onTurn, isUrgent }
      this.#waiting.push(waiting)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  #releaser(): () => void {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const urgent = this.#waiting.findIndex(({ isUrgent }) => isUrgent())
      const [next] = this.#waiting.splice(Math.max(0, urgent), 1)
      if (next === undefined) this.#free++
      else next.onTurn()
    }
  }
}
