/**
 * The groups of one resource, created with their first watcher and removed with their last, and the matchers they
 * share. An index finds the matchers, so the cost of an event depends on how many watchers get it, not on how many
 * exist.
 */
import type { BodyEncoder } from '../model/body-encoder.js'
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { Cursor } from './cursor.js'
import type { FactRegistry } from './fact-registry.js'
import type { LogUsage } from './frame-log.js'
import { Group, watchersLevel } from './group.js'
import { Matcher, type WatchSelector, matcherKey } from './matcher.js'
import { MatcherIndex } from './matcher-index.js'
import type { WireFormat } from './wire-format.js'
import { type KeyParts, keyOf } from '../../support/key-of.js'

/** Everything that determines the bytes of a watch. Watchers with equal contents form one group. */
export interface GroupContents {
  /** '' for all scopes. */
  readonly scope: string
  /** The absolute prefix of the keys if it is longer than the scope's prefix, otherwise null. */
  readonly prefix: Key | null
  readonly selector: WatchSelector
  readonly encoder: BodyEncoder
  readonly wire: WireFormat
}

const GROUP_KEY: KeyParts<GroupContents> = {
  scope: (scope) => scope,
  prefix: (prefix) => prefix,
  selector: ({ canonical }) => canonical,
  encoder: ({ schemaVersion, key }) => `${schemaVersion} ${key}`,
  wire: ({ key }) => key,
}

export interface GroupRequest extends GroupContents {
  /** The caller. Facts kept for its selectors count towards its share. */
  readonly identity: string
}

export class GroupMatcher extends Matcher {
  readonly groups = new Set<Group<Cursor>>()
  /** The sum over all groups of this matcher. */
  watchers = 0
}

export class Groups {
  /** Memory used by all logs together. */
  readonly logUsage: LogUsage = { bytes: 0 }
  readonly index: MatcherIndex<GroupMatcher>
  readonly #facts: FactRegistry
  readonly #matchers = new Map<string, GroupMatcher>()
  readonly #groups = new Map<string, Group<Cursor>>()
  #sequence = 0

  constructor(facts: FactRegistry) {
    this.#facts = facts
    this.index = new MatcherIndex()
  }

  get size(): number {
    return this.#groups.size
  }

  /** The number of different selectors in use. */
  get matchers(): number {
    return this.#matchers.size
  }

  all(): Iterable<Group<Cursor>> {
    return this.#groups.values()
  }

  /** Adds a watcher to its group. @param headRevision where the log of a new group begins. */
  enter(request: GroupRequest, headRevision: Revision): Group<Cursor> {
    const group = this.#groupFor(request, headRevision)
    group.enter(request.identity)
    matcherOf(group).watchers++
    return group
  }

  /** Removes a watcher from its group, and the group with its last watcher. */
  leave(group: Group<Cursor>, headRevision: Revision): void {
    group.leave()
    matcherOf(group).watchers--
    if (group.watchers === 0) this.#remove(group, headRevision)
  }

  #groupFor(request: GroupRequest, headRevision: Revision): Group<Cursor> {
    const key = keyOf(GROUP_KEY, request)
    const existing = this.#groups.get(key)
    if (existing !== undefined) return existing
    const { encoder, wire } = request
    const matcher = this.#matcherFor(request)
    // Frames are cached under the group's own key, so it is short. It is unique so that a later group with the same
    // contents does not find this group's frames.
    const group = new Group<Cursor>(String(++this.#sequence), matcher, encoder, wire, headRevision, this.logUsage)
    matcher.groups.add(group)
    this.#groups.set(key, group)
    return group
  }

  #remove(group: Group<Cursor>, headRevision: Revision): void {
    const matcher = matcherOf(group)
    const { scope, prefix, selector } = matcher
    this.#groups.delete(keyOf(GROUP_KEY, { scope, prefix, selector, encoder: group.encoder, wire: group.wire }))
    group.log.reset(headRevision)
    matcher.groups.delete(group)
    if (matcher.groups.size > 0) return
    this.#matchers.delete(matcher.key)
    this.index.remove(matcher)
    matcher.close()
  }

  #matcherFor({ scope, prefix, selector, encoder: { schemaVersion }, identity }: GroupRequest): GroupMatcher {
    const key = matcherKey(this.#facts, { scope, prefix, selector }, schemaVersion)
    let matcher = this.#matchers.get(key)
    if (matcher === undefined) {
      matcher = new GroupMatcher(scope, selector, this.#facts, schemaVersion, identity, prefix)
      this.#matchers.set(key, matcher)
      this.index.add(matcher)
    }
    return matcher
  }
}

/** The cast is safe because this file creates the matcher of every group. */
export function matcherOf(group: Group<Cursor>): GroupMatcher {
  return group.matcher as GroupMatcher
}

/**
 * Returns the items with the most watchers first, because work for many watchers costs the same as work for one. Items
 * whose numbers of watchers are within the same power of two keep their order, so this takes linear time.
 */
export function mostWatchedFirst<T extends { readonly watchers: number }>(items: readonly T[]): readonly T[] {
  const levels: T[][] = []
  for (const item of items) (levels[watchersLevel(item.watchers)] ??= []).push(item)
  return levels.reverse().flat()
}
