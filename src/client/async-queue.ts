/** Passes values from a waiting producer to a waiting consumer, one at a time, without buffering any others. */
export class AsyncQueue<T> {
  #value: { readonly value: T; readonly taken: () => void } | null = null
  #waiting: ((value: T | null) => void) | null = null
  #isEnded = false

  /** Resolves when the value was taken, or never will be. Only one call may run at a time. */
  hand(value: T): Promise<void> {
    if (this.#isEnded) return Promise.resolve()
    if (this.#waiting !== null) {
      const deliver = this.#waiting
      this.#waiting = null
      deliver(value)
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      this.#value = { value, taken: resolve }
    })
  }

  /** Returns null once the queue has ended. Only one call may run at a time. */
  take(): Promise<T | null> {
    const held = this.#value
    if (held !== null) {
      this.#value = null
      held.taken()
      return Promise.resolve(held.value)
    }
    if (this.#isEnded) return Promise.resolve(null)
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  end(): void {
    this.#isEnded = true
    this.#value?.taken()
    this.#value = null
    this.#waiting?.(null)
    this.#waiting = null
  }
}
