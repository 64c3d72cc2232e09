/**
 * Tracks when each member that serves our watches last proved that it keeps up with the cluster.
 *
 * An open watch sends nothing while nothing changes, so its silence does not show how old its data is. The member may
 * be frozen, cut off from us, or cut off from the other members while they accept writes. A missing keepalive and the
 * loss of a leader are noticed only seconds later. So each member in use gets one small linearizable read per second.
 * The response shows that the member has applied everything that had been acknowledged when the request was sent, and a
 * member sends everything that it applies to its watches.
 */
import type { Clock, Timer } from '../../../support/clock.js'
import { getOrMake } from '../../../support/memo.js'

export interface MemberPulseOptions<E> {
  /** Returns the members that currently serve a watch. */
  readonly inUse: () => Iterable<E>
  /** Makes one linearizable read at exactly this member. Resolves to false if no response came within `deadlineMs`. */
  readonly confirms: (member: E, deadlineMs: number) => Promise<boolean>
  readonly clock: Clock
}

const INTERVAL_MS = 1_000
/**
 * How often to look for a member that is due. A watch that has just moved to another member need not wait for a whole
 * interval.
 */
const CHECK_MS = 250
const TIMEOUT_MS = 2_000
/** `confirm` accepts the response to a request that was sent less than this long ago. */
const FRESH_MS = 500

export class MemberPulse<E> {
  readonly #options: MemberPulseOptions<E>
  readonly #confirmedAt = new Map<E, number>()
  readonly #pending = new Map<E, Promise<void>>()
  #timer: Timer | null = null
  #isStopped = false

  constructor(options: MemberPulseOptions<E>) {
    this.#options = options
  }

  /** Starts the reads. Does nothing if already started. */
  start(): void {
    if (this.#timer === null) this.#plan(0)
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  /**
   * Returns the time at which the newest request that this member has answered was sent, in monotonic milliseconds;
   * null before the first response.
   */
  confirmedAtMs(member: E): number | null {
    return this.#confirmedAt.get(member) ?? null
  }

  /**
   * Resolves when the member has responded, or at once if it has just done so. Also resolves if it does not respond in
   * time.
   */
  async confirm(member: E): Promise<void> {
    const confirmedAtMs = this.confirmedAtMs(member)
    if (confirmedAtMs !== null && this.#options.clock.monotonic() - confirmedAtMs < FRESH_MS) return
    await this.#request(member)
  }

  #plan(delayMs: number): void {
    if (this.#isStopped) return
    this.#timer = this.#options.clock.setTimer(delayMs, () => {
      for (const member of new Set(this.#options.inUse())) if (this.#isDue(member)) void this.#request(member)
      this.#plan(CHECK_MS)
    })
  }

  #isDue(member: E): boolean {
    if (this.#pending.has(member)) return false
    const confirmedAtMs = this.confirmedAtMs(member)
    return confirmedAtMs === null || this.#options.clock.monotonic() - confirmedAtMs >= INTERVAL_MS
  }

  #request(member: E): Promise<void> {
    return getOrMake(this.#pending, member, () => this.#read(member).finally(() => this.#pending.delete(member)))
  }

  async #read(member: E): Promise<void> {
    const { confirms, clock } = this.#options
    const requestedAtMs = clock.monotonic()
    if (await confirms(member, TIMEOUT_MS)) this.#confirmedAt.set(member, requestedAtMs)
  }
}
