/**
 * Uses maps to find the matchers that an event may concern: namespace or key prefix → field → value → shard → matchers.
 * So the cost of an event depends on how many watchers get it, not on how many exist. The previous version of the
 * object is looked up too, because a change can move an object out of a selector.
 */
import type { CacheEvent } from '../cache/cache-batch.js'
import { labelKeyOfPath } from '../facts/field-path.js'
import type { ShardPath } from '../model/shard.js'
import type { StoredObject } from '../model/stored-object.js'
import { NAMESPACE_PATH, NAME_PATH } from './fact-registry.js'
import type { Matcher } from './matcher.js'
import { ShardIndex } from './shard-index.js'
import { getOrMake } from '../../support/memo.js'

/** Matchers that the other maps do not tell apart; only their shards may differ. */
class Shelf<M extends Matcher> {
  readonly #whole = new Set<M>()
  readonly #sharded = new Set<M>()
  readonly #shards = new Map<ShardPath, ShardIndex<M>>()

  get isEmpty(): boolean {
    return this.#whole.size === 0 && this.#sharded.size === 0
  }

  add(matcher: M): void {
    const { shard } = matcher.selector
    if (shard === null) {
      this.#whole.add(matcher)
      return
    }
    this.#sharded.add(matcher)
    getOrMake(this.#shards, shard.path, () => new ShardIndex()).add(shard, matcher)
  }

  remove(matcher: M): void {
    const { shard } = matcher.selector
    if (shard === null) {
      this.#whole.delete(matcher)
      return
    }
    this.#sharded.delete(matcher)
    const index = this.#shards.get(shard.path)
    index?.remove(shard, matcher)
    if (index?.isEmpty === true) this.#shards.delete(shard.path)
  }

  *all(): Iterable<M> {
    yield* this.#whole
    yield* this.#sharded
  }

  /** Adds the matchers that the event may concern, each once. */
  find({ object, previous }: CacheEvent, found: M[]): void {
    for (const matcher of this.#whole) found.push(matcher)
    for (const [path, index] of this.#shards) {
      const { hashes } = firstOf(this.#sharded)
      const head = object === null ? null : hashes.head(path, object)
      const before = previous === null ? null : hashes.head(path, previous)
      if (head === null || before === null || head === before) {
        index.find((head ?? before)!, found)
        continue
      }
      // Rare: one event replaced an object by another with the same key, so their hashes differ.
      const both: M[] = []
      index.find(head, both)
      index.find(before, both)
      found.push(...new Set(both))
    }
  }
}

/** Matchers indexed by the value of one field in one version. */
interface Field<M extends Matcher> {
  readonly path: string
  /** '' when the field is the same in every version. */
  readonly apiVersion: string
  readonly byValue: Map<string, Shelf<M>>
}

function fieldKey({ apiVersion }: Matcher, path: string): string {
  return `${apiVersion}\n${path}`
}

/** The matchers of one namespace, of all namespaces, or of one key prefix. */
class ScopeIndex<M extends Matcher> {
  /** Matchers without an equality term. */
  readonly unindexed = new Shelf<M>()
  readonly fields = new Map<string, Field<M>>()

  get isEmpty(): boolean {
    return this.unindexed.isEmpty && this.fields.size === 0
  }

  add(matcher: M): void {
    const term = matcher.indexTerm
    if (term === null) {
      this.unindexed.add(matcher)
      return
    }
    const { apiVersion } = matcher
    const make = (): Field<M> => ({ path: term.path, apiVersion, byValue: new Map() })
    const { byValue } = getOrMake(this.fields, fieldKey(matcher, term.path), make)
    getOrMake(byValue, term.value, () => new Shelf<M>()).add(matcher)
  }

  remove(matcher: M): void {
    const term = matcher.indexTerm
    if (term === null) {
      this.unindexed.remove(matcher)
      return
    }
    const key = fieldKey(matcher, term.path)
    const byValue = this.fields.get(key)?.byValue
    const shelf = byValue?.get(term.value)
    shelf?.remove(matcher)
    if (shelf?.isEmpty === true) byValue!.delete(term.value)
    if (byValue?.size === 0) this.fields.delete(key)
  }
}

export class MatcherIndex<M extends Matcher> {
  /** By namespace; '' for matchers of all namespaces. */
  readonly #namespaces = new Map<string, ScopeIndex<M>>()
  /** By key prefix. */
  readonly #prefixes = new Map<string, ScopeIndex<M>>()
  /** The number of prefixes of each length: an event looks up its key's prefix once per length. */
  readonly #lengths = new Map<number, number>()
  readonly #found: M[] = []

  add(matcher: M): void {
    const { namespace, prefix } = matcher
    const [scopes, scope] = prefix === null ? [this.#namespaces, namespace] : [this.#prefixes, prefix]
    let index = scopes.get(scope)
    if (index === undefined) {
      scopes.set(scope, (index = new ScopeIndex()))
      if (prefix !== null) this.#lengths.set(prefix.length, (this.#lengths.get(prefix.length) ?? 0) + 1)
    }
    index.add(matcher)
  }

  remove(matcher: M): void {
    const { namespace, prefix } = matcher
    const [scopes, scope] = prefix === null ? [this.#namespaces, namespace] : [this.#prefixes, prefix]
    const index = scopes.get(scope)
    index?.remove(matcher)
    if (index?.isEmpty !== true) return
    scopes.delete(scope)
    if (prefix === null) return
    const others = this.#lengths.get(prefix.length)! - 1
    if (others === 0) this.#lengths.delete(prefix.length)
    else this.#lengths.set(prefix.length, others)
  }

  /** Returns each candidate once; the array is valid until the next call. */
  candidates(event: CacheEvent): readonly M[] {
    this.#found.length = 0
    this.#findIn(this.#namespaces.get(''), event)
    // Both versions have the same key, and therefore the same namespace.
    const { namespace, key } = (event.object ?? event.previous)!
    if (namespace !== '') this.#findIn(this.#namespaces.get(namespace), event)
    for (const length of this.#lengths.keys()) {
      if (length <= key.length) this.#findIn(this.#prefixes.get(key.slice(0, length)), event)
    }
    return this.#found
  }

  #findIn(index: ScopeIndex<M> | undefined, event: CacheEvent): void {
    if (index === undefined) return
    index.unindexed.find(event, this.#found)
    for (const field of index.fields.values()) {
      let value: string | undefined
      let before: string | undefined
      try {
        value = event.object === null ? undefined : this.#valueOf(event.object, field)
        before = event.previous === null ? undefined : this.#valueOf(event.previous, field)
      } catch {
        // The object cannot be read in that version. Each of these matchers will throw the same error, and its watchers
        // end.
        for (const shelf of field.byValue.values()) for (const matcher of shelf.all()) this.#found.push(matcher)
        continue
      }
      if (value !== undefined) field.byValue.get(value)?.find(event, this.#found)
      if (before !== undefined && before !== value) field.byValue.get(before)?.find(event, this.#found)
    }
  }

  #valueOf(object: StoredObject, { path, apiVersion, byValue }: Field<M>): string | undefined {
    if (path === NAME_PATH) return object.name
    if (path === NAMESPACE_PATH) return object.namespace
    const subject = anyOf(byValue).facts.subject(object, apiVersion)
    const label = labelKeyOfPath(path)
    return label === null ? subject.field(path) : subject.label(label)
  }
}

/** Returns any matcher of a field, because all of them read the field in the same way. */
function anyOf<M extends Matcher>(byValue: ReadonlyMap<string, Shelf<M>>): M {
  return firstOf(firstOf(byValue.values()).all())
}

function firstOf<T>(all: Iterable<T>): T {
  for (const one of all) return one
  throw new RangeError('an index entry without a matcher')
}
