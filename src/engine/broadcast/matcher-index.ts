/**
 * Uses maps to find the matchers that an event may concern: scope or key prefix → field → value → shard → matchers.
 * So the cost of an event depends on how many watchers get it, not on how many exist. The previous version of the
 * object is looked up too, because a change can move an object out of a selector.
 */
import type { CacheEvent } from '../cache/cache-batch.js'
import { isAttributePath } from '../facts/field-path.js'
import type { Facts } from '../facts/json-facts.js'
import type { ShardField } from '../model/shard.js'
import type { StoredObject } from '../model/stored-object.js'
import type { Matcher } from './matcher.js'
import { ShardIndex } from './shard-index.js'
import { getOrMake } from '../../support/memo.js'

/** Matchers that the other maps do not tell apart; only their shards may differ. */
class Shelf<M extends Matcher> {
  readonly #whole = new Set<M>()
  readonly #sharded = new Set<M>()
  readonly #shards = new Map<ShardField, ShardIndex<M>>()

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
    getOrMake(this.#shards, shard.field, () => new ShardIndex()).add(shard, matcher)
  }

  remove(matcher: M): void {
    const { shard } = matcher.selector
    if (shard === null) {
      this.#whole.delete(matcher)
      return
    }
    this.#sharded.delete(matcher)
    const index = this.#shards.get(shard.field)
    index?.remove(shard, matcher)
    if (index?.isEmpty === true) this.#shards.delete(shard.field)
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
      let head: number | null
      let before: number | null
      try {
        head = object === null ? null : hashes.head(path, object)
        before = previous === null ? null : hashes.head(path, previous)
      } catch {
        // The object has no readable identity. Each of these matchers will throw the same error, and its watchers end.
        for (const matcher of this.#sharded) if (matcher.selector.shard!.field === path) found.push(matcher)
        continue
      }
      if (head === null || before === null || head === before) {
        index.find((head ?? before)!, found)
        continue
      }
      // Rare: one event replaced an object by another with the same key, so their hashes differ.
      const both: M[] = []
      index.find(head, both)
      index.find(before, both)
      for (const matcher of new Set(both)) found.push(matcher)
    }
  }
}

/** Matchers indexed by the value of one field in one version. */
interface Field<M extends Matcher> {
  /** Returns the value of an object; undefined if it has no such attribute. */
  readonly valueOf: (object: StoredObject) => string | undefined
  readonly byValue: Map<string, Shelf<M>>
}

function fieldKey({ schemaVersion }: Matcher, path: string): string {
  return `${schemaVersion}\n${path}`
}

/** The matchers of one scope, of all scopes, or of one key prefix. */
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
    const { byValue } = getOrMake(this.fields, fieldKey(matcher, term.path), () => newField(matcher, term.path))
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
  /** By scope; '' for matchers of all scopes. */
  readonly #scopes = new Map<string, ScopeIndex<M>>()
  /** By key prefix. */
  readonly #prefixes = new Map<string, ScopeIndex<M>>()
  /** The number of prefixes of each length: an event looks up its key's prefix once per length. */
  readonly #lengths = new Map<number, number>()

  add(matcher: M): void {
    const { scope, prefix } = matcher
    const [indexes, place] = prefix === null ? [this.#scopes, scope] : [this.#prefixes, prefix]
    let index = indexes.get(place)
    if (index === undefined) {
      indexes.set(place, (index = new ScopeIndex()))
      if (prefix !== null) this.#lengths.set(prefix.length, (this.#lengths.get(prefix.length) ?? 0) + 1)
    }
    index.add(matcher)
  }

  remove(matcher: M): void {
    const { scope, prefix } = matcher
    const [indexes, place] = prefix === null ? [this.#scopes, scope] : [this.#prefixes, prefix]
    const index = indexes.get(place)
    index?.remove(matcher)
    if (index?.isEmpty !== true) return
    indexes.delete(place)
    if (prefix === null) return
    const others = this.#lengths.get(prefix.length)! - 1
    if (others === 0) this.#lengths.delete(prefix.length)
    else this.#lengths.set(prefix.length, others)
  }

  /** Returns each candidate once. */
  candidates(event: CacheEvent): readonly M[] {
    const found: M[] = []
    this.#findIn(this.#scopes.get(''), event, found)
    // Both versions have the same key, and therefore the same scope.
    const { scope, key } = (event.object ?? event.previous)!
    if (scope !== '') this.#findIn(this.#scopes.get(scope), event, found)
    for (const length of this.#lengths.keys()) {
      if (length <= key.length) this.#findIn(this.#prefixes.get(key.slice(0, length)), event, found)
    }
    return found
  }

  #findIn(index: ScopeIndex<M> | undefined, event: CacheEvent, found: M[]): void {
    if (index === undefined) return
    index.unindexed.find(event, found)
    for (const field of index.fields.values()) {
      let value: string | undefined
      let before: string | undefined
      try {
        value = event.object === null ? undefined : field.valueOf(event.object)
        before = event.previous === null ? undefined : field.valueOf(event.previous)
      } catch {
        // The object cannot be read in that version. Each of these matchers will throw the same error, and its watchers
        // end.
        for (const shelf of field.byValue.values()) for (const matcher of shelf.all()) found.push(matcher)
        continue
      }
      if (value !== undefined) field.byValue.get(value)?.find(event, found)
      if (before !== undefined && before !== value) field.byValue.get(before)?.find(event, found)
    }
  }
}

function newField<M extends Matcher>(matcher: Matcher, path: string): Field<M> {
  const byValue: Field<M>['byValue'] = new Map()
  const { name, scope } = matcher.paths
  if (path === name) return { byValue, valueOf: (object) => object.name }
  if (path === scope) return { byValue, valueOf: (object) => object.scope }
  const { schemaVersion } = matcher
  // Any matcher of the field will do, because all of them read the field in the same way.
  const subject = (object: StoredObject): Facts =>
    firstOf(firstOf(byValue.values()).all()).facts.subject(object, schemaVersion)
  return {
    byValue,
    valueOf: isAttributePath(path)
      ? (object) => subject(object).attribute(path)
      : (object) => subject(object).field(path),
  }
}

function firstOf<T>(all: Iterable<T>): T {
  for (const one of all) return one
  throw new RangeError('an index entry without a matcher')
}
