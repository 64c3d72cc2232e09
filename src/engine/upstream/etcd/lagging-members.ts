/**
 * Finds members that have silently fallen behind the others.
 *
 * A member that can receive but not send still gets its leader's heartbeats. It has a leader, answers pings and keeps
 * its watches open, but gets no more data, because the leader waits for answers that never come. A watch on such a
 * member stays silent, and the connection looks healthy. Only comparing the members' own revisions reveals this: a
 * member is behind if, at one check, it has not yet reached the revision that another member had at the check before.
 */
import type { Revision } from '../../model/revision.js'
import type { Clock, Timer } from '../../../support/clock.js'

export interface LaggingMembersOptions<E> {
  readonly members: readonly E[]
  /**
   * Returns the member's own revision without involving other members; null when it does not answer, which is handled
   * elsewhere.
   */
  readonly revisionOf: (member: E) => Promise<Revision | null>
  readonly onBehind: (member: E, own: Revision, others: Revision) => void
  readonly clock: Clock
  readonly everyMs: number
}

export class LaggingMembers<E> {
  readonly #options: LaggingMembersOptions<E>
  #timer: Timer | null = null
  #isStopped = false
  /** The highest revision of any member at the last check. */
  #newest: Revision | null = null

  constructor(options: LaggingMembersOptions<E>) {
    this.#options = options
  }

  /** Does nothing with a single member, since there is nothing to compare, or when called again. */
  start(): void {
    const { members, clock, everyMs } = this.#options
    if (members.length < 2 || this.#timer !== null || this.#isStopped) return
    this.#timer = clock.setTimer(everyMs, () => {
      void this.#look().finally(() => {
        this.#timer = null
        this.start()
      })
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  async #look(): Promise<void> {
    const { members, revisionOf, onBehind } = this.#options
    const revisions = await Promise.all(members.map(revisionOf))
    if (this.#isStopped) return
    const bound = this.#newest
    for (const [i, revision] of revisions.entries()) {
      if (bound !== null && revision !== null && revision < bound) onBehind(members[i]!, revision, bound)
    }
    const known = revisions.filter((revision) => revision !== null)
    this.#newest = known.length === 0 ? null : (Math.max(...known) as Revision)
  }
}
