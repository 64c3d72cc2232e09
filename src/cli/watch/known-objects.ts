/**
 * What a watch has told of: keys with the version told last. After a gap the server sends a whole state; the difference to
 * this is what there is to tell. Also who of them has come to the goal.
 */
import type { ChangeType } from '../../reflector/object-codec.js'
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

  /** All there are have come to it, and there is one; or there is none, where that is the goal. */
  get isGoalMet(): boolean {
    if (this.#goal === null) return false
    return this.#goal.isAbsence ? this.size === 0 : this.size > 0 && this.#unmet === 0
  }

  set(key: string, object: T): void {
    this.#forget(key)
    const isMet = this.#goal === null || this.#goal.isMetBy(this.#parse(object))
    if (!isMet) this.#unmet++
    // Objects themselves are held only where something is decided by them.
    this.#known.set(key, { object, resourceVersion: object.resourceVersion, isMet })
  }

  delete(key: string): void {
    this.#forget(key)
  }

  /** Takes the state as its own. @returns what differs, deletions first; a deletion with the last object that was known. */
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
