/**
 * The objects that a watch has reported, each with its last reported version. After a gap the server sends a whole
 * state, and the difference to these objects is reported. It also tracks which of them have reached the goal.
 */
import type { ChangeType } from '../../client/reflector/object-codec.js'
import type { Goal } from './goal.js'

interface Known<T> {
  readonly object: T
  readonly resourceVersion: string
  readonly isMet: boolean
}

export interface Told<T> {
  readonly type: ChangeType
  readonly key: string
  readonly object: T
}

export class KnownObjects<T extends { readonly resourceVersion: string }> {
  readonly #goal: Goal | null
  readonly #parse: (object: T) => unknown
  readonly #known = new Map<string, Known<T>>()
  #unmet = 0

  constructor(goal: Goal | null, parse: (object: T) => unknown) {
    this.#goal = goal
    this.#parse = parse
  }

  get size(): number {
    return this.#known.size
  }

  /** Whether all objects have reached the goal and there is at least one or, if absence is the goal, there is none. */
  get isGoalMet(): boolean {
    if (this.#goal === null) return false
    return this.#goal.isAbsence ? this.size === 0 : this.size > 0 && this.#unmet === 0
  }

  set(key: string, object: T): void {
    this.#forget(key)
    const isMet = this.#goal === null || this.#goal.isMetBy(this.#parse(object))
    if (!isMet) this.#unmet++
    // Whole objects are kept only when something depends on them.
    this.#known.set(key, { object, resourceVersion: object.resourceVersion, isMet })
  }

  delete(key: string): void {
    this.#forget(key)
  }

  /** Replaces the known state. @returns the differences, deletions first; a deletion has the last known object. */
  replace(items: ReadonlyMap<string, T>): Told<T>[] {
    const told: Told<T>[] = []
    for (const [key, { object }] of this.#known) {
      if (items.has(key)) continue
      told.push({ type: 'DELETED', key, object })
      this.delete(key)
    }
    for (const [key, object] of items) {
      const known = this.#known.get(key)
      if (known?.resourceVersion === object.resourceVersion) continue
      told.push({ type: known === undefined ? 'ADDED' : 'MODIFIED', key, object })
      this.set(key, object)
    }
    return told
  }

  #forget(key: string): void {
    if (this.#known.get(key)?.isMet === false) this.#unmet--
    this.#known.delete(key)
  }
}
