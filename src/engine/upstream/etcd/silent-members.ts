/**
 * Finds members that have gone silent on an open connection: stopped, frozen, or behind a network that drops packets.
 *
 * gRPC's own pings would reveal them, but etcd takes more than one in 5 s for an attack, so they need 9 s to be sure. A
 * small request with a deadline may be sent as often as we like. A member is silent if it let the deadline pass, sent
 * nothing else meanwhile, and another member has answered since: without that, the fault may be ours, or there is
 * nowhere to go.
 */
import type { Clock, Timer } from '../../../support/clock.js'

export interface SilentMembersOptions<E> {
  readonly members: readonly E[]
  /** Sends a request that any member answers by itself; false if no answer came within `deadlineMs`. */
  readonly answers: (member: E, deadlineMs: number) => Promise<boolean>
  /** The number of messages received from the member, of any kind. */
  readonly heardFrom: (member: E) => number
  /** Called after every request that a silent member has left unanswered. */
  readonly onSilent: (member: E) => void
  readonly clock: Clock
  /** The interval between two requests. */
  readonly everyMs: number
  readonly deadlineMs: number
}

/** A deadline that fires later than this means that this process stood still, and says nothing about the member. */
const OWN_DELAY_MS = 250

export class SilentMembers<E> {
  readonly #options: SilentMembersOptions<E>
  readonly #timers = new Map<E, Timer>()
  /** When each member last answered, in monotonic milliseconds. */
  readonly #answeredAt = new Map<E, number>()
  readonly #silent = new Set<E>()
  #isStarted = false
  #isStopped = false

  constructor(options: SilentMembersOptions<E>) {
    this.#options = options
  }

  /** Does nothing with a single member, since there is nowhere to go, or when called again. */
  start(): void {
    const { members } = this.#options
    if (members.length < 2 || this.#isStarted || this.#isStopped) return
    this.#isStarted = true
    // Each member has its own schedule, so that a silent one does not hold up the requests to the others.
    for (const member of members) this.#plan(member)
  }

  stop(): void {
    this.#isStopped = true
    for (const timer of this.#timers.values()) timer.cancel()
  }

  /** Whether the member was silent at the last request. */
  isSilent(member: E): boolean {
    return this.#silent.has(member)
  }

  #plan(member: E): void {
    const { clock, everyMs } = this.#options
    this.#timers.set(
      member,
      clock.setTimer(everyMs, () => void this.#ask(member)),
    )
  }

  async #ask(member: E): Promise<void> {
    const { answers, heardFrom, onSilent, clock, deadlineMs } = this.#options
    const askedAt = clock.monotonic()
    const heard = heardFrom(member)
    const isThere = await answers(member, deadlineMs)
    if (this.#isStopped) return
    const now = clock.monotonic()
    const isInTime = now - askedAt <= deadlineMs + OWN_DELAY_MS
    if (isThere) this.#answeredAt.set(member, now)
    if (isThere || heardFrom(member) !== heard) this.#silent.delete(member)
    else if (isInTime && this.#hasAnotherAnswered(member, askedAt)) {
      this.#silent.add(member)
      onSilent(member)
    }
    this.#plan(member)
  }

  #hasAnotherAnswered(member: E, sinceMs: number): boolean {
    return this.#options.members.some((other) => other !== member && (this.#answeredAt.get(other) ?? -1) >= sinceMs)
  }
}
