/**
 * Which facts of a resource's objects the selectors in use need, and those facts, extracted once per object version.
 *
 * When a selector brings a new path, objects extracted before lack it; they are read again when they are next looked at
 * (a list filters in slices, an event looks at two versions). So a missing fact always means *look at the object*, never
 * *no match*.
 *
 * How many different ones there are has a bound, because every object has room for each of them: a selector that would
 * bring one more is refused.
 */
import { type FactPlan, Facts, extractFacts, planFacts } from '../codec/json-facts.js'
import { BadRequestError, TooManyRequestsError } from '../model/status.js'
import type { StoredObject } from '../model/stored-object.js'

/**
 * Bytes of the object as JSON; for what is stored otherwise, its decoded form, or of its metadata where that is enough.
 * null: it cannot be looked at.
 */
export type JsonOf = (object: StoredObject, onlyMetadata: boolean) => Buffer | null

const EMPTY = Buffer.from('{}')

/** Controllers of a busy cluster use some twenty. At this many an object takes 2 KB more. */
export const MAX_PATHS = 256
const RETRY_AFTER_SECONDS = 5

export class FactRegistry {
  readonly #users = new Map<string, number>()
  readonly #jsonOf: JsonOf
  readonly #onRefused: () => void
  #plan: FactPlan = planFacts([])
  #onlyMetadata = true

  /** @param onRefused a selector would have brought too many. */
  constructor(jsonOf: JsonOf, onRefused: () => void = () => {}) {
    this.#jsonOf = jsonOf
    this.#onRefused = onRefused
  }

  get pathsInUse(): number {
    return this.#users.size
  }

  /**
   * @returns what takes the paths out of use again.
   * @throws BadRequestError when they are too many by themselves; TooManyRequestsError with those in use.
   */
  use(paths: readonly string[]): () => void {
    this.#assertRoom(paths)
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

  #assertRoom(paths: readonly string[]): void {
    if (this.#users.size + paths.length <= MAX_PATHS) return
    let added = 0
    for (const path of new Set(paths)) if (!this.#users.has(path)) added++
    if (this.#users.size + added <= MAX_PATHS) return
    this.#onRefused()
    const message = `labels and fields that selectors of one resource may name at one time: ${MAX_PATHS}`
    if (new Set(paths).size > MAX_PATHS) throw new BadRequestError(`the selector is too large; ${message}`)
    throw new TooManyRequestsError(`too many different selectors are in use; ${message}`, RETRY_AFTER_SECONDS)
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
