/** A counting semaphore, first come first served: how many of something expensive run at once. */
export class Limiter {
  #free: number
  readonly #waiting: (() => void)[] = []

  /** @param permits how many may hold one at a time, at least 1. */
  constructor(permits: number) {
    this.#free = permits
  }

  /** Those in line; at most one per holder-to-be, so it is bounded by the number of users. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Resolves with the way to give the permit back (once; more does nothing). @throws the signal's reason when it aborts first. */
  acquire(signal?: AbortSignal): Promise<() => void> {
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
        this.#waiting.splice(this.#waiting.indexOf(onTurn), 1)
        reject(signal?.reason as Error)
      }
      this.#waiting.push(onTurn)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  #releaser(): () => void {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const onTurn = this.#waiting.shift()
      if (onTurn === undefined) this.#free++
      else onTurn()
    }
  }
}
