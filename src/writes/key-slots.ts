/** One at a time for each key, in the order in which they came. As many wait as there are requests, which are bounded. */
export class KeySlots {
  readonly #last = new Map<string, Promise<void>>()

  get size(): number {
    return this.#last.size
  }

  /** Resolves when it is our turn. @returns what ends it. */
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
