/**
 * Holds the watchers of one group: the active ones in the order of the pump's passes, and those parked at the head.
 *
 * A pass visits each active watcher once, even if watchers join and leave in the meantime. When one leaves, others take
 * its slot, but none of them moves from the visited to the unvisited side or back.
 */
export interface Member {
  /** Index among the active members, written only here; -1 if not active. */
  slot: number
}

export class Members<M extends Member> {
  /** In the order of the pump. */
  readonly active: M[] = []
  /** Lagging watchers at the head, which wait there for the group's next event. */
  readonly parked = new Set<M>()
  /**
   * The position of the pass over `active`. In an upward pass, the visited watchers are below it; in a downward pass,
   * the unvisited ones are.
   */
  #passIndex = 0
  #isUpward = false

  /**
   * Passes alternate in direction, so that no watcher is always last. A pass that follows at once keeps the direction,
   * so that no watcher waits for almost two passes between its turns.
   */
  beginPass(followsAtOnce = false): void {
    if (!followsAtOnce) this.#isUpward = !this.#isUpward
    this.#passIndex = this.#isUpward ? 0 : this.active.length
  }

  get isPassComplete(): boolean {
    return this.#passIndex === (this.#isUpward ? this.active.length : 0)
  }

  /** Returns the next active watcher of the pass. */
  nextInPass(): M | undefined {
    if (this.isPassComplete) return undefined
    return this.active[this.#isUpward ? this.#passIndex++ : --this.#passIndex]
  }

  addActive(member: M): void {
    member.slot = this.active.length
    this.active.push(member)
  }

  removeActive(member: M): void {
    let hole = member.slot
    if (hole < this.#passIndex) {
      this.#passIndex--
      const below = this.active[this.#passIndex]!
      this.active[hole] = below
      below.slot = hole
      hole = this.#passIndex
    }
    const last = this.active.pop()!
    if (hole < this.active.length) {
      this.active[hole] = last
      last.slot = hole
    }
    member.slot = -1
  }
}
