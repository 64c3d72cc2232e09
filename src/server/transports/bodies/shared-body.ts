/**
 * The body of a large response, in pieces, never as one giant string. Each piece is built once, when the first reader
 * needs it, and is shared by all readers. If all bodies together exceed their budget, a body keeps only the pieces that
 * a reader still needs, and no new reader can join.
 */
import { inOwnMemory } from '../../../support/own-memory.js'
import { turns } from '../../../support/turns.js'
import type { BodyBudget } from './body-budget.js'

/**
 * The pieces in order. A null piece means that the next one is not ready: request it again in another turn
 * (`support/turns.ts`).
 */
export type Pieces = Iterator<Buffer | null, void, void> | AsyncIterator<Buffer | null, void, void>

/** Takes the pieces of a body in order. */
export interface BodyReader {
  /** Bytes built so far; the total once complete. */
  readonly bytes: number
  /**
   * Returns the piece at `index`, undefined after the last. Synchronous if already built.
   * @throws any error of the source.
   */
  piece(index: number): Buffer | undefined | Promise<Buffer | undefined>
}

/**
 * How many pieces may be built ahead of the slowest reader when all bodies together exceed their budget. The pieces
 * take 2 MB.
 */
const MAX_AHEAD = 16

export class SharedBody {
  /** Dropped pieces are null. */
  readonly #pieces: (Buffer | null)[] = []
  /** The index of the first kept piece. */
  #kept = 0
  #making: Promise<void> | null = null
  #bytes = 0
  #heldBytes = 0
  #error: unknown = null
  readonly #readers = new Set<{ at: number }>()
  #isCached = false

  /**
   * @param onComplete called once, when the last piece is built and none was dropped.
   * @returns whether the body is kept for others.
   */
  constructor(
    private source: Pieces | null,
    private readonly budget: BodyBudget,
    private readonly onComplete: (body: SharedBody) => boolean,
  ) {}

  /** Whether every piece built is still there, so it can be read from the beginning. */
  get isWhole(): boolean {
    return this.#kept === 0
  }

  /** Bytes built so far; the total once complete. */
  get bytes(): number {
    return this.#bytes
  }

  /** Returns a reader that begins at the first piece. */
  open(): BodyReader & { close(): void } {
    const reader = { at: 0 }
    this.#readers.add(reader)
    const made = (): number => this.#bytes
    return {
      get bytes() {
        return made()
      },
      piece: (index) => {
        // Keep the previous piece, because a body is inspected before it is sent.
        reader.at = Math.max(reader.at, index - 1)
        if (this.budget.isSpent) this.#letGo()
        return this.#piece(index)
      },
      close: () => {
        this.#readers.delete(reader)
        if (this.budget.isSpent) this.#letGo()
        this.budget.wake()
      },
    }
  }

  /** Stops counting the bytes as being sent. */
  settle(): void {
    this.budget.remove(this.#heldBytes)
    this.#heldBytes = 0
  }

  /** Ends the source when the rest is not needed, so that the source releases its resources. */
  abandon(): void {
    const source = this.source
    if (source === null) return
    this.source = null
    this.#error = new Error('the body was abandoned')
    const ended = source.return?.()
    if (ended instanceof Promise) ended.catch(() => {})
  }

  #piece(index: number): Buffer | undefined | Promise<Buffer | undefined> {
    if (index < this.#pieces.length) return this.#pieces[index] ?? undefined
    if (this.source === null && this.#error === null) return undefined
    return this.#make(index)
  }

  async #make(index: number): Promise<Buffer | undefined> {
    while (index >= this.#pieces.length && this.source !== null) {
      // One request builds the next piece, and the others wait for it.
      this.#making ??= this.#makeOne(this.source).finally(() => (this.#making = null))
      await this.#making
    }
    if (this.#error !== null) throw this.#error
    return this.#pieces[index] ?? undefined
  }

  async #makeOne(source: Pieces): Promise<void> {
    try {
      while (this.budget.isSpent && this.source !== null) {
        this.#letGo()
        if (this.#pieces.length - this.#kept < MAX_AHEAD) break
        await this.budget.change()
      }
      if (turns.isOver) await turns.take()
      if (this.source === null) return
      const next = await source.next()
      if (this.source === null) return
      if (next.done) {
        this.source = null
        this.#isCached = this.isWhole && this.onComplete(this)
        if (!this.#isCached) return
        this.settle()
        for (const [i, piece] of this.#pieces.entries()) this.#pieces[i] = inOwnMemory(piece!)
      } else if (next.value === null) await turns.take()
      else {
        this.#pieces.push(next.value)
        this.#bytes += next.value.length
        this.#heldBytes += next.value.length
        this.budget.add(next.value.length)
      }
    } catch (error) {
      this.#error = error
      this.source = null
    }
  }

  /** Drops the pieces that every reader has taken. */
  #letGo(): void {
    if (this.#isCached) return
    let slowest = this.#pieces.length
    for (const { at } of this.#readers) slowest = Math.min(slowest, at)
    let bytes = 0
    for (; this.#kept < slowest; this.#kept++) {
      bytes += this.#pieces[this.#kept]!.length
      this.#pieces[this.#kept] = null
    }
    this.#heldBytes -= bytes
    this.budget.remove(bytes)
  }
}
