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

  /** The number of waiting callers. It needs no separate limit, because the number of users is limited. */
  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Resolves to a function that releases the permit; further calls of it do nothing. @throws the signal's reason when
   * it aborts first.
   *
   * @param isUrgent asked each time a permit is free: a caller may become urgent while it waits.
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
