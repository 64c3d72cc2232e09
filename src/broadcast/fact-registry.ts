/**
 * Which facts of a resource's objects the selectors in use need, and those facts, extracted once per object version.
 *
 * When a selector brings a new path, objects extracted before lack it; they are read again when they are next looked at
 * (a list filters in slices, an event looks at two versions). So a missing fact always means *look at the object*, never
 * *no match*.
 */
import { type FactPlan, Facts, extractFacts, planFacts } from '../codec/json-facts.js'
import type { StoredObject } from '../model/stored-object.js'

/**
 * Bytes of the object as JSON; for what is stored otherwise, its decoded form, or of its metadata where that is enough.
 * null: it cannot be looked at.
 */
export type JsonOf = (object: StoredObject, onlyMetadata: boolean) => Buffer | null

const EMPTY = Buffer.from('{}')

export class FactRegistry {
  readonly #users = new Map<string, number>()
  readonly #jsonOf: JsonOf
  #plan: FactPlan = planFacts([])
  #onlyMetadata = true

  constructor(jsonOf: JsonOf) {
    this.#jsonOf = jsonOf
  }

  get pathsInUse(): number {
    return this.#users.size
  }

  /** @returns what takes the paths out of use again. */
  use(paths: readonly string[]): () => void {
    let isNew = false
    for (const path of paths) {
      const users = this.#users.get(path) ?? 0
      this.#users.set(path, users + 1)
      isNew ||= users === 0 && !this.#plan.slotOf.has(path)
    }
    if (isNew) {
      this.#plan = planFacts(this.#users.keys())
      this.#onlyMetadata = this.#plan.paths.every((path) => path.startsWith('metadata.labels['))
    }
    return () => {
      for (const path of paths) {
        const users = this.#users.get(path)! - 1
        if (users === 0) this.#users.delete(path)
        else this.#users.set(path, users)
      }
      // The plan keeps paths that are out of use until the next new one: dropping them would only cost extractions.
    }
  }

  /** The object as selectors see it. */
  subject(object: StoredObject): Facts {
    const { facts } = object
    if (facts instanceof Facts && facts.plan === this.#plan) return facts
    const json = this.#plan.paths.length === 0 ? EMPTY : (this.#jsonOf(object, this.#onlyMetadata) ?? EMPTY)
    const extracted = extractFacts(json, this.#plan, { namespace: object.namespace, name: object.name })
    object.facts = extracted
    return extracted
  }
}
