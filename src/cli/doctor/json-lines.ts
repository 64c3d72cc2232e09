/** The lines of a watch, as text. */
export class JsonLines {
  readonly #body: AsyncIterator<Uint8Array>
  #rest = ''

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = body[Symbol.asyncIterator]()
  }

  /** Resolves to false when the watch ends first. */
  async until(isIt: (line: string) => boolean): Promise<boolean> {
    for (;;) {
      const end = this.#rest.indexOf('\n')
      if (end >= 0) {
        const line = this.#rest.slice(0, end)
        this.#rest = this.#rest.slice(end + 1)
        if (isIt(line)) return true
        continue
      }
      const next = await this.#body.next().catch(() => ({ done: true as const, value: undefined }))
      if (next.done === true) return false
      this.#rest += Buffer.from(next.value).toString()
    }
  }
}
