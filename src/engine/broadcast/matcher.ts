/**
 * Decides by namespace (one or all), key prefix and selector which events of a resource a set of watchers sees. A
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
import { type FactRegistry, type FactUse, isSameInEveryVersion, NAMESPACE_PATH, NAME_PATH } from './fact-registry.js'

/** The dialect's selectors have this shape. */
export interface WatchSelector {
  /** Equal selectors have equal text. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** Whether labels or fields are compared; false for a selector with nothing but a shard. */
  readonly hasTerms: boolean
  /** Null for all objects. */
  readonly shard: Shard | null
  /** The facts needed by `matches`. */
  readonly paths: readonly string[]
  /** Compares labels and fields, not the shard. */
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
   * The term by which the index finds this matcher within its namespace; null if the matcher must be tried with every
   * event.
   */
  readonly indexTerm: EqualityTerm | null
  /** The version in which fields are read; '' if none of them differs between versions. */
  readonly apiVersion: string
  /** The facts that the selector reads. The index reads the fact for `indexTerm` here. */
  readonly facts: FactUse
  /** The index reads the hash of the selector's shard here. */
  readonly hashes: ShardHashes

  /**
   * @param apiVersion the requested version.
   * @param identity the first caller with this selector.
   */
  constructor(
    /** '' for all namespaces. */
    readonly namespace: string,
    readonly selector: WatchSelector,
    facts: FactRegistry,
    apiVersion: string,
    identity = '',
    /** The absolute prefix of the keys; null for the namespace's prefix. */
    readonly prefix: Key | null = null,
  ) {
    this.apiVersion = versionRead(selector, apiVersion)
    this.key = matcherKey(namespace, prefix, selector, apiVersion)
    this.facts = facts.use(selector.paths, identity)
    this.hashes = facts.shards
    const terms = selector.equalityTerms()
    // Without kept facts, the index would read each event's objects again for each such field.
    this.indexTerm = chooseTerm(this.facts.isKept ? terms : terms.filter(({ path }) => isNamePath(path)))
  }

  /** Releases the facts used by the selector. */
  close(): void {
    this.facts.release()
  }

  matches(object: StoredObject): boolean {
    if (this.namespace !== '' && object.namespace !== this.namespace) return false
    if (this.prefix !== null && !object.key.startsWith(this.prefix)) return false
    const { shard, hasTerms } = this.selector
    if (shard !== null && !this.hashes.has(shard, object)) return false
    return !hasTerms || this.selector.matchesTerms(this.facts.subject(object, this.apiVersion))
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

/** Watchers of different API versions share a matcher if its selector reads only what all versions have in common. */
export function matcherKey(namespace: string, prefix: Key | null, selector: WatchSelector, apiVersion: string): string {
  return JSON.stringify([versionRead(selector, apiVersion), namespace, prefix, selector.canonical])
}

function isNamePath(path: string): boolean {
  return path === NAME_PATH || path === NAMESPACE_PATH
}

function versionRead({ paths }: WatchSelector, apiVersion: string): string {
  return paths.every(isSameInEveryVersion) ? '' : apiVersion
}

/**
 * Prefers a name to another field, a field to a label, and all of these to a namespace, because an index is better the
 * fewer objects share a value.
 */
function chooseTerm(terms: readonly EqualityTerm[]): EqualityTerm | null {
  return (
    terms.find(({ path }) => path === NAME_PATH) ??
    terms.find(({ path }) => !path.startsWith('metadata.labels[') && path !== NAMESPACE_PATH) ??
    terms.find(({ path }) => path !== NAMESPACE_PATH) ??
    terms[0] ??
    null
  )
}
