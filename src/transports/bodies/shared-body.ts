/**
 * The body of a large answer, in pieces of bytes. Each piece is made once, when the first reader needs it, and shared by all
 * clients that are sent the same. No answer is ever one giant string.
 */
import { turns } from '../../support/turns.js'

/** The pieces in order. A null piece means that the next one is not ready: it is asked for again in another turn (`support/turns.ts`). */
export type Pieces = Iterator<Buffer | null, void, void> | AsyncIterator<Buffer | null, void, void>

export class SharedBody {
  readonly #pieces: Buffer[] = []
  #source: Pieces | null
  #making: Promise<void> | null = null
  #bytes = 0
  #error: unknown = null
  readonly #onComplete: (body: SharedBody) => void

  /** @param onComplete called once, when the last piece is made. */
  constructor(source: Pieces, onComplete: (body: SharedBody) => void = () => {}) {
    this.#source = source
    this.#onComplete = onComplete
  }

  get isComplete(): boolean {
    return this.#source === null
  }

  /** The bytes made so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** Returns the piece at `index`, undefined after the last; synchronously where it has been made. @throws what the source throws. */
  piece(index: number): Buffer | undefined | Promise<Buffer | undefined> {
    if (index < this.#pieces.length) return this.#pieces[index]
    if (this.#source === null && this.#error === null) return undefined
    return this.#make(index)
  }

  /** Ends the source, so that it releases what it holds, because nobody wants the rest. */
  abandon(): void {
    const source = this.#source
    if (source === null) return
    this.#source = null
    this.#error = new Error('the body was abandoned')
    const ended = source.return?.()
    if (ended instanceof Promise) ended.catch(() => {})
  }

  async #make(index: number): Promise<Buffer | undefined> {
    while (index >= this.#pieces.length && this.#source !== null) {
      // One request makes the next piece, and the others wait for it.
      this.#making ??= this.#makeOne(this.#source).finally(() => (this.#making = null))
      await this.#making
    }
    if (this.#error !== null) throw this.#error
    return this.#pieces[index]
  }

  async #makeOne(source: Pieces): Promise<void> {
    try {
      if (turns.isOver) await turns.take()
      if (this.#source === null) return
      const next = await source.next()
      if (this.#source === null) return
      if (next.done) {
        this.#source = null
        this.#onComplete(this)
      } else if (next.value === null) await turns.take()
      else {
        this.#pieces.push(next.value)
        this.#bytes += next.value.length
      }
    } catch (error) {
      this.#error = error
      this.#source = null
    }
  }
}
