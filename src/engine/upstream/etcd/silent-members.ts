/**
 * Finds members that have gone silent while their connection stands: stopped, frozen, or behind a network that drops.
 *
 * gRPC's own pings would tell, but etcd takes more than one in 5 s for an attack, so they take 9 s to be sure. A small
 * question with a deadline may be asked as often as we like. A member is silent when it let the deadline pass, said
 * nothing else meanwhile, and another member has answered since: without that, the fault may be ours, or there is
 * nowhere to go.
 */
import type { Clock, Timer } from '../../../support/clock.js'

export interface SilentMembersOptions<E> {
  readonly members: readonly E[]
  /** A question that any member answers by itself; false when no answer came within `deadlineMs`. */
  readonly answers: (member: E, deadlineMs: number) => Promise<boolean>
  /** How many messages have come from it, of whatever kind. */
  readonly heardFrom: (member: E) => number
  /** Called after every question that a silent member has left open. */
  readonly onSilent: (member: E) => void
  readonly clock: Clock
  /** From one question to the next. */
  readonly everyMs: number
  readonly deadlineMs: number
}

/** A deadline that is noticed later than this says that this process stood still, and nothing of the member. */
const OWN_DELAY_MS = 250

export class SilentMembers<E> {
  readonly #options: SilentMembersOptions<E>
  readonly #timers = new Map<E, Timer>()
  /** When each answered last, in monotonic milliseconds. */
  readonly #answeredAt = new Map<E, number>()
  readonly #silent = new Set<E>()
  #isStarted = false
  #isStopped = false

  constructor(options: SilentMembersOptions<E>) {
    this.#options = options
  }

  /** There is nowhere to go with one member. Calling it again does nothing. */
  start(): void {
    const { members } = this.#options
    if (members.length < 2 || this.#isStarted || this.#isStopped) return
    this.#isStarted = true
    // Each at its own pace: one that is silent must not hold up the questions to the others.
    for (const member of members) this.#plan(member)
  }

  stop(): void {
    this.#isStopped = true
    for (const timer of this.#timers.values()) timer.cancel()
  }

  /** Whether it was silent when it was last asked. */
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
