/**
 * Broadcasts one resource: for every batch of the cache it finds the affected groups by index and lets each encode the
 * batch once. The watchers are moved and ended by `watchers.ts`, and `groups.ts` holds what they share. Everything is
 * synchronous, except the request that asks etcd whether it has reached the future revision that a watcher named
 * (`future-watchers.ts`).
 */
import type { CacheBatch, CacheEvent } from '../cache/cache-batch.js'
import type { Snapshot } from '../cache/store.js'
import type { CacheListener, WatchCache } from '../cache/watch-cache.js'
import type { FactSource } from '../model/fact-source.js'
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { type EngineError, RefusedWatchError, RevisionExpiredError } from '../model/errors.js'
import type { Timer } from '../../support/clock.js'
import { Cursor, type CursorOptions, type WatchOutput } from './cursor.js'
import { endLost, endRefused, endSoon, endUnserved, endWithError, expiredError, noLongerServed } from './endings.js'
import { FactRegistry } from './fact-registry.js'
import type { Bodies, Group } from './group.js'
import { type GroupMatcher, type GroupRequest, Groups, matcherOf, mostWatchedFirst } from './groups.js'
import type { MatchedEvent } from './matcher.js'
import { PacedEndings } from './paced-endings.js'
import { Watchers, type WatchersOptions } from './watchers.js'

/** Memory bounds for encoded events. */
export interface DispatcherBounds {
  /** Byte limit for one group's log. Beyond it, slow watchers fall back to the ring. */
  readonly logBytes: number
  /** Byte limit for all logs together. Beyond it, a log keeps nothing for slow watchers. */
  readonly allLogBytes: number
  /** Byte limit for encoded ring batches kept for lagging cursors. */
  readonly replayBytes: number
}

export interface DispatcherOptions extends DispatcherBounds, WatchersOptions {
  readonly facts: FactSource
  /** The pace at which watchers end whose source refuses the resource. Default: a pace of its own. */
  readonly endings?: PacedEndings
}

export type CursorStart =
  /** Everything after a revision that the client has named, which may be a future one. */
  | { readonly kind: 'after'; readonly revision: Revision }
  /** Everything after a revision that the source is known to have reached, although the cache may not have. */
  | { readonly kind: 'reached'; readonly revision: Revision }
  /** The initial state, then everything after it. */
  | {
      readonly kind: 'initial'
      readonly snapshot: Snapshot
      /** The oldest acceptable revision of a shared state; null accepts only the snapshot itself. */
      readonly minRevision: Revision | null
      /** Whether a bookmark marks the end of the initial state (`k8s.io/initial-events-end`). */
      readonly marksEnd: boolean
    }

export interface CursorRequest extends GroupRequest, CursorOptions {
  readonly start: CursorStart
  /** The prefix of the initial state's keys. */
  readonly statePrefix: Key
}

interface Matches {
  /** The matching events of each matcher that has any. */
  readonly matched: ReadonlyMap<GroupMatcher, readonly MatchedEvent[]>
  /** The matchers whose events may be incomplete, because time ran out before they were tried with all events. */
  readonly late: ReadonlySet<GroupMatcher>
}

const CHECK_MS = 5_000
/** Facts of selectors that have not been in use for this long are dropped: longer than clients take to come back. */
const UNUSED_FACTS_MS = 300_000

export class Dispatcher implements CacheListener {
  readonly facts: FactRegistry
  readonly #options: DispatcherOptions
  #bounds: DispatcherBounds
  readonly #cache: WatchCache
  readonly #groups: Groups
  readonly #watchers: Watchers
  readonly #endings: PacedEndings
  #timer: Timer
  #tidiedMs = 0
  #isClosed = false
  /** Why no more events will come. */
  #lost: EngineError | null = null

  constructor(options: DispatcherOptions) {
    const { cache, clock } = options
    this.#options = options
    this.#bounds = options
    this.#cache = cache
    this.facts = new FactRegistry(options.facts, () => cache.snapshot().all())
    this.#groups = new Groups(this.facts)
    this.#watchers = new Watchers(this.#groups, options)
    this.#endings = options.endings ?? new PacedEndings(clock)
    const check = (): void => {
      this.#check()
      this.#timer = clock.setTimer(CHECK_MS, check)
    }
    this.#timer = clock.setTimer(CHECK_MS, check)
    cache.listen(this)
  }

  get watchers(): number {
    return this.#watchers.cursors.size
  }

  /** Events and bytes written to connections since the start. */
  get sent(): { readonly events: number; readonly bytes: number } {
    return this.#watchers.sent
  }

  /** The number of different selectors in use. */
  get matchers(): number {
    return this.#groups.matchers
  }

  /** The number of deadlines and bookmarks still scheduled. */
  get scheduled(): number {
    return this.#watchers.bookmarks.size
  }

  get groups(): Iterable<Group<Cursor>> {
    return this.#groups.all()
  }

  get cursors(): Iterable<Cursor> {
    return this.#watchers.cursors
  }

  /**
   * Opens a watcher. Nothing is written before this returns; the pump writes from its next turn on.
   * @throws RevisionExpiredError when events after the revision are gone; UnservedError when the resource is no
   * longer served; RefusedWatchError while the source refuses it; the error with which the source was lost.
   */
  open(request: CursorRequest, output: WatchOutput): Cursor {
    if (this.#lost !== null) throw this.#lost
    if (this.#isClosed) throw noLongerServed()
    if (this.#cache.source.isRefusing) throw new RefusedWatchError(this.#cache.name)
    const { start } = request
    const { history } = this.#cache
    // Who has named no revision holds no object in an earlier form.
    const isResumable = start.kind === 'reached' && history.canResumeAfter(start.revision)
    if (start.kind !== 'initial' && !isResumable) history.assertResumable(start.revision)
    const group = this.#groups.enter(request, this.#cache.revision)
    const revision = start.kind === 'initial' ? start.snapshot.revision : start.revision
    const nowMs = this.#options.clock.monotonic()
    const cursor = new Cursor(this.#watchers, group, output, optionsOf(request), revision)
    this.#watchers.cursors.add(cursor)
    if (start.kind === 'initial') {
      const oldest = start.minRevision === null ? null : maxRevision(start.minRevision, history.floorRevision)
      const frames = group.initialFrames(start.snapshot, request.statePrefix, oldest, nowMs)
      cursor.beginInitial(frames, start.marksEnd, nowMs)
      this.#watchers.wake(cursor)
    } else {
      cursor.timetable.opened(nowMs)
      if (start.kind === 'after') cursor.beginAfter()
      this.#watchers.future.follow(cursor)
      if (start.kind === 'reached') cursor.decide()
    }
    this.#watchers.bookmarks.add(cursor)
    return cursor
  }

  /** The source is lost for good. Every watcher ends, and every later call of `open` throws that error. */
  lose(error: EngineError): void {
    this.#lost ??= error
    for (const cursor of this.cursors) endLost(cursor, error)
  }

  /**
   * One version of the resource is no longer served.
   * @param isSucceeded whether other objects have its name now, so that its watchers must list again. Otherwise they end
   * cleanly.
   */
  endVersion(schemaVersion: string, isSucceeded = false): void {
    for (const cursor of this.cursors) {
      if (cursor.group.encoder.schemaVersion !== schemaVersion) continue
      if (isSucceeded) endLost(cursor, new RevisionExpiredError(null, null))
      else endUnserved(cursor)
    }
  }

  /**
   * Objects are interpreted differently from now on. Every watcher ends cleanly, and selectors read all objects again.
   */
  reread(): void {
    for (const cursor of this.cursors) endUnserved(cursor)
    this.facts.forget()
  }

  /** The resource is no longer served; see `Watchers.retire`. */
  async retire(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#watchers.retire()
    this.close()
  }

  /**
   * Called when the server stops, or when every watcher has received everything. The watchers that are left end
   * cleanly.
   */
  close(): void {
    this.#isClosed = true
    for (const cursor of this.cursors) endUnserved(cursor)
    this.#watchers.bookmarks.stop()
    this.#timer.cancel()
  }

  /** Changes the limits for encoded events, and frees logs that exceed them at once. */
  setBounds(bounds: DispatcherBounds): void {
    this.#bounds = bounds
    this.#watchers.replays.resize(bounds.replayBytes)
    const isOver = this.#groups.logUsage.bytes > bounds.allLogBytes
    for (const group of this.#groups.all()) if (isOver || group.log.capacity > bounds.logBytes) this.#free(group)
  }

  /**
   * Frees the logs, so watchers that are not at the head fall back to the ring, and the facts of selectors that are not
   * in use.
   */
  relieveMemory(): void {
    this.facts.relieveMemory()
    for (const group of this.#groups.all()) this.#free(group)
  }

  #free(group: Group<Cursor>): void {
    const { revision } = this.#cache
    this.#lagBelow(group, group.log.endOffset, revision)
    group.log.release(revision)
  }

  // CacheListener

  onBatch(batch: CacheBatch): void {
    this.#watchers.future.reached((batch.revision - 1) as Revision)
    if (this.#groups.size > 0) this.#append(batch, this.#matchAll(batch))
  }

  onAdvance(revision: Revision): void {
    this.#watchers.future.reached(revision)
  }

  onUnreadable(error: EngineError): void {
    for (const cursor of this.cursors) endSoon(cursor, error, 'error')
  }

  onRefused(): void {
    const { name, source } = this.#cache
    this.#endings.add(
      this.cursors,
      (cursor) => endRefused(cursor, name),
      () => source.isRefusing,
    )
  }

  onReset(revision: Revision, isOtherHistory: boolean): void {
    this.#watchers.replays.clear()
    for (const group of this.#groups.all()) group.log.reset(revision)
    for (const cursor of this.cursors) {
      // A watcher that waits for a future revision has lost nothing unless that revision belongs to another history.
      if (cursor.state === 'waiting' && !isOtherHistory && cursor.revision >= revision) continue
      endSoon(cursor, expiredError(cursor), 'expired')
    }
  }

  /** Matches the events of a batch with the selectors in use, until time runs out. */
  #matchAll(batch: CacheBatch): Matches {
    const { dispatchSlice, unslicedGroups } = this.#options.pump
    const matched = new Map<GroupMatcher, MatchedEvent[]>()
    const late = new Set<GroupMatcher>()
    let looked = 0
    for (const event of batch.events) {
      const candidates = this.#groups.index.candidates(event)
      const isMany = candidates.length > unslicedGroups
      for (const matcher of isMany ? mostWatchedFirst(candidates) : candidates) {
        if (++looked > unslicedGroups && dispatchSlice.isOver) {
          late.add(matcher)
          continue
        }
        const matchedEvent = this.#match(matcher, event, batch)
        if (matchedEvent === null) continue
        const events = matched.get(matcher)
        if (events === undefined) matched.set(matcher, [matchedEvent])
        else events.push(matchedEvent)
      }
    }
    return { matched, late }
  }

  /**
   * Appends the matched events to the log of each group. When time runs out, the watchers of the remaining groups fall
   * back to the ring.
   */
  #append(batch: CacheBatch, { matched, late }: Matches): void {
    const { dispatchSlice, unslicedGroups } = this.#options.pump
    const bodies: Bodies = new Map()
    const groups = [...matched.keys()].flatMap((matcher) => (late.has(matcher) ? [] : [...matcher.groups]))
    let given = 0
    for (const group of groups.length > unslicedGroups ? mostWatchedFirst(groups) : groups) {
      if (++given > unslicedGroups && dispatchSlice.isOver) this.#lagBefore(group, batch)
      else this.#appendTo(group, batch, matched.get(matcherOf(group))!, bodies)
    }
    for (const matcher of late) for (const group of matcher.groups) this.#lagBefore(group, batch)
  }

  /** Returns null if the selector does not match. If it cannot be evaluated, ends its watchers and returns null. */
  #match(matcher: GroupMatcher, event: CacheEvent, batch: CacheBatch): MatchedEvent | null {
    try {
      return matcher.match(event)
    } catch (error) {
      const shown = this.#watchers.unwritable(error)
      for (const { members } of matcher.groups) {
        for (const cursor of members.parked) cursor.unpark((batch.revision - 1) as Revision)
        for (const cursor of members.active.slice()) endSoon(cursor, shown, 'error')
      }
      return null
    }
  }

  #appendTo(group: Group<Cursor>, batch: CacheBatch, matchedEvents: readonly MatchedEvent[], bodies: Bodies): void {
    const { members, log } = group
    const before = (batch.revision - 1) as Revision
    for (const cursor of members.parked) cursor.unpark(before)
    if (members.active.length === 0) return
    const { logBytes, allLogBytes } = this.#bounds
    if (this.#groups.logUsage.bytes > allLogBytes && log.capacity > 0) {
      this.#lagBelow(group, log.endOffset, before)
      log.release(before)
      if (members.active.length === 0) return
    }
    try {
      if (group.append(batch, matchedEvents, bodies) === 0) return
    } catch (error) {
      const shown = this.#watchers.unwritable(error)
      for (const cursor of members.active.slice()) endWithError(cursor, shown, 'error')
      return
    }
    if (log.capacity > logBytes) {
      // Trim to half the limit, so that the next trim is not due soon. Only watchers far behind fall back to the ring.
      const offset = log.offsetKeeping(logBytes / 2)
      this.#lagBelow(group, offset, before)
      log.trim(offset)
    }
    this.#watchers.pass(group)
  }

  /** There was no time to append the batch for this group, so its watchers read it from the ring. */
  #lagBefore(group: Group<Cursor>, batch: CacheBatch): void {
    const before = (batch.revision - 1) as Revision
    for (const cursor of group.members.parked) cursor.unpark(before)
    for (const cursor of group.members.active.slice()) cursor.lagFromLog(before)
  }

  /** The log is about to be trimmed up to `offset`, so cursors below that offset fall back to the ring. */
  #lagBelow({ members }: Group<Cursor>, offset: number, headRevision: Revision): void {
    for (const cursor of members.active.filter((cursor) => cursor.offset < offset)) cursor.lagFromLog(headRevision)
  }

  #check(): void {
    const nowMs = this.#options.clock.monotonic()
    this.#cache.history.evictByAge()
    if (nowMs - this.#tidiedMs >= UNUSED_FACTS_MS) {
      this.#tidiedMs = nowMs
      this.facts.tidy()
    }
    for (const { isDirty, members, log } of this.#groups.all()) {
      // The log was kept for blocked cursors. They have since reached the head outside a pass, so nothing else would
      // free it.
      if (!isDirty && members.active.every((cursor) => cursor.offset >= log.endOffset))
        log.release(this.#cache.revision)
    }
    this.#watchers.cutStuck(nowMs)
  }
}

/** Returns the options that the cursor keeps, without the snapshot. */
function optionsOf({ identity, bookmarks, deadlineMs, onInitialComplete, onEnd }: CursorRequest): CursorOptions {
  return { identity, bookmarks, deadlineMs, onInitialComplete, onEnd }
}

function maxRevision(a: Revision, b: Revision): Revision {
  return a > b ? a : b
}
