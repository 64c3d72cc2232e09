/**
 * Finds the matchers an event may concern through maps, so that an event costs what it delivers and not how many
 * watchers there are: namespace → path → value → matchers. The previous version is looked up too: a change can move an
 * object out of a selector.
 */
import type { CacheEvent } from '../cache/cache-batch.js'
import { labelKeyOfPath } from '../codec/field-path.js'
import type { StoredObject } from '../model/stored-object.js'
import type { FactRegistry } from './fact-registry.js'
import { type Matcher, NAMESPACE_PATH, NAME_PATH } from './matcher.js'

/** The matchers of one namespace, or of all. */
class Place<M extends Matcher> {
  /** Those without an equality term. */
  readonly unindexed = new Set<M>()
  readonly byPath = new Map<string, Map<string, Set<M>>>()

  get isEmpty(): boolean {
    return this.unindexed.size === 0 && this.byPath.size === 0
  }

  add(matcher: M): void {
    const term = matcher.indexTerm
    if (term === null) {
      this.unindexed.add(matcher)
      return
    }
    let byValue = this.byPath.get(term.path)
    if (byValue === undefined) this.byPath.set(term.path, (byValue = new Map()))
    const matchers = byValue.get(term.value)
    if (matchers === undefined) byValue.set(term.value, new Set([matcher]))
    else matchers.add(matcher)
  }

  remove(matcher: M): void {
    const term = matcher.indexTerm
    if (term === null) {
      this.unindexed.delete(matcher)
      return
    }
    const byValue = this.byPath.get(term.path)
    const matchers = byValue?.get(term.value)
    matchers?.delete(matcher)
    if (matchers?.size === 0) byValue!.delete(term.value)
    if (byValue?.size === 0) this.byPath.delete(term.path)
  }
}

export class MatcherIndex<M extends Matcher> {
  readonly #facts: FactRegistry
  /** By namespace; '' for those that see all. */
  readonly #places = new Map<string, Place<M>>()
  readonly #found: M[] = []

  constructor(facts: FactRegistry) {
    this.#facts = facts
  }

  add(matcher: M): void {
    let place = this.#places.get(matcher.namespace)
    if (place === undefined) this.#places.set(matcher.namespace, (place = new Place()))
    place.add(matcher)
  }

  remove(matcher: M): void {
    const place = this.#places.get(matcher.namespace)
    place?.remove(matcher)
    if (place?.isEmpty === true) this.#places.delete(matcher.namespace)
  }

  /** Each candidate once; valid until the next call. */
  candidates(event: CacheEvent): readonly M[] {
    this.#found.length = 0
    this.#findIn(this.#places.get(''), event)
    // Both versions have one key, and so one namespace.
    const { namespace } = (event.object ?? event.previous)!
    if (namespace !== '') this.#findIn(this.#places.get(namespace), event)
    return this.#found
  }

  #findIn(place: Place<M> | undefined, event: CacheEvent): void {
    if (place === undefined) return
    for (const matcher of place.unindexed) this.#found.push(matcher)
    for (const [path, byValue] of place.byPath) {
      const value = event.object === null ? undefined : this.#valueOf(event.object, path)
      const before = event.previous === null ? undefined : this.#valueOf(event.previous, path)
      if (value !== undefined) this.#take(byValue, value)
      if (before !== undefined && before !== value) this.#take(byValue, before)
    }
  }

  #take(byValue: Map<string, Set<M>>, value: string): void {
    const matchers = byValue.get(value)
    if (matchers !== undefined) for (const matcher of matchers) this.#found.push(matcher)
  }

  #valueOf(object: StoredObject, path: string): string | undefined {
    if (path === NAME_PATH) return object.name
    if (path === NAMESPACE_PATH) return object.namespace
    const subject = this.#facts.subject(object)
    const label = labelKeyOfPath(path)
    return label === null ? subject.field(path) : subject.label(label)
  }
}
