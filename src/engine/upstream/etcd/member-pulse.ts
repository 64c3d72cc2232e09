/**
 * Tracks when each member that serves our watches last proved that it follows the cluster.
 *
 * An open watch sends nothing while nothing changes, so silence does not show how old its data is: the member may be
 * frozen, cut off from us, or cut off from the other members while they take writes. Keepalive and the loss of a leader
 * are noticed only seconds later. So each member in use gets one small linearizable read a second. Its response shows
 * that the member had applied everything acknowledged when the request was sent, and a member sends its watches what it
 * applies.
 */
import type { Clock, Timer } from '../../../support/clock.js'

export interface MemberPulseOptions<E> {
  /** The members that now serve a watch. */
  readonly inUse: () => Iterable<E>
  /** Makes one linearizable read at exactly this member; false if no response came within `deadlineMs`. */
  readonly answers: (member: E, deadlineMs: number) => Promise<boolean>
  readonly clock: Clock
}

const INTERVAL_MS = 1_000
/** A watch that has just moved to another member does not wait for a whole interval. */
const CHECK_MS = 250
const TIMEOUT_MS = 2_000
/** Callers share a response to a request that is no older than this. */
const FRESH_MS = 500

export class MemberPulse<E> {
  readonly #options: MemberPulseOptions<E>
  readonly #askedAt = new Map<E, number>()
  readonly #asking = new Map<E, Promise<void>>()
  #timer: Timer | null = null
  #isStopped = false

  constructor(options: MemberPulseOptions<E>) {
    this.#options = options
  }

  /** Calling it again does nothing. */
  start(): void {
    if (this.#timer === null) this.#plan(0)
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  /**
   * When the newest request that this member has answered was sent, in monotonic milliseconds; null before the first.
   */
  confirmedAtMs(member: E): number | null {
    return this.#askedAt.get(member) ?? null
  }

  /** Resolves when the member has just answered, or does not. */
  async confirm(member: E): Promise<void> {
    const askedAtMs = this.confirmedAtMs(member)
    if (askedAtMs !== null && this.#options.clock.monotonic() - askedAtMs < FRESH_MS) return
    await this.#ask(member)
  }

  #plan(delayMs: number): void {
    if (this.#isStopped) return
    this.#timer = this.#options.clock.setTimer(delayMs, () => {
      for (const member of new Set(this.#options.inUse())) if (this.#isDue(member)) void this.#ask(member)
      this.#plan(CHECK_MS)
    })
  }

  #isDue(member: E): boolean {
    if (this.#asking.has(member)) return false
    const askedAtMs = this.confirmedAtMs(member)
    return askedAtMs === null || this.#options.clock.monotonic() - askedAtMs >= INTERVAL_MS
  }

  #ask(member: E): Promise<void> {
    let asking = this.#asking.get(member)
    if (asking === undefined) {
      asking = this.#askNow(member).finally(() => this.#asking.delete(member))
      this.#asking.set(member, asking)
    }
    return asking
  }

  async #askNow(member: E): Promise<void> {
    const { answers, clock } = this.#options
    const askedAtMs = clock.monotonic()
    if (await answers(member, TIMEOUT_MS)) this.#askedAt.set(member, askedAtMs)
  }
}
