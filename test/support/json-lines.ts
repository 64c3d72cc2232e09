/** Splits a byte stream into lines, however it is chunked: a multi-byte character or a line may be split anywhere. */
export class LineSplitter {
  readonly #onLine: (line: string) => void
  /** Chunks of an unfinished line, joined once when it ends. */
  #partial: Buffer[] = []

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  push(chunk: Buffer): void {
    let start = 0
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      const rest = chunk.subarray(start, end)
      const line = this.#partial.length === 0 ? rest : Buffer.concat([...this.#partial, rest])
      this.#partial = []
      start = end + 1
      if (line.length > 0) this.#onLine(line.toString('utf8'))
    }
    if (start < chunk.length) this.#partial.push(chunk.subarray(start))
  }

  /** Bytes after the last line end: not 0 at the end of a stream that was cut inside a message. */
  get pendingBytes(): number {
    return this.#partial.reduce((sum, { length }) => sum + length, 0)
  }
}
