/**
 * How much a JSONPath may look at. A path of three characters visits every value of an object, once more with each step that
 * descends, so neither its length nor the object's says what it costs. Work is counted before it is done.
 */
import type { Json } from '../json-tree.js'

/** Characters of a text that are as much work as one value. */
const CHARACTERS = 16

/** The path was given up. It is no `JsonPathError`, which a filter may take for an answer. */
export class TooMuchWorkError extends Error {
  override readonly name = 'TooMuchWorkError'
}

export class Work {
  #left: number

  /** @param values as many may be visited, all paths together. */
  constructor(values: number) {
    this.#left = values
  }

  /** @throws TooMuchWorkError */
  visit(values: number): void {
    this.#left -= values
    if (this.#left < 0) throw new TooMuchWorkError(`it looks at too many values`)
  }

  /** Reading, comparing or writing a whole value. @throws TooMuchWorkError */
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

/** Whoever asks does so for an object of their own, and waits as long as it takes. */
export const ANY_WORK = new Work(Infinity)
