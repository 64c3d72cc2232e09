/**
 * Decides by scope (one or all), key prefix and selector which events of a resource a set of watchers sees. A
 * matcher is evaluated once per event, however many watchers and encodings share it.
 */
import type { ChangeType } from '../model/event-type.js'
import type { CacheEvent } from '../cache/cache-batch.js'
import type { Facts } from '../facts/json-facts.js'
import type { EqualityTerm } from '../model/equality-term.js'
import type { Key } from '../model/event.js'
import type { Shard } from '../model/shard.js'
import type { StoredObject } from '../model/stored-object.js'
import type { ShardHashes } from './shard-hashes.js'
import { isAttributePath } from '../facts/field-path.js'
import type { FactPaths } from '../model/fact-source.js'
import type { FactRegistry, FactUse } from './fact-registry.js'

/** The dialect's selectors have this shape. */
export interface WatchSelector {
  /** Equal selectors have equal text. */
  readonly canonical: string
  /** For people; '' selects everything. */
  readonly text: string
  readonly isEmpty: boolean
  /** Whether facts are compared; false for a selector with nothing but a shard. */
  readonly hasTerms: boolean
  /** Null for all objects. */
  readonly shard: Shard | null
  /** The facts needed by `matches`. */
  readonly paths: readonly string[]
  /** Compares facts, not the shard. */
  matchesTerms(subject: Facts): boolean
  /** The terms that every match satisfies. */
  equalityTerms(): readonly EqualityTerm[]
}

/**
 * The meaning of an event for watchers with one selector. When the object leaves the selection, the watchers get its
 * previous version.
 */
export interface MatchedEvent {
  readonly type: ChangeType
  readonly object: StoredObject
  readonly event: CacheEvent
}

export class Matcher {
  readonly key: string
  /**
   * The term by which the index finds this matcher within its scope; null if the matcher must be tried with every
   * event.
   */
  readonly indexTerm: EqualityTerm | null
  /** The version in which fields are read; '' if none of them differs between versions. */
  readonly schemaVersion: string
  /** The facts that the selector reads. The index reads the fact for `indexTerm` here. */
  readonly facts: FactUse
  /** The index reads names and scopes without facts. */
  readonly paths: FactPaths
  /** The index reads the hash of the selector's shard here. */
  readonly hashes: ShardHashes

  /**
   * @param schemaVersion the requested version.
   * @param identity the first caller with this selector.
   */
  constructor(
    /** '' for all scopes. */
    readonly scope: string,
    readonly selector: WatchSelector,
    facts: FactRegistry,
    schemaVersion: string,
    identity = '',
    /** The absolute prefix of the keys; null for the scope's prefix. */
    readonly prefix: Key | null = null,
  ) {
    this.schemaVersion = facts.versionRead(selector.paths, schemaVersion)
    this.key = matcherKey(facts, { scope, prefix, selector }, schemaVersion)
    this.facts = facts.use(selector.paths, identity)
    this.hashes = facts.shards
    this.paths = facts.paths
    const terms = selector.equalityTerms()
    // Without kept facts, the index would read each event's objects again for each such field.
    const usable = this.facts.isKept ? terms : terms.filter(({ path }) => facts.isInKey(path))
    this.indexTerm = chooseTerm(usable, this.paths)
  }

  /** Releases the facts used by the selector. */
  close(): void {
    this.facts.release()
  }

  matches(object: StoredObject): boolean {
    if (this.scope !== '' && object.scope !== this.scope) return false
    if (this.prefix !== null && !object.key.startsWith(this.prefix)) return false
    const { shard, hasTerms } = this.selector
    if (shard !== null && !this.hashes.has(shard, object)) return false
    return !hasTerms || this.selector.matchesTerms(this.facts.subject(object, this.schemaVersion))
  }

  /**
   * An object that enters the selection is ADDED, one that stays MODIFIED, one that leaves DELETED with the previous
   * object. Returns null if the watchers do not see the event.
   */
  match(event: CacheEvent): MatchedEvent | null {
    const { object, previous } = event
    const isIn = object !== null && this.matches(object)
    const wasIn = previous !== null && this.matches(previous)
    if (isIn) return { type: wasIn ? 'MODIFIED' : 'ADDED', object, event }
    return wasIn ? { type: 'DELETED', object: previous, event } : null
  }
}

/** Watchers of different schema versions share a matcher if its selector reads only what all versions have in common. */
export function matcherKey(
  facts: FactRegistry,
  { scope, prefix, selector }: Pick<Matcher, 'scope' | 'prefix' | 'selector'>,
  schemaVersion: string,
): string {
  return JSON.stringify([facts.versionRead(selector.paths, schemaVersion), scope, prefix, selector.canonical])
}

/**
 * Prefers a name to another field, a field to an attribute, and all of these to a scope, because an index is better the
 * fewer objects share a value.
 */
function chooseTerm(terms: readonly EqualityTerm[], { name, scope }: FactPaths): EqualityTerm | null {
  return (
    terms.find(({ path }) => path === name) ??
    terms.find(({ path }) => !isAttributePath(path) && path !== scope) ??
    terms.find(({ path }) => path !== scope) ??
    terms[0] ??
    null
  )
}
