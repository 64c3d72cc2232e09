/** A seeded sequence (mulberry32): the same seed gives the same questions. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Returns a number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let x = this.#state
    x = Math.imul(x ^ (x >>> 15), x | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 4_294_967_296
  }

  /** Returns an integer in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.next() * bound)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!
  }

  /** Up to `count` of the items, in their original order. */
  some<T>(items: readonly T[], count: number): T[] {
    const left = items.map((_, index) => index)
    while (left.length > count) left.splice(this.below(left.length), 1)
    return left.map((index) => items[index]!)
  }
}
