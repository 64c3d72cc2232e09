/**
 * Broadcasts one resource: for every batch of the cache it finds the affected groups by index and lets each encode the
 * batch once. Other modules do the rest: `advance.ts` moves cursors, `bookmarks.ts` schedules them, `endings.ts` ends
 * them, `future-watchers.ts` holds the watchers of a future revision, and `groups.ts` holds what watchers share.
 * Everything is synchronous, except the request that asks etcd whether it has reached the future revision that a
 * watcher named.
 */
import type { CacheBatch, CacheEvent } from '../cache/cache-batch.js'
import type { Snapshot } from '../cache/store.js'
import type { CacheListener, WatchCache } from '../cache/watch-cache.js'
import type { EndReason } from '../model/end-reason.js'
import { type Key, keyFromText } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { BroadcastMetrics } from '../model/stage-metrics.js'
import { ExpiredError, type StatusError } from '../model/status.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Random } from '../../support/random.js'
import { CursorAdvance } from './advance.js'
import { Bookmarks } from './bookmarks.js'
import { Cursor, type CursorOwner, type WatchOutput } from './cursor.js'
import { Endings, noLongerServed } from './endings.js'
import { FactRegistry, type JsonOf } from './fact-registry.js'
import { FutureWatchers } from './future-watchers.js'
import type { Group } from './group.js'
import { type GroupMatcher, type GroupRequest, Groups, matcherOf, mostWatchedFirst } from './groups.js'
import type { MatchedEvent } from './matcher.js'
import type { Pump } from './pump.js'

/** Memory bounds for encoded events. */
export interface DispatcherBounds {
  /** Byte limit for one group's log. Beyond it, slow watchers fall back to the ring. */
  readonly logBytes: number
  /** Byte limit for all logs together. Beyond it, a log keeps nothing for slow watchers. */
  readonly allLogBytes: number
  /** Byte limit for encoded ring batches kept for lagging cursors. */
  readonly replayBytes: number
}

export interface DispatcherOptions extends DispatcherBounds {
  readonly cache: WatchCache
  readonly jsonOf: JsonOf
  readonly pump: Pump
  readonly clock: Clock
  readonly random: Random
  readonly metrics: BroadcastMetrics
  /** Milliseconds between two bookmarks to one watcher, ±10% jitter. */
  readonly bookmarkIntervalMs: number
  /** Called when an encoder failed because of a bug. */
  readonly onInternalError: (error: StatusError) => void
}

export type CursorStart =
  /** Everything after a revision, which may be a future one. */
  | { readonly kind: 'after'; readonly revision: Revision }
  /** The initial state, then everything after it. */
  | {
      readonly kind: 'initial'
      readonly snapshot: Snapshot
      /** The oldest acceptable revision of a shared state; null accepts only the snapshot itself. */
      readonly minRevision: Revision | null
      /** Whether a bookmark marks the end of the initial state (`k8s.io/initial-events-end`). */
      readonly marksEnd: boolean
    }

export interface CursorRequest extends GroupRequest {
  readonly start: CursorStart
  readonly bookmarks: boolean
  /** Monotonic milliseconds. */
  readonly deadlineMs: number
  /** Called with the number of initial-state bytes sent. @returns milliseconds to wait before sending more. */
  readonly pace: (bytes: number) => number
  readonly onInitialComplete: () => void
  readonly onEnd: (reason: EndReason) => void
}

/**
 * The server cuts off a peer that has read nothing for this long if the ring no longer holds its next events. Its full
 * socket could not even take an error.
 */
const STUCK_LIMIT_MS = 30_000
/** When a resource is no longer served, its watchers have this long to receive their last events. */
const RETIRE_LIMIT_MS = 60_000
const STUCK_CHECK_MS = 5_000
/** Half a megabit per second on average. A slower reader could hold its initial-state slot forever. */
const MIN_INITIAL_BYTES_PER_SECOND = 64 * 1024
/** The rate is judged only after this time. By default, a list may not take longer than this at any rate. */
const SLOW_INITIAL_MS = 60_000

export class Dispatcher implements CacheListener, CursorOwner {
  readonly facts: FactRegistry
  readonly #options: DispatcherOptions
  #bounds: DispatcherBounds
  readonly #cache: WatchCache
  readonly #groups: Groups
  readonly #endings: Endings
  readonly #bookmarks: Bookmarks
  readonly #advance: CursorAdvance
  readonly #cursors = new Set<Cursor>()
  readonly #waiting: FutureWatchers
  #sentEvents = 0
  #sentBytes = 0
  #stuckTimer: Timer
  #isClosed = false
  /** Why no more events will come. */
  #lost: StatusError | null = null
  /** Not null while `retire` waits for the last watchers of a resource that is no longer served. */
  #onRetired: (() => void) | null = null
  #retiring: Timer | null = null

  constructor(options: DispatcherOptions) {
    const { cache, clock, random, metrics, replayBytes, onInternalError } = options
    this.#options = options
    this.#bounds = options
    this.#cache = cache
    this.facts = new FactRegistry(options.jsonOf)
    this.#groups = new Groups(this.facts)
    this.#endings = new Endings({ cache, owner: this, onInternalError })
    this.#bookmarks = new Bookmarks({
      clock,
      random,
      intervalMs: options.bookmarkIntervalMs,
      headRevision: () => cache.revision,
      requestProgress: () => cache.requestProgress(),
      onDeadline: (cursor) => this.#endings.endAtDeadline(cursor),
    })
    this.#advance = new CursorAdvance({
      cache,
      endings: this.#endings,
      clock,
      metrics,
      replayBytes,
      onWaiting: (cursor) => this.#waiting.add(cursor),
      onTurn: (cursor) => {
        if (this.#onRetired !== null) this.#endIfComplete(cursor)
      },
    })
    this.#waiting = new FutureWatchers({
      cache,
      clock,
      onReached: (cursor) => this.#advance.follow(cursor),
      onNeverHad: (cursor, revision) =>
        this.#endSoon(cursor, ExpiredError.neverHad(cursor.revision, revision), 'too-large'),
    })
    const check = (): void => {
      this.#checkStuck()
      this.#stuckTimer = clock.setTimer(STUCK_CHECK_MS, check)
    }
    this.#stuckTimer = clock.setTimer(STUCK_CHECK_MS, check)
    cache.listen(this)
  }

  get watchers(): number {
    return this.#cursors.size
  }

  /** Events and bytes written to connections since the start. */
  get sent(): { readonly events: number; readonly bytes: number } {
    return { events: this.#sentEvents, bytes: this.#sentBytes }
  }

  /** The number of different selectors in use. */
  get matchers(): number {
    return this.#groups.matchers
  }

  /** The number of deadlines and bookmarks still scheduled. */
  get scheduled(): number {
    return this.#bookmarks.size
  }

  get groups(): Iterable<Group<Cursor>> {
    return this.#groups.all()
  }

  get cursors(): Iterable<Cursor> {
    return this.#cursors
  }

  /**
   * Opens a watcher. Nothing is written before this returns; the pump writes from its next turn on.
   * @throws ExpiredError when events after the revision are gone; ServiceUnavailableError when the resource is no
   * longer served; the error with which the source was lost.
   */
  open(request: CursorRequest, output: WatchOutput): Cursor {
    if (this.#isClosed) throw noLongerServed()
    if (this.#lost !== null) throw this.#lost
    const { start } = request
    if (start.kind === 'after') this.#cache.assertResumable(start.revision)
    const group = this.#groups.enter(request, this.#cache.revision)
    const revision = start.kind === 'after' ? start.revision : start.snapshot.revision
    const nowMs = this.#options.clock.monotonic()
    const cursor = new Cursor(this, group, output, optionsOf(request), revision)
    this.#cursors.add(cursor)
    if (start.kind === 'initial') {
      const prefix = request.prefix ?? this.#prefixOf(request.namespace)
      const oldest = start.minRevision === null ? null : maxRevision(start.minRevision, this.#cache.floorRevision)
      cursor.beginInitial(group.initialFrames(start.snapshot, prefix, oldest, nowMs), start.marksEnd, nowMs)
      this.wake(cursor)
    } else {
      this.#advance.follow(cursor)
      cursor.timetable.opened(nowMs)
    }
    this.#bookmarks.add(cursor)
    return cursor
  }

  /**
   * Ends a watcher because the server stops. Its last bytes are an ERROR if its initial state is incomplete, otherwise
   * a bookmark if the client asked for bookmarks.
   */
  drain(cursor: Cursor): void {
    this.#endings.drain(cursor)
  }

  /** Ends one watcher whose credential or permission is gone. */
  revoke(cursor: Cursor, error: StatusError): void {
    if (cursor.state !== 'ended') this.#endings.revoke(cursor, error)
  }

  fail(cursor: Cursor, error: StatusError, reason: EndReason): void {
    if (cursor.state !== 'ended') this.#endings.endWithError(cursor, error, reason)
  }

  /** The source is lost for good. Every watcher ends with that error, and so does every later call of `open`. */
  lose(error: StatusError): void {
    this.#lost ??= error
    for (const cursor of this.#cursors) this.fail(cursor, error, 'error')
  }

  /** One version of the resource is no longer served. Its watchers end cleanly. */
  endVersion(apiVersion: string): void {
    for (const cursor of this.#cursors) {
      if (cursor.group.encoder.apiVersion === apiVersion) this.#endings.endUnserved(cursor)
    }
  }

  /**
   * Objects are interpreted differently from now on. Every watcher ends cleanly, and selectors read all objects again.
   */
  reread(): void {
    for (const cursor of this.#cursors) this.#endings.endUnserved(cursor)
    this.facts.forget()
  }

  /**
   * The resource is no longer served. No client can resume its watch, so each watcher first gets every event and then
   * ends cleanly. If that takes too long, it ends with an error. Resolves when all watchers have ended.
   */
  async retire(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await new Promise<void>((resolve) => {
      this.#onRetired = resolve
      for (const cursor of this.#cursors) {
        this.#endIfComplete(cursor)
        if (cursor.state !== 'ended') this.wake(cursor)
      }
      if (this.#cursors.size === 0) return resolve()
      this.#retiring = this.#options.clock.setTimer(RETIRE_LIMIT_MS, () => {
        for (const cursor of this.#cursors) this.#endings.endWithError(cursor, noLongerServed(), 'removed')
      })
    })
    this.#onRetired = null
    this.close()
  }

  /**
   * Called when the server stops, or when every watcher has received everything. The watchers that are left end
   * cleanly.
   */
  close(): void {
    this.#isClosed = true
    this.#retiring?.cancel()
    for (const cursor of this.#cursors) this.#endings.endUnserved(cursor)
    this.#bookmarks.stop()
    this.#stuckTimer.cancel()
  }

  #endIfComplete(cursor: Cursor): void {
    if (cursor.isAtHead || cursor.state === 'waiting') this.#endings.endUnserved(cursor)
  }

  /** Changes the limits for encoded events, and frees logs that exceed them at once. */
  setBounds(bounds: DispatcherBounds): void {
    this.#bounds = bounds
    this.#advance.resizeReplays(bounds.replayBytes)
    const isOver = this.#groups.logUsage.bytes > bounds.allLogBytes
    for (const group of this.#groups.all()) if (isOver || group.log.capacity > bounds.logBytes) this.#free(group)
  }

  /** Frees the logs: watchers that are not at the head fall back to the ring. */
  relieveMemory(): void {
    for (const group of this.#groups.all()) this.#free(group)
  }

  #free(group: Group<Cursor>): void {
    const { revision } = this.#cache
    this.#lagBelow(group, group.log.endOffset, revision)
    group.log.release(revision)
  }

  // CacheListener

  onBatch(batch: CacheBatch): void {
    if (this.#waiting.size > 0) this.#waiting.reached((batch.revision - 1) as Revision)
    if (this.#groups.size === 0) return
    const { touched, late } = this.#matchAll(batch)
    this.#appendToAll(touched, late, batch)
    for (const matcher of touched) matcher.matchedEvents = []
    for (const event of batch.events) event.bodies = null
  }

  onAdvance(revision: Revision): void {
    if (this.#waiting.size > 0) this.#waiting.reached(revision)
  }

  onUnreadable(error: StatusError): void {
    for (const cursor of this.#cursors) this.#endSoon(cursor, error, 'error')
  }

  onReset(revision: Revision, isOtherHistory: boolean): void {
    this.#advance.forgetReplays()
    for (const group of this.#groups.all()) group.log.reset(revision)
    for (const cursor of this.#cursors) {
      // A watcher that waits for a future revision has lost nothing unless that revision belongs to another history.
      if (cursor.state === 'waiting' && !isOtherHistory && cursor.revision >= revision) continue
      this.#endSoon(cursor, this.#endings.expired(cursor), 'expired')
    }
  }

  // CursorOwner

  wake(cursor: Cursor): void {
    this.#options.pump.enqueueCursor(cursor, this.#advance)
  }

  finish(cursor: Cursor, reason: EndReason): void {
    if (!cursor.end()) return
    this.#cursors.delete(cursor)
    this.#waiting.remove(cursor)
    this.#bookmarks.remove(cursor)
    this.#groups.leave(cursor.group, this.#cache.revision)
    this.#options.metrics.ended(reason)
    cursor.options.onEnd(reason)
    if (this.#cursors.size === 0) this.#onRetired?.()
  }

  /** Keeps plain sums, because a labelled counter would cost several times as much per write. */
  count(events: number, bytes: number): void {
    this.#sentEvents += events
    this.#sentBytes += bytes
  }

  /**
   * Gives each matcher its matching events. The lists of the `late` matchers may be incomplete, because time ran out
   * before these were tried with all events.
   */
  #matchAll(batch: CacheBatch): {
    readonly touched: readonly GroupMatcher[]
    readonly late: ReadonlySet<GroupMatcher>
  } {
    const { dispatchSlice, unslicedGroups } = this.#options.pump
    const touched: GroupMatcher[] = []
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
        if (matcher.matchedEvents.length === 0) touched.push(matcher)
        matcher.matchedEvents.push(matchedEvent)
        event.bodies ??= new Map()
      }
    }
    return { touched, late }
  }

  /**
   * Appends the matched events to the log of each group. When time runs out, the watchers of the remaining groups fall
   * back to the ring.
   */
  #appendToAll(touched: readonly GroupMatcher[], late: ReadonlySet<GroupMatcher>, batch: CacheBatch): void {
    const { dispatchSlice, unslicedGroups } = this.#options.pump
    const groups = touched.flatMap((matcher) => (late.has(matcher) ? [] : [...matcher.groups]))
    let given = 0
    for (const group of groups.length > unslicedGroups ? mostWatchedFirst(groups) : groups) {
      if (++given > unslicedGroups && dispatchSlice.isOver) this.#lagBefore(group, batch)
      else this.#appendTo(group, batch, matcherOf(group).matchedEvents)
    }
    for (const matcher of late) for (const group of matcher.groups) this.#lagBefore(group, batch)
  }

  /** Returns null if the selector does not match. If it cannot be evaluated, ends its watchers and returns null. */
  #match(matcher: GroupMatcher, event: CacheEvent, batch: CacheBatch): MatchedEvent | null {
    try {
      return matcher.match(event)
    } catch (error) {
      const status = this.#endings.unwritable(error)
      for (const { members } of matcher.groups) {
        for (const cursor of members.parked) cursor.unpark((batch.revision - 1) as Revision)
        for (const cursor of members.active.slice()) this.#endSoon(cursor, status, 'error')
      }
      return null
    }
  }

  #appendTo(group: Group<Cursor>, batch: CacheBatch, matchedEvents: readonly MatchedEvent[]): void {
    const { members, log } = group
    const before = (batch.revision - 1) as Revision
    for (const cursor of members.parked) cursor.unpark(before)
    if (members.active.length === 0) return
    const { pump } = this.#options
    const { logBytes, allLogBytes } = this.#bounds
    if (this.#groups.logUsage.bytes > allLogBytes && log.capacity > 0) {
      this.#lagBelow(group, log.endOffset, before)
      log.release(before)
      if (members.active.length === 0) return
    }
    try {
      if (group.append(batch, matchedEvents) === 0) return
    } catch (error) {
      const status = this.#endings.unwritable(error)
      for (const cursor of members.active.slice()) this.#endings.endWithError(cursor, status, 'error')
      return
    }
    if (log.capacity > logBytes) {
      // Trim to half the limit, so that the next trim is not due soon. Only watchers far behind fall back to the ring.
      const offset = log.offsetKeeping(logBytes / 2)
      this.#lagBelow(group, offset, before)
      log.trim(offset)
    }
    pump.enqueueGroup(group, this.#advance)
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

  #endSoon(cursor: Cursor, error: StatusError, reason: EndReason): void {
    this.#waiting.remove(cursor)
    this.#endings.endSoon(cursor, error, reason)
  }

  #checkStuck(): void {
    const nowMs = this.#options.clock.monotonic()
    const { floorRevision, revision } = this.#cache
    this.#cache.evictByAge()
    for (const { isDirty, members, log } of this.#groups.all()) {
      // The log was kept for blocked cursors. They have since reached the head outside a pass, so nothing else would
      // free it.
      if (!isDirty && members.active.every((cursor) => cursor.offset >= log.endOffset)) log.release(revision)
    }
    for (const cursor of this.#cursors) {
      const isStuck = cursor.isStuck(nowMs, floorRevision, revision, STUCK_LIMIT_MS)
      if (!isStuck && !cursor.isTooSlow(nowMs, MIN_INITIAL_BYTES_PER_SECOND, SLOW_INITIAL_MS)) continue
      this.finish(cursor, isStuck ? 'stuck' : 'slow')
      cursor.output.destroy()
    }
  }

  #prefixOf(namespace: string): Key {
    const { prefix } = this.#cache
    return namespace === '' ? prefix : ((prefix + keyFromText(`${namespace}/`)) as Key)
  }
}

/** Returns the options that the cursor keeps, without the snapshot. */
function optionsOf({
  identity,
  bookmarks,
  deadlineMs,
  pace,
  onInitialComplete,
  onEnd,
}: CursorRequest): Cursor['options'] {
  return { identity, bookmarks, deadlineMs, pace, onInitialComplete, onEnd }
}

function maxRevision(a: Revision, b: Revision): Revision {
  return a > b ? a : b
}
