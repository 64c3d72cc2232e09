/**
 * Knows which facts of a resource's objects the selectors in use need, and extracts them once per object and version of
 * the resource.
 *
 * Names, namespaces and labels are the same in every version, and are read from what is stored. Other fields are as the
 * version has them that was asked for, so an object that is stored in another one is looked at twice.
 *
 * When a selector brings a new path, objects extracted before lack it; they are read again when they are next looked at
 * (a list filters in slices, an event looks at two versions). So a missing fact always means *look at the object*,
 * never *no match*.
 *
 * The number of different facts is bounded, because every object has room for each of them: a selector that would bring
 * one more is refused.
 */
import { type FactPlan, Facts, extractFacts, planFacts } from '../codec/json-facts.js'
import { labelKeyOfPath } from '../codec/field-path.js'
import { BadRequestError, TooManyRequestsError } from '../model/status.js'
import type { StoredObject } from '../model/stored-object.js'

/**
 * Returns the object as JSON, or of an object that is not stored as JSON only its metadata, where that is enough.
 * Returns null when the object cannot be read.
 *
 * @param apiVersion the version to read it as; '': as it is stored.
 */
export type JsonOf = (object: StoredObject, onlyMetadata: boolean, apiVersion: string) => Buffer | null

const EMPTY = Buffer.from('{}')

/** Controllers of a busy cluster use some twenty. At this many an object takes 2 KB more. */
export const MAX_PATHS = 256
const RETRY_AFTER_SECONDS = 5

/** The facts that the key itself gives. */
export const NAMESPACE_PATH = 'metadata.namespace'
export const NAME_PATH = 'metadata.name'

/** Whether the fact is the same in every version of an object. */
export function isSameInEveryVersion(path: string): boolean {
  return path === NAME_PATH || path === NAMESPACE_PATH || labelKeyOfPath(path) !== null
}

/** The facts of an object in another version than the stored one: its fields are read when the first is needed. */
class FactsOfVersion extends Facts {
  #fields: Facts | null = null

  constructor(
    stored: Facts,
    readonly apiVersion: string,
    readonly readFields: () => Facts,
  ) {
    super(stored.plan, stored.values, stored.labels, stored.known)
  }

  override field(path: string): string {
    if (isSameInEveryVersion(path)) return super.field(path)
    this.#fields ??= this.readFields()
    return this.#fields.field(path)
  }
}

/**
 * The facts of an object that selectors read in other versions than the stored one. There are as many as the resource
 * has versions.
 */
class FactsOfVersions {
  readonly others: FactsOfVersion[] = []

  constructor(readonly stored: Facts) {}
}

export class FactRegistry {
  readonly #users = new Map<string, number>()
  readonly #jsonOf: JsonOf
  readonly #onRefused: () => void
  #plan: FactPlan = planFacts([])
  #onlyMetadata = true

  /** @param onRefused called when a selector is refused because it would bring too many. */
  constructor(jsonOf: JsonOf, onRefused: () => void = () => {}) {
    this.#jsonOf = jsonOf
    this.#onRefused = onRefused
  }

  get pathsInUse(): number {
    return this.#users.size
  }

  /**
   * Takes paths into use. Returns a function that takes them out of use again.
   * @throws BadRequestError when they alone are too many; TooManyRequestsError when they are too many with those in
   * use.
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

  /** Drops what was extracted: each object is read again when it is next looked at. */
  forget(): void {
    this.#plan = planFacts(this.#users.keys())
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

  /**
   * The object as selectors see it.
   *
   * @param apiVersion the version that was asked for; '': none of the paths differs between versions.
   */
  subject(object: StoredObject, apiVersion = ''): Facts {
    const { facts } = object
    const kept = facts instanceof FactsOfVersions ? facts.stored : facts
    const isApt = kept instanceof Facts && kept.plan === this.#plan
    const stored = isApt ? kept : this.#extract(object, this.#onlyMetadata, '')
    if (!isApt) object.facts = stored
    // A value that does not say its version is of whatever is served.
    if (apiVersion === '' || object.apiVersion === '' || object.apiVersion === apiVersion) return stored
    return this.#otherVersion(object, stored, apiVersion)
  }

  #otherVersion(object: StoredObject, stored: Facts, apiVersion: string): Facts {
    const kept = object.facts
    const versions = kept instanceof FactsOfVersions ? kept : new FactsOfVersions(stored)
    object.facts = versions
    let found = versions.others.find((one) => one.apiVersion === apiVersion)
    if (found === undefined) {
      found = new FactsOfVersion(stored, apiVersion, () => this.#extract(object, false, apiVersion, stored.plan))
      versions.others.push(found)
    }
    return found
  }

  #extract(object: StoredObject, onlyMetadata: boolean, apiVersion: string, plan = this.#plan): Facts {
    const json = plan.paths.length === 0 ? EMPTY : (this.#jsonOf(object, onlyMetadata, apiVersion) ?? EMPTY)
    return extractFacts(json, plan, { namespace: object.namespace, name: object.name })
  }
}
