/** A stack of clean-up functions. Each part adds its own, and they run in reverse order. */
export class Disposers {
  readonly #stack: (() => unknown)[] = []

  /** @param dispose may return a promise. Called once. */
  add(dispose: () => unknown): void {
    this.#stack.push(dispose)
  }

  /** Starts a part and adds the function that stops it. */
  run(part: { start(): void; stop(): unknown } | null): void {
    if (part === null) return
    this.add(() => part.stop())
    part.start()
  }

  /** Runs all functions one by one, newest first. A failure does not stop the others. @throws the first error. */
  async dispose(): Promise<void> {
    const errors: unknown[] = []
    for (let dispose = this.#stack.pop(); dispose !== undefined; dispose = this.#stack.pop()) {
      try {
        await dispose()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}
