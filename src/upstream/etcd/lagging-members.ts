/**
 * Finds members that have fallen behind the others and do not say so.
 *
 * A member whose messages reach nobody still hears its leader's heartbeats: it has a leader, answers pings, keeps its watches
 * open, and gets no more data, because the leader waits for answers that never come. A watch there stays silent for as long
 * as that lasts, and no sign of life of the connection tells. What tells is the members' own revisions, side by side: one
 * that has not come by the next look to where another was at this one is behind by more than the time between.
 */
import type { Revision } from '../../model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'

export interface LaggingMembersOptions<E> {
  readonly members: readonly E[]
  /** Its own revision, not asked of others; null when it does not answer, which is for others to notice. */
  readonly revisionOf: (member: E) => Promise<Revision | null>
  readonly onBehind: (member: E, own: Revision, others: Revision) => void
  readonly clock: Clock
  readonly everyMs: number
}

export class LaggingMembers<E> {
  readonly #options: LaggingMembersOptions<E>
  #timer: Timer | null = null
  #isStopped = false
  /** The newest that any member had at the last look. */
  #newest: Revision | null = null

  constructor(options: LaggingMembersOptions<E>) {
    this.#options = options
  }

  /** Nothing to compare with one member. Once more does nothing. */
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
