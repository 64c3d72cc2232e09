/**
 * Counts delays in milliseconds in buckets that grow by 5%, so that memory is bounded however many delays are added.
 */
const GROWTH = Math.log(1.05)
/** The bound of the first bucket, which also counts all smaller delays. */
const FIRST_MS = 0.01

export class Delays {
  readonly #counts: number[] = []
  #count = 0
  #max = 0

  add(ms: number): void {
    const bucket = ms <= FIRST_MS ? 0 : Math.ceil(Math.log(ms / FIRST_MS) / GROWTH)
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#count++
    if (ms > this.#max) this.#max = ms
  }

  get count(): number {
    return this.#count
  }

  /** The longest delay; 0 when there are no delays. */
  get max(): number {
    return this.#max
  }

  /** Returns a value at most 5% above the true quantile; 0 when there are no delays. */
  quantile(share: number): number {
    let sum = 0
    for (const [bucket, count] of this.#counts.entries()) {
      sum += count ?? 0
      if (sum > 0 && sum >= this.#count * share) return Math.min(this.#max, FIRST_MS * Math.exp(bucket * GROWTH))
    }
    return 0
  }
}
