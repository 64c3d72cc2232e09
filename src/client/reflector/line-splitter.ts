/** Splits a stream of bytes into lines, however the stream was chunked. A line inside one chunk is not copied. */
const NEWLINE = 0x0a

export class LineSplitter {
  readonly #maxLineBytes: number
  /** The chunks of an unfinished line. They are joined only once, when the line ends. */
  #partial: Uint8Array[] = []
  #partialBytes = 0

  /** @param maxLineBytes a longer line throws, because a server that never ends a line would fill the memory. */
  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes
  }

  /** @param onLine called with each line without its line feed, including empty lines. @throws Error */
  push(chunk: Uint8Array, onLine: (line: Uint8Array) => void): void {
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const rest = chunk.subarray(start, end)
      start = end + 1
      onLine(this.#partialBytes === 0 ? rest : this.#join(rest))
    }
    if (start === chunk.length) return
    this.#partial.push(chunk.subarray(start))
    this.#partialBytes += chunk.length - start
    if (this.#partialBytes > this.#maxLineBytes) throw new Error(`a line of more than ${this.#maxLineBytes} bytes`)
  }

  /**
   * Like `push`, but all lines that lie inside this chunk are delivered as one piece.
   * @param onLines called with whole lines, the last without its line feed.
   */
  pushBlocks(chunk: Uint8Array, onLine: (line: Uint8Array) => void, onLines: (lines: Uint8Array) => void): void {
    const last = chunk.lastIndexOf(NEWLINE)
    let start = 0
    if (this.#partialBytes > 0 && last !== -1) {
      start = chunk.indexOf(NEWLINE) + 1
      onLine(this.#join(chunk.subarray(0, start - 1)))
    }
    if (last > start) onLines(chunk.subarray(start, last))
    this.push(chunk.subarray(last + 1), onLine)
  }

  /** The bytes of an unfinished line. At the end of a stream, this is not 0 if the stream was cut inside a line. */
  get pendingBytes(): number {
    return this.#partialBytes
  }

  #join(last: Uint8Array): Uint8Array {
    const line = new Uint8Array(this.#partialBytes + last.length)
    let at = 0
    for (const part of this.#partial) {
      line.set(part, at)
      at += part.length
    }
    line.set(last, at)
    this.#partial = []
    this.#partialBytes = 0
    return line
  }
}
