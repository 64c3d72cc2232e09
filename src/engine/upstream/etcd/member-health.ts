/**
 * Regularly asks each member for its own revision, to find bad members whose connections look healthy.
 *
 * - Silent members are stopped, frozen, or behind a network that drops packets. gRPC's own pings would reveal them, but
 *   etcd treats more than one ping in 5 s as an attack, so pings need 9 s to be sure. A small request with a deadline
 *   may be sent as often as we like. A member is silent if it let the deadline pass and sent nothing else in the
 *   meantime, although another member has responded since the request. If no other member has, the fault may be ours,
 *   or there is no better member.
 * - A member can fall behind when it can receive but not send. It still gets its leader's heartbeats, answers pings and
 *   keeps its watches open, but it gets no more data, because the leader waits for responses that never come. A member
 *   is behind if it has not yet reached the revision that another member had two seconds ago.
 */
import type { Revision } from '../../model/revision.js'
import type { Clock, Timer } from '../../../support/clock.js'

export interface MemberHealthOptions<E> {
  readonly members: readonly E[]
  /**
   * Returns the member's own revision, without involving other members; null if no response came within `deadlineMs`.
   */
  readonly revisionOf: (member: E, deadlineMs: number) => Promise<Revision | null>
  /** The number of messages received from the member, of any kind. */
  readonly receivedFrom: (member: E) => number
  /** Called for every request that a silent member has left unanswered. */
  readonly onSilent: (member: E) => void
  /** Called for every response of a member that is behind. */
  readonly onBehind: (member: E, own: Revision, others: Revision) => void
  readonly clock: Clock
}

/**
 * At worst, a silent member is abandoned after the sum of these two times. Watches then continue at another member
 * within 3 s, and a waiting read is retried there. The deadline can be short because etcd answers this request from
 * memory, without other members and without its disk.
 */
const EVERY_MS = 750
const DEADLINE_MS = 1_250
/** If a deadline fires later than this, this process has stood still, so the deadline says nothing about the member. */
const OWN_DELAY_MS = 250
const BEHIND_MS = 2_000

export class MemberHealth<E> {
  readonly #options: MemberHealthOptions<E>
  readonly #timers = new Map<E, Timer>()
  /** When each member last responded, in monotonic milliseconds, and its revision at that time. */
  readonly #responses = new Map<E, { readonly atMs: number; readonly revision: Revision }>()
  /**
   * The highest revision of any member at each response of the last two seconds, and at one response before that.
   * Oldest first.
   */
  #highest: { readonly atMs: number; readonly revision: Revision }[] = []
  readonly #silent = new Set<E>()
  #isStarted = false
  #isStopped = false

  constructor(options: MemberHealthOptions<E>) {
    this.#options = options
  }

  /**
   * Starts the requests. Does nothing if there is only one member, because there is no other one to use, or if already
   * started.
   */
  start(): void {
    const { members } = this.#options
    if (members.length < 2 || this.#isStarted || this.#isStopped) return
    this.#isStarted = true
    // Each member has its own schedule, so that a silent member does not delay the requests to the others.
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
    this.#timers.set(
      member,
      this.#options.clock.setTimer(EVERY_MS, () => void this.#probe(member)),
    )
  }

  async #probe(member: E): Promise<void> {
    const { revisionOf, receivedFrom, onSilent, clock } = this.#options
    const requestedAtMs = clock.monotonic()
    const received = receivedFrom(member)
    const revision = await revisionOf(member, DEADLINE_MS)
    if (this.#isStopped) return
    const isInTime = clock.monotonic() - requestedAtMs <= DEADLINE_MS + OWN_DELAY_MS
    if (revision !== null || receivedFrom(member) !== received) this.#silent.delete(member)
    else if (isInTime && this.#hasAnotherResponded(member, requestedAtMs)) {
      this.#silent.add(member)
      onSilent(member)
    }
    if (revision !== null) this.#compare(member, revision, requestedAtMs)
    // No member responds. After an outage, members may need a while to reach each other again, so drop the revisions
    // from before it.
    else if (!this.#hasAnotherResponded(member, requestedAtMs)) this.#highest = []
    this.#plan(member)
  }

  #hasAnotherResponded(member: E, sinceMs: number): boolean {
    return this.#options.members.some(
      (other) => other !== member && (this.#responses.get(other)?.atMs ?? -1) >= sinceMs,
    )
  }

  #compare(member: E, revision: Revision, requestedAtMs: number): void {
    const { clock, onBehind } = this.#options
    // If a member's revision goes back, the cluster has been restored, and the earlier revisions belonged to another
    // history.
    if (revision < (this.#responses.get(member)?.revision ?? 0)) this.#highest = []
    const bound = this.#highest.findLast(({ atMs }) => atMs <= requestedAtMs - BEHIND_MS)
    if (bound !== undefined && revision < bound.revision) onBehind(member, revision, bound.revision)
    const atMs = clock.monotonic()
    this.#responses.set(member, { atMs, revision })
    const highest = Math.max(revision, this.#highest.at(-1)?.revision ?? 0) as Revision
    const kept = this.#highest.filter((one) => one === bound || one.atMs > requestedAtMs - BEHIND_MS)
    this.#highest = [...kept, { atMs, revision: highest }]
  }
}
