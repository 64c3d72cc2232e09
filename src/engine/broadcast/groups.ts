/**
 * The groups of one resource, made for their first watcher and let go with their last; and the matchers they share,
 * found by index, so that an event costs what it delivers and not how many watchers there are.
 */
import type { BodyEncoder } from '../model/body-encoder.js'
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { Cursor } from './cursor.js'
import type { FactRegistry } from './fact-registry.js'
import type { LogUsage } from './frame-log.js'
import { Group, watchersLevel } from './group.js'
import { Matcher, type MatchedEvent, type WatchSelector, matcherKey } from './matcher.js'
import { MatcherIndex } from './matcher-index.js'
import type { WireFormat } from './wire-format.js'
import { type KeyParts, keyOf } from '../../support/key-of.js'

/** All that decides the bytes of a watch: watchers that agree in it form one group. */
export interface GroupContents {
  /** '' for all. */
  readonly namespace: string
  /** The absolute prefix of the keys, if it is longer than the namespace's; else null. */
  readonly prefix: Key | null
  readonly selector: WatchSelector
  readonly encoder: BodyEncoder
  readonly wire: WireFormat
}

const GROUP_KEY: KeyParts<GroupContents> = {
  namespace: (namespace) => namespace,
  prefix: (prefix) => prefix,
  selector: ({ canonical }) => canonical,
  encoder: ({ apiVersion, key }) => `${apiVersion} ${key}`,
  wire: ({ key }) => key,
}

export interface GroupRequest extends GroupContents {
  /** Whoever asks, for a share of the facts that are kept for selectors. */
  readonly identity: string
}

export class GroupMatcher extends Matcher {
  readonly groups = new Set<Group<Cursor>>()
  /** The sum over all its groups. */
  watchers = 0
  /** Events of the batch that is being dispatched. */
  matchedEvents: MatchedEvent[] = []
}

export class Groups {
  /** Memory of all logs together. */
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

  /** Different selectors in use. */
  get matchers(): number {
    return this.#matchers.size
  }

  all(): Iterable<Group<Cursor>> {
    return this.#groups.values()
  }

  /** A watcher enters its group. @param headRevision where the log of a new group begins. */
  enter(request: GroupRequest, headRevision: Revision): Group<Cursor> {
    const group = this.#groupFor(request, headRevision)
    group.enter(request.identity)
    matcherOf(group).watchers++
    return group
  }

  /** A watcher has left its group; the last one takes the group along. */
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
    // A short key of its own: frames are cached under it, and no later group with the same long key may find them.
    const group = new Group<Cursor>(String(++this.#sequence), matcher, encoder, wire, headRevision, this.logUsage)
    matcher.groups.add(group)
    this.#groups.set(key, group)
    return group
  }

  #remove(group: Group<Cursor>, headRevision: Revision): void {
    const matcher = matcherOf(group)
    const { namespace, prefix, selector } = matcher
    this.#groups.delete(keyOf(GROUP_KEY, { namespace, prefix, selector, encoder: group.encoder, wire: group.wire }))
    group.log.reset(headRevision)
    matcher.groups.delete(group)
    if (matcher.groups.size > 0) return
    this.#matchers.delete(matcher.key)
    this.index.remove(matcher)
    matcher.close()
  }

  #matcherFor({ namespace, prefix, selector, encoder: { apiVersion }, identity }: GroupRequest): GroupMatcher {
    const key = matcherKey(namespace, prefix, selector, apiVersion)
    let matcher = this.#matchers.get(key)
    if (matcher === undefined) {
      matcher = new GroupMatcher(namespace, selector, this.#facts, apiVersion, identity, prefix)
      this.#matchers.set(key, matcher)
      this.index.add(matcher)
    }
    return matcher
  }
}

/** Every group of a resource has one that was made here. */
export function matcherOf(group: Group<Cursor>): GroupMatcher {
  return group.matcher as GroupMatcher
}

/**
 * Those with the most watchers first, by powers of two and otherwise in the given order: what is done for many costs the
 * same as what is done for one. Linear in the number of items.
 */
export function mostWatchedFirst<T extends { readonly watchers: number }>(items: readonly T[]): readonly T[] {
  const levels: T[][] = []
  for (const item of items) (levels[watchersLevel(item.watchers)] ??= []).push(item)
  return levels.reverse().flat()
}
