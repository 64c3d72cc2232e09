/** A counting semaphore, first come first served: it limits how many expensive operations run at once. */
export class Semaphore {
  #free: number
  readonly #waiting: (() => void)[] = []

  /** @param permits how many holders there may be at once, at least 1. */
  constructor(permits: number) {
    this.#free = permits
  }

  /** The number of callers in line. There is no separate limit, because the number of users is limited. */
  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Resolves to a function that releases the permit; further calls of it do nothing. @throws the signal's reason when
   * it aborts first.
   */
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
