/**
 * The watchers of one group: the active ones in the order of the pump's passes, and those that are parked at the head.
 *
 * A pass visits each active watcher once while others come and go: one that leaves is replaced in its slot, and none
 * moves from one side of the pass to the other.
 */
export interface Member {
  /** Index among the active ones, written here alone; -1 when it is not. */
  slot: number
}

export class Members<M extends Member> {
  /** The order is the pump's. */
  readonly active: M[] = []
  /** Lagging watchers at the head that still wait for their first event. */
  readonly parked = new Set<M>()
  /**
   * Where the pass over `active` stands: on the way up the visited are below it, on the way down those still to come.
   */
  #passIndex = 0
  #isUpward = false

  /**
   * Every other pass goes the other way, so that nobody is always last. One that follows the last without a rest goes the same way: so
   * each waits for one pass, and nobody for two.
   */
  beginPass(followsAtOnce = false): void {
    if (!followsAtOnce) this.#isUpward = !this.#isUpward
    this.#passIndex = this.#isUpward ? 0 : this.active.length
  }

  get isPassComplete(): boolean {
    return this.#passIndex === (this.#isUpward ? this.active.length : 0)
  }

  /** The next active watcher of the pass. */
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
