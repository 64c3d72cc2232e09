/**
 * Limits the work of evaluating a JSONPath. A path of three characters visits every value of an object, and each
 * further descending step visits them all again. Neither the path's length nor the object's size therefore predicts
 * the cost. Work is counted before it is done.
 */
import type { Json } from '../json-tree.js'

/** The number of characters of text that count as one value. */
const CHARACTERS = 16

/** The path was abandoned. This is not a `JsonPathError`, because a filter may treat such an error as a result. */
export class TooMuchWorkError extends Error {
  override readonly name = 'TooMuchWorkError'
}

export class Work {
  #left: number

  /** @param values the number of values that all paths together may visit. */
  constructor(values: number) {
    this.#left = values
  }

  /** @throws TooMuchWorkError */
  visit(values: number): void {
    this.#left -= values
    if (this.#left < 0) throw new TooMuchWorkError(`it examines too many values`)
  }

  /** Counts reading, comparing or writing a whole value. @throws TooMuchWorkError */
  read(value: Json): void {
    this.visit(1)
    if (typeof value === 'string') this.visit(Math.ceil(value.length / CHARACTERS))
    else if (Array.isArray(value)) for (const item of value) this.read(item)
    else if (typeof value === 'object' && value !== null) {
      for (const name in value) {
        this.visit(Math.ceil(name.length / CHARACTERS))
        this.read((value as Record<string, Json>)[name]!)
      }
    }
  }
}

/** No limit, for clients that evaluate a path over their own objects and can wait. */
export const ANY_WORK = new Work(Infinity)
