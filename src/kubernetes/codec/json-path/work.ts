/**
 * Limits what a JSONPath may examine. A path of three characters visits every value of an object, and again with each
 * descending step, so neither its length nor the object's size predicts its cost. Work is counted before it is done.
 */
import type { Json } from '../json-tree.js'

/** Characters of text that count as much as one value. */
const CHARACTERS = 16

/** The path was abandoned. Not a `JsonPathError`, which a filter may treat as an answer. */
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

/** No limit: for clients that evaluate a path over their own objects and can wait. */
export const ANY_WORK = new Work(Infinity)
