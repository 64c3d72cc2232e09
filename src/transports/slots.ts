/** A bound on how many of one kind of work are under way: a slot each, or a 429 that says when to come back. */
import { TooManyRequestsError } from '../model/status.js'

export class Slots {
  #taken = 0

  constructor(
    readonly limit: number,
    private readonly what: string,
    private readonly onRejected: () => void,
    private readonly retryAfterSeconds = 1,
  ) {}

  get taken(): number {
    return this.#taken
  }

  /** @returns what gives it back; more than once does nothing. @throws TooManyRequestsError */
  take(): () => void {
    if (this.#taken >= this.limit) {
      this.onRejected()
      throw new TooManyRequestsError(`too many ${this.what}, please try again later`, this.retryAfterSeconds)
    }
    this.#taken++
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      this.#taken--
    }
  }
}
