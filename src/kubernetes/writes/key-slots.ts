/**
 * Lets requests for one key in one at a time, in the order in which they came. The queue needs no bound of its own,
 * because the number of requests is bounded.
 */
export class KeySlots {
  readonly #last = new Map<string, Promise<void>>()

  /** Resolves when the caller's turn has come. @returns a function that ends the turn. */
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
