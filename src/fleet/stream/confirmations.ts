/**
 * Computes the maximum age of a replica's content from the statuses that the publisher sends every second.
 *
 * A status says that the stream up to message S contains everything that etcd had a given number of milliseconds before
 * the status was written. It takes effect once the replica has message S. The clocks of two machines are never compared
 * directly. Instead, the smallest difference between them seen so far is the reference, and anything above it is
 * treated as time in transit. A status that a stalled server delivers late therefore does not make old data look fresh.
 *
 * NATS may redeliver a signed status any number of times. Each status is used only once, and only if it is newer than
 * the last one from the same publisher. For this check, the clock of a publisher is remembered even while statuses from
 * other publishers arrive.
 */
import type { PublisherStatus } from './publisher-status.js'
import { MOST_PUBLISHERS, MOST_WAITING_STATUSES } from '../limits.js'

interface Waiting {
  readonly sequence: number
  readonly epoch: number
  readonly confirmedMs: number
}

/** Two clocks drift apart by less than this fraction of the elapsed time. */
const DRIFT = 0.0005

type Publisher = Pick<PublisherStatus, 'epoch' | 'session'>

interface PublisherClock extends Publisher {
  /** The time in its last status. */
  readonly at: number
  /** The smallest difference between the two clocks, and when it was observed. */
  readonly differenceMs: number
  readonly seenMs: number
}

export class Confirmations {
  #waiting: Waiting[] = []
  readonly #clocks = new Map<string, PublisherClock>()
  /** Statuses from this publisher and from all earlier ones are ignored. */
  #forgotten: Publisher | null = null
  #confirmedMs: number | null = null

  /**
   * The latest monotonic time for which the replica is known to have everything that etcd had then; null before the
   * first confirmation.
   */
  get confirmedMs(): number | null {
    return this.#confirmedMs
  }

  /**
   * @returns the estimated time at which the status was sent; null if the status is ignored, because it or a later one
   * has already been seen.
   */
  note(status: PublisherStatus, nowMs: number): number | null {
    const clock = this.#clocks.get(keyOf(status))
    const isForgotten = this.#forgotten !== null && order(status, this.#forgotten) <= 0
    if (isForgotten || (clock !== undefined && status.at <= clock.at)) return null
    return nowMs - this.#late(status, clock, nowMs)
  }

  /**
   * Notes that the status will confirm the content that etcd had at `confirmedMs`, once the messages up to `sequence`
   * have arrived.
   */
  expect({ sequence, epoch }: PublisherStatus, confirmedMs: number): void {
    // A stream that ends sooner shows that NATS has lost the messages after that, perhaps with the claim, so that the next
    // session has the same epoch again. A status of an earlier publisher is used only once the later one has fallen
    // silent, so the epoch of the later one may be lost.
    this.#waiting = this.#waiting.filter((one) => one.epoch <= epoch && one.sequence <= sequence)
    if (this.#waiting.length === MOST_WAITING_STATUSES) this.#waiting.pop()
    this.#waiting.push({ sequence, epoch, confirmedMs })
  }

  /** Called when the replica has everything up to this message. @returns whether this confirms more than before. */
  reached(sequence: number, epoch: number): boolean {
    const before = this.#confirmedMs
    while (this.#waiting[0] !== undefined && this.#waiting[0].sequence <= sequence && this.#waiting[0].epoch <= epoch) {
      const { confirmedMs } = this.#waiting.shift() as Waiting
      if (this.#confirmedMs === null || confirmedMs > this.#confirmedMs) this.#confirmedMs = confirmedMs
    }
    return this.#confirmedMs !== before
  }

  /** Called when etcd itself has confirmed the replica's content. */
  confirm(atMs: number): void {
    this.#confirmedMs = Math.max(this.#confirmedMs ?? atMs, atMs)
  }

  /** Called when the replica's content is replaced by another history. */
  unconfirm(): void {
    this.#confirmedMs = null
  }

  /** Forgets all statuses. Called after the stream was recreated, because its sequences then start at 1 again. */
  forget(): void {
    this.#waiting = []
    this.#clocks.clear()
    this.#forgotten = null
  }

  /** Returns the estimated time that a status was in transit, in milliseconds. */
  #late({ epoch, session, at }: PublisherStatus, clock: PublisherClock | undefined, nowMs: number): number {
    const differenceMs = nowMs - at
    const expectedMs =
      clock === undefined ? differenceMs : Math.min(differenceMs, clock.differenceMs + (nowMs - clock.seenMs) * DRIFT)
    this.#clocks.set(keyOf({ epoch, session }), { epoch, session, at, differenceMs: expectedMs, seenMs: nowMs })
    if (this.#clocks.size > MOST_PUBLISHERS) {
      this.#forgotten = [...this.#clocks.values()].reduce((first, one) => (order(one, first) < 0 ? one : first))
      this.#clocks.delete(keyOf(this.#forgotten))
    }
    return differenceMs - expectedMs
  }
}

function keyOf({ epoch, session }: Publisher): string {
  return `${epoch} ${session}`
}

/** Negative if `a` published before `b`. */
function order(a: Publisher, b: Publisher): number {
  return a.epoch - b.epoch || a.session - b.session
}
