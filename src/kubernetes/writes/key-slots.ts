/**
 * Admits requests for one key one at a time, in order of arrival. The queue needs no limit of its own, because the
 * number of requests is limited.
 */
export class KeySlots {
  readonly #last = new Map<string, Promise<void>>()

  /** Resolves when it is the caller's turn. @returns a function that ends the turn. */
  async take(key: string): Promise<() => void> {
    const before = this.#last.get(key)
    let release!: () => void
    const mine = new Promise<void>((resolve) => {
      release = resolve
    })
    this.#last.set(key, mine)
    await before
    return () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
      release()
    }
  }
}
