/**
 * The broadcast of one resource: hears every batch of its cache, finds by index whom it concerns, lets each group encode
 * it once, and moves cursors between the ring and the logs without a hole or an overlap.
 *
 * All of it is synchronous: a cursor is checked and joined in one step, so nothing can come in between.
 */
import type { BroadcastMetrics } from '../model/stage-metrics.js'
import { LRUCache } from 'lru-cache'
import type { CacheBatch, CacheEvent } from '../cache/cache-batch.js'
import type { Snapshot } from '../cache/store.js'
import type { CacheListener, WatchCache } from '../cache/watch-cache.js'
import { type Key, keyFromText } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { ExpiredError, ServiceUnavailableError, type Status, StatusError } from '../model/status.js'
import type { Clock, Timer } from '../support/clock.js'
import { type Random, randomInteger } from '../support/random.js'
import type { BodyEncoder } from '../model/body-encoder.js'
import { Cursor, type CursorOptions, type WatcherSink } from './cursor.js'
import type { EndReason } from '../model/end-reason.js'
import { FactRegistry, type JsonOf } from './fact-registry.js'
import type { LogUsage } from './frame-log.js'
import { Group, type GroupOwner, type Replay } from './group.js'
import { Matcher, type MatchedEvent, type WatchSelector, matcherKey } from './matcher.js'
import { MatcherIndex } from './matcher-index.js'
import type { Advance, Pump } from './pump.js'
import { Schedule } from './schedule.js'
import type { Wire, WriteUnit } from './wire.js'

export interface BroadcasterOptions {
  readonly cache: WatchCache
  readonly jsonOf: JsonOf
  readonly pump: Pump
  readonly clock: Clock
  readonly random: Random
  readonly metrics: BroadcastMetrics
  /** Between two bookmarks to one watcher, milliseconds; jittered by a tenth. */
  readonly bookmarkIntervalMs: number
  /** Bytes of one group's log; beyond it the slow go on from the ring. */
  readonly logBytes: number
  /** Bytes of all logs together; beyond it a log keeps nothing for the slow. */
  readonly allLogBytes: number
  /** Frames of ring batches kept for lagging cursors, bytes. */
  readonly replayBytes: number
  /** Its labels and fields would have been too many with those of others. */
  readonly onSelectorRefused?: () => void
  /** An encoder failed on one of our bugs. */
  readonly onInternalError: (error: StatusError) => void
}

export type WatchStart =
  /** Everything after a revision, which may lie in the future. */
  | { readonly kind: 'after'; readonly revision: Revision }
  /** The state, then everything after it. */
  | {
      readonly kind: 'initial'
      readonly snapshot: Snapshot
      /** A state as old as this will do, if another watcher is just being sent one; null: the snapshot itself. */
      readonly minRevision: Revision | null
      /** Mark its end with a bookmark (`k8s.io/initial-events-end`). */
      readonly marksEnd: boolean
    }

export interface WatchRequest {
  readonly namespace: string
  readonly selector: WatchSelector
  readonly encoder: BodyEncoder
  readonly wire: Wire
  readonly start: WatchStart
  readonly bookmarks: boolean
  /** Monotonic milliseconds. */
  readonly deadlineMs: number
  /** Told of the bytes of initial state that were sent. @returns milliseconds to wait before more. */
  readonly pace: (bytes: number) => number
  readonly onInitialComplete: () => void
  readonly onEnd: (reason: EndReason) => void
}

/** The API server sends the last bookmark this long before it ends a watch. */
const FINAL_BOOKMARK_MS = 2_000
/** A peer that takes nothing and has fallen out of the ring cannot even be told. */
const STUCK_LIMIT_MS = 30_000
const STUCK_CHECK_MS = 5_000
/** Work for one cursor in one turn of the pump. */
const TURN_BYTES = 256 * 1024
const TURN_BATCHES = 512

interface MatcherGroups {
  readonly groups: Set<Group>
  /** Events of the batch being dispatched. */
  matchedEvents: MatchedEvent[]
}

class GroupMatcher extends Matcher implements MatcherGroups {
  readonly groups = new Set<Group>()
  matchedEvents: MatchedEvent[] = []
}

export class Broadcaster implements CacheListener, GroupOwner, Advance {
  readonly #options: BroadcasterOptions
  readonly #cache: WatchCache
  readonly facts: FactRegistry
  readonly #index: MatcherIndex<GroupMatcher>
  readonly #matchers = new Map<string, GroupMatcher>()
  readonly #groups = new Map<string, Group>()
  readonly #cursors = new Set<Cursor>()
  /** Small: few ask for the future. */
  readonly #waiting = new Set<Cursor>()
  readonly #schedule: Schedule
  readonly #replays: LRUCache<string, Replay>
  #groupSequence = 0
  #sentEvents = 0
  #sentBytes = 0
  readonly #logUsage: LogUsage = { bytes: 0 }
  #stuckTimer: Timer
  #isClosed = false

  constructor(options: BroadcasterOptions) {
    this.#options = options
    this.#cache = options.cache
    this.facts = new FactRegistry(options.jsonOf, options.onSelectorRefused)
    this.#index = new MatcherIndex(this.facts)
    this.#schedule = new Schedule(options.clock, (cursor, nowMs) => this.#due(cursor, nowMs))
    this.#replays = new LRUCache({
      maxSize: options.replayBytes,
      maxEntrySize: options.replayBytes,
      sizeCalculation: (replay: Replay) => replay.bytes.length + 128,
    })
    const check = (): void => {
      this.#checkStuck()
      this.#stuckTimer = options.clock.setTimer(STUCK_CHECK_MS, check)
    }
    this.#stuckTimer = options.clock.setTimer(STUCK_CHECK_MS, check)
    this.#cache.listen(this)
  }

  get watchers(): number {
    return this.#cursors.size
  }

  /** Events handed to connections since the start, and their bytes. */
  get sent(): { readonly events: number; readonly bytes: number } {
    return { events: this.#sentEvents, bytes: this.#sentBytes }
  }

  /** Different selectors in use. */
  get matchers(): number {
    return this.#matchers.size
  }

  /** Ends and bookmarks that are still to fall due. */
  get scheduled(): number {
    return this.#schedule.size
  }

  get groups(): Iterable<Group> {
    return this.#groups.values()
  }

  get cursors(): Iterable<Cursor> {
    return this.#cursors
  }

  /**
   * A new watcher. Bytes may be written before this returns only by the pump's next turn, never within.
   * @throws ExpiredError when the revision is gone; ServiceUnavailableError when the resource is no longer served.
   */
  open(request: WatchRequest, sink: WatcherSink): Cursor {
    if (this.#isClosed) throw noLongerServed()
    const { start } = request
    if (start.kind === 'after') this.#cache.assertResumable(start.revision)
    const group = this.#groupFor(request)
    const revision = start.kind === 'after' ? start.revision : start.snapshot.revision
    const options: CursorOptions = {
      bookmarks: request.bookmarks,
      deadlineMs: request.deadlineMs,
      pace: request.pace,
      onInitialComplete: request.onInitialComplete,
      onEnd: request.onEnd,
    }
    const cursor = new Cursor(group, sink, options, revision)
    group.size++
    this.#cursors.add(cursor)
    if (start.kind === 'initial') {
      const nowMs = this.#options.clock.monotonic()
      const prefix = this.#prefixOf(request.namespace)
      const oldest = start.minRevision === null ? null : maxRevision(start.minRevision, this.#cache.floorRevision)
      cursor.initial = group.initialFrames(start.snapshot, prefix, oldest, nowMs)
      cursor.revision = cursor.initial.revision
      cursor.initialMark = start.marksEnd
      cursor.state = 'initial'
      this.wake(cursor)
    } else {
      this.#follow(cursor)
      // The last bookmark of one that ends so soon is due as soon as it has caught up: it was opened to be told how far.
      const leftMs = request.deadlineMs - this.#options.clock.monotonic()
      if (request.bookmarks && leftMs <= FINAL_BOOKMARK_MS) {
        cursor.hasFinalBookmark = true
        cursor.isBookmarkDue = true
      }
    }
    this.#scheduleNext(cursor, this.#options.clock.monotonic())
    return cursor
  }

  /** Whether one more watcher of this kind would find its bytes already being made. */
  hasGroup(namespace: string, selector: WatchSelector, encoder: BodyEncoder, wire: Wire): boolean {
    return this.#groups.has(groupKey(matcherKey(namespace, selector, encoder.apiVersion), encoder, wire))
  }

  /** Ends a watcher: a last bookmark if asked for, then a clean end; an ERROR if its initial state is not complete. */
  drain(cursor: Cursor): void {
    if (cursor.state === 'ended') return
    if (cursor.state === 'initial') {
      const error = new ServiceUnavailableError('the server is shutting down before the initial state was complete')
      return this.#endWithError(cursor, error, 'drain')
    }
    this.#endCleanly(cursor, 'drain')
  }

  /** Ends a watcher with an error of its own (a right taken away, a resource removed). */
  fail(cursor: Cursor, error: StatusError, reason: EndReason): void {
    if (cursor.state !== 'ended') this.#endWithError(cursor, error, reason)
  }

  /** One version of the resource is no longer served: its watchers end cleanly. */
  endVersion(apiVersion: string): void {
    for (const cursor of this.#cursors) {
      if (cursor.group.encoder.apiVersion === apiVersion) this.#remove(cursor)
    }
  }

  /** The resource is no longer served: every watcher ends cleanly. */
  close(): void {
    this.#isClosed = true
    for (const cursor of this.#cursors) this.#remove(cursor)
    this.#schedule.stop()
    this.#stuckTimer.cancel()
  }

  // CacheListener

  onBatch(batch: CacheBatch): void {
    if (this.#waiting.size > 0) this.#activateWaiting((batch.revision - 1) as Revision)
    if (this.#groups.size === 0) return
    const touched: GroupMatcher[] = []
    for (const event of batch.events) {
      for (const matcher of this.#index.candidates(event)) {
        const matchedEvent = this.#sight(matcher, event, batch)
        if (matchedEvent === null) continue
        if (matcher.matchedEvents.length === 0) touched.push(matcher)
        matcher.matchedEvents.push(matchedEvent)
        event.bodies ??= new Map()
      }
    }
    for (const matcher of touched) {
      for (const group of matcher.groups) this.#appendTo(group, batch, matcher.matchedEvents)
      matcher.matchedEvents = []
    }
    for (const event of batch.events) event.bodies = null
  }

  /** null as well when it cannot be told whether it is seen: then who waits for it is ended. */
  #sight(matcher: GroupMatcher, event: CacheEvent, batch: CacheBatch): MatchedEvent | null {
    try {
      return matcher.sight(event)
    } catch (error) {
      const status = this.#unwritable(error)
      for (const group of matcher.groups) {
        for (const cursor of group.parked) this.#unpark(cursor, batch)
        for (const cursor of group.active.slice()) this.#endSoon(cursor, status, 'error')
      }
      return null
    }
  }

  onAdvance(revision: Revision): void {
    if (this.#waiting.size > 0) this.#activateWaiting(revision)
  }

  onUnreadable(error: StatusError): void {
    for (const cursor of this.#cursors) this.#endSoon(cursor, error, 'error')
  }

  onReset(revision: Revision, isOtherHistory: boolean): void {
    this.#replays.clear()
    for (const group of this.#groups.values()) group.log.reset(revision)
    for (const cursor of this.#cursors) {
      // Who waits for a revision still to come has lost nothing, unless that revision is of another history.
      if (cursor.state === 'waiting' && !isOtherHistory && cursor.revision >= revision) continue
      this.#endSoon(cursor, this.#expired(cursor), 'expired')
    }
  }

  // GroupOwner

  wake(cursor: Cursor): void {
    this.#options.pump.enqueueCursor(cursor, this)
  }

  finish(cursor: Cursor, reason: EndReason): void {
    if (cursor.state === 'ended') return
    this.#leave(cursor)
    cursor.state = 'ended'
    this.#cursors.delete(cursor)
    this.#waiting.delete(cursor)
    this.#schedule.remove(cursor)
    const { group } = cursor
    group.parked.delete(cursor)
    if (cursor.initial !== null) group.releaseInitial(cursor.initial)
    cursor.initial = null
    group.size--
    if (group.size === 0) this.#removeGroup(group)
    this.#options.metrics.ended(reason)
    cursor.options.onEnd(reason)
  }

  // Advance (the pump's view)

  advanceActive(cursor: Cursor): void {
    if (cursor.isBlocked) return
    const { log } = cursor.group
    while (cursor.offset < log.endOffset) {
      const slice = log.sliceFrom(cursor.offset, this.#cache.revision)
      cursor.offset = slice.endOffset
      cursor.revision = slice.revision
      this.#count(slice.events, slice.bytes.length)
      if (!this.#write(cursor, slice)) return
    }
    if (cursor.isBookmarkDue) this.#writeBookmark(cursor)
  }

  advanceOther(cursor: Cursor): boolean {
    if (cursor.state === 'ending') {
      this.#endCleanly(cursor, 'error')
      return false
    }
    if (cursor.isBlocked) return false
    try {
      return this.#advanceInTurn(cursor)
    } catch (error) {
      this.#endWithError(cursor, this.#unwritable(error), 'error')
      return false
    }
  }

  #advanceInTurn(cursor: Cursor): boolean {
    switch (cursor.state) {
      case 'initial':
        return this.#advanceInitial(cursor)
      case 'lagging':
        return this.#advanceLagging(cursor)
      case 'active':
        this.advanceActive(cursor)
        return false
      case 'starting':
      case 'waiting':
      case 'ending':
      case 'ended':
        return false
    }
  }

  passed(group: Group): void {
    const { clock, metrics } = this.#options
    metrics.delay((clock.monotonic() - group.receivedAtMs) / 1000)
    const { log } = group
    // Kept for those whose sockets are full; the rest is at the head.
    if (group.active.every((cursor) => cursor.offset >= log.endOffset)) log.release(this.#cache.revision)
  }

  /** Sums of plain numbers on the hot path; a counter with labels costs several times as much per write. */
  #count(events: number, bytes: number): void {
    this.#sentEvents += events
    this.#sentBytes += bytes
  }

  #appendTo(group: Group, batch: CacheBatch, matchedEvents: readonly MatchedEvent[]): void {
    for (const cursor of group.parked) this.#unpark(cursor, batch)
    if (group.active.length === 0) return
    const { logBytes, allLogBytes, pump } = this.#options
    const { log } = group
    if (this.#logUsage.bytes > allLogBytes && log.capacity > 0) {
      this.#lagBelow(group, log.endOffset, batch)
      log.release((batch.revision - 1) as Revision)
      if (group.active.length === 0) return
    }
    try {
      if (group.append(batch, matchedEvents) === 0) return
    } catch (error) {
      const status = this.#unwritable(error)
      for (const cursor of group.active.slice()) this.#endWithError(cursor, status, 'error')
      return
    }
    if (log.capacity > logBytes && log.newestOffset > log.startOffset) {
      this.#lagBelow(group, log.newestOffset, batch)
      log.trim()
    }
    pump.enqueueGroup(group, this)
  }

  /** Gives the logs back: who has not come to the head goes on from the ring. */
  relieveMemory(): void {
    const { revision } = this.#cache
    for (const group of this.#groups.values()) {
      const { log } = group
      for (const cursor of group.active.filter((cursor) => cursor.offset < log.endOffset)) {
        cursor.revision = log.revisionAt(cursor.offset, revision)
        this.#lag(cursor)
      }
      log.release(revision)
    }
  }

  /** The log is about to be trimmed up to there: who has not come so far goes on from the ring. */
  #lagBelow(group: Group, offset: number, batch: CacheBatch): void {
    for (const cursor of group.active.filter((cursor) => cursor.offset < offset)) {
      cursor.revision = group.log.revisionAt(cursor.offset, (batch.revision - 1) as Revision)
      this.#lag(cursor)
    }
  }

  /** Gives a cursor its place: in the ring, or outside until its revision comes; 410 when that is gone. */
  #follow(cursor: Cursor): void {
    if (cursor.revision > this.#cache.revision) {
      cursor.state = 'waiting'
      this.#waiting.add(cursor)
    } else if (this.#cache.canResumeAfter(cursor.revision)) this.#lag(cursor)
    else this.#expire(cursor)
  }

  #lag(cursor: Cursor): void {
    this.#leave(cursor)
    cursor.state = 'lagging'
    this.wake(cursor)
  }

  /** A cursor that has seen everything up to its revision stands in the log from now on, if the log reaches back so far. */
  #tryJoin(cursor: Cursor): boolean {
    const { group } = cursor
    const { log } = group
    const isAtHead = this.#cache.batchAfter(cursor.revision) === undefined
    // Nobody was listening: the log has not been written, and begins where the cache is.
    if (group.active.length === 0 && isAtHead) log.reset(this.#cache.revision)
    if (isAtHead && cursor.revision < this.#cache.revision) cursor.revision = this.#cache.revision
    if (group.active.length === 0 && !isAtHead) return false
    if (cursor.revision < log.floorRevision) return false
    if (cursor.needsFirst) return false
    cursor.offset = log.offsetAfter(cursor.revision)
    cursor.state = 'active'
    group.addActive(cursor)
    return true
  }

  #advanceInitial(cursor: Cursor): boolean {
    if (cursor.isPaced) return false
    const initial = cursor.initial!
    if (initial.revision < this.#cache.floorRevision) {
      // What happened since is gone: the rest of the state would be of no use.
      this.#expire(cursor)
      return false
    }
    const unit = initial.unit(cursor.initialAt)
    if (unit === null) {
      this.#completeInitial(cursor, initial.revision)
      return !hasEnded(cursor)
    }
    if (unit.events === 0) return true
    cursor.initialAt++
    // The shared units carry a Table's columns in their first event.
    cursor.needsFirst = false
    this.#count(unit.events, unit.bytes.length)
    const hasRoom = this.#write(cursor, unit)
    const waitMs = cursor.options.pace(unit.bytes.length)
    if (waitMs <= 0) return hasRoom
    cursor.isPaced = true
    this.#options.clock.setTimer(waitMs, () => {
      cursor.isPaced = false
      if (cursor.state === 'initial') this.wake(cursor)
    })
    return false
  }

  #completeInitial(cursor: Cursor, revision: Revision): void {
    const { group } = cursor
    group.releaseInitial(cursor.initial!)
    cursor.initial = null
    cursor.revision = revision
    cursor.state = 'starting'
    cursor.options.onInitialComplete()
    if (cursor.initialMark) this.#write(cursor, group.bookmark(revision, true))
    else if (group.wire.mark !== null) this.#write(cursor, group.mark(revision))
    // A state read from the source itself may be ahead of the cache: what it holds already must not be told again.
    if (!hasEnded(cursor)) this.#follow(cursor)
  }

  #advanceLagging(cursor: Cursor): boolean {
    const cache = this.#cache
    let bytes = 0
    // It is at the head, whatever it was written last.
    if (cursor.group.parked.has(cursor)) cursor.revision = cache.revision
    for (let batches = 0; batches < TURN_BATCHES && bytes < TURN_BYTES; batches++) {
      if (cursor.revision < cache.floorRevision) {
        this.#expire(cursor)
        return false
      }
      if (this.#tryJoin(cursor)) {
        this.advanceActive(cursor)
        return false
      }
      const batch = cache.batchAfter(cursor.revision)
      if (batch === undefined) {
        // At the head and not joined: it waits for its first event.
        cursor.group.parked.add(cursor)
        if (cursor.isBookmarkDue) this.#writeBookmark(cursor)
        return false
      }
      const replay = this.#replayOf(cursor, batch)
      cursor.revision = batch.revision
      if (replay.events === 0) continue
      cursor.needsFirst = false
      bytes += replay.bytes.length
      this.#count(replay.events, replay.bytes.length)
      if (!this.#write(cursor, replay)) return false
    }
    return true
  }

  #replayOf(cursor: Cursor, batch: CacheBatch): Replay {
    const { group } = cursor
    if (cursor.needsFirst) return group.replay(batch, true)
    const key = `${group.key}\n${batch.revision}`
    let replay = this.#replays.get(key)
    if (replay === undefined) {
      replay = group.replay(batch, false)
      this.#replays.set(key, replay)
    }
    return replay
  }

  #unpark(cursor: Cursor, next: CacheBatch): void {
    cursor.group.parked.delete(cursor)
    cursor.revision = (next.revision - 1) as Revision
    this.wake(cursor)
  }

  /** An event that its encoding cannot say ends the streams that wait for it: a hole would be worse. */
  #unwritable(error: unknown): StatusError {
    const status = StatusError.from(error)
    if (status.code === 500) this.#options.onInternalError(status)
    return status
  }

  /** @returns whether more can be written: the socket may be full, or have closed over it. */
  #write(cursor: Cursor, { bytes, checksum }: WriteUnit): boolean {
    if (!cursor.sink.write(bytes, checksum)) cursor.isBlocked = true
    return !cursor.isBlocked && !hasEnded(cursor)
  }

  #activateWaiting(revision: Revision): void {
    for (const cursor of this.#waiting) {
      if (cursor.revision > revision) continue
      this.#waiting.delete(cursor)
      this.#follow(cursor)
    }
  }

  #leave(cursor: Cursor): void {
    if (cursor.slot !== -1) cursor.group.removeActive(cursor)
  }

  // Bookmarks and ends

  #due(cursor: Cursor, nowMs: number): void {
    const { deadlineMs, bookmarks } = cursor.options
    if (nowMs >= deadlineMs) return this.#endAtDeadline(cursor)
    if (bookmarks) {
      const isFinal = nowMs >= deadlineMs - FINAL_BOOKMARK_MS
      if (nowMs >= cursor.nextBookmarkMs || (isFinal && !cursor.hasFinalBookmark)) {
        cursor.hasFinalBookmark ||= isFinal
        cursor.isBookmarkDue = true
        if (this.#isAtHead(cursor) && !cursor.isBlocked) this.#writeBookmark(cursor)
        cursor.nextBookmarkMs = Number.POSITIVE_INFINITY
        return this.#scheduleNext(cursor, nowMs)
      }
    }
    if (cursor.group.wire.mark !== null && this.#isAtHead(cursor) && !cursor.isBlocked) this.#writeMark(cursor)
    this.#scheduleNext(cursor, nowMs)
  }

  #scheduleNext(cursor: Cursor, nowMs: number): void {
    const { deadlineMs, bookmarks } = cursor.options
    const { mark } = cursor.group.wire
    let dueMs = mark === null ? deadlineMs : Math.min(deadlineMs, nowMs + mark.everyMs)
    if (bookmarks) {
      if (cursor.nextBookmarkMs === Number.POSITIVE_INFINITY) {
        const interval = this.#options.bookmarkIntervalMs
        cursor.nextBookmarkMs = nowMs + interval - randomInteger(this.#options.random, 0, Math.floor(interval / 10))
      }
      dueMs = Math.min(dueMs, cursor.nextBookmarkMs)
      if (!cursor.hasFinalBookmark) dueMs = Math.min(dueMs, Math.max(nowMs, deadlineMs - FINAL_BOOKMARK_MS))
    }
    this.#schedule.add(cursor, dueMs)
  }

  /** Nothing that concerns it is still to be written: a bookmark now promises what is true. */
  #isAtHead(cursor: Cursor): boolean {
    if (cursor.state === 'active') return cursor.offset === cursor.group.log.endOffset
    return cursor.state === 'lagging' && cursor.group.parked.has(cursor)
  }

  #writeBookmark(cursor: Cursor): void {
    cursor.isBookmarkDue = false
    const { revision } = this.#cache
    cursor.revision = revision
    this.#write(cursor, cursor.group.bookmark(revision, false))
  }

  #writeMark(cursor: Cursor): void {
    const { revision } = this.#cache
    cursor.revision = revision
    this.#write(cursor, cursor.group.mark(revision))
  }

  #endAtDeadline(cursor: Cursor): void {
    if (cursor.state === 'initial') {
      const error = new ServiceUnavailableError('the watch timed out before its initial state was complete', {
        details: { retryAfterSeconds: 1 },
      })
      return this.#endWithError(cursor, error, 'timeout')
    }
    this.#endCleanly(cursor, 'timeout')
  }

  #endCleanly(cursor: Cursor, reason: EndReason): void {
    if (cursor.lastError !== null) return this.#endWithError(cursor, cursor.lastError.error, cursor.lastError.reason)
    let last: WriteUnit | null = null
    if (this.#isAtHead(cursor) && !cursor.isBlocked) {
      const { group } = cursor
      if (reason === 'drain' && cursor.options.bookmarks) last = group.bookmark(this.#cache.revision, false)
      else if (group.wire.mark !== null) last = group.mark(this.#cache.revision)
    }
    this.finish(cursor, reason)
    cursor.sink.end(last?.bytes ?? null, null, last?.checksum ?? null)
  }

  #endWithError(cursor: Cursor, error: StatusError, reason: EndReason): void {
    const status: Status = error.toStatus()
    const { bytes, checksum } = cursor.group.error(status)
    this.finish(cursor, reason)
    cursor.sink.end(bytes, status, checksum)
  }

  #remove(cursor: Cursor): void {
    if (cursor.state === 'initial') this.#endWithError(cursor, noLongerServed(), 'removed')
    else this.#endCleanly(cursor, 'removed')
  }

  #expire(cursor: Cursor): void {
    this.#endWithError(cursor, this.#expired(cursor), 'expired')
  }

  #expired(cursor: Cursor): ExpiredError {
    const oldest = (this.#cache.floorRevision + 1) as Revision
    return ExpiredError.tooOld(cursor.revision, oldest)
  }

  /**
   * For thousands at one time: from now on it is written nothing that it would have been, and in a turn of the pump the
   * error. What it held of a state or a log goes at once, so that nobody who comes later is given any of it.
   */
  #endSoon(cursor: Cursor, error: StatusError, reason: EndReason): void {
    // The first error is the cause.
    if (cursor.state === 'ending') return
    const { group } = cursor
    this.#leave(cursor)
    this.#waiting.delete(cursor)
    group.parked.delete(cursor)
    if (cursor.initial !== null) group.releaseInitial(cursor.initial)
    cursor.initial = null
    cursor.state = 'ending'
    cursor.lastError = { error, reason }
    this.wake(cursor)
  }

  #checkStuck(): void {
    const nowMs = this.#options.clock.monotonic()
    const floor = this.#cache.floorRevision
    this.#cache.evictByAge()
    for (const { isDirty, active, log } of this.#groups.values()) {
      // Kept for blocked cursors, which have come to the head since, outside of a pass.
      if (!isDirty && active.every((cursor) => cursor.offset >= log.endOffset)) log.release(this.#cache.revision)
    }
    for (const cursor of this.#cursors) {
      // An initial state holds one of few places: who takes none of it for so long gives the place back.
      const isHolding = cursor.state === 'initial'
      if (!cursor.isBlocked || (!isHolding && this.#positionOf(cursor) >= floor)) {
        cursor.stuckSinceMs = 0
        continue
      }
      if (cursor.stuckSinceMs === 0) cursor.stuckSinceMs = nowMs
      else if (nowMs - cursor.stuckSinceMs >= STUCK_LIMIT_MS) {
        this.finish(cursor, 'stuck')
        cursor.sink.destroy()
      }
    }
  }

  /** The revision up to which it has been written to. */
  #positionOf(cursor: Cursor): Revision {
    const { group } = cursor
    if (cursor.state === 'active') return group.log.revisionAt(cursor.offset, this.#cache.revision)
    return group.parked.has(cursor) ? this.#cache.revision : cursor.revision
  }

  // Groups

  #groupFor({ namespace, selector, encoder, wire }: WatchRequest): Group {
    const key = groupKey(matcherKey(namespace, selector, encoder.apiVersion), encoder, wire)
    const existing = this.#groups.get(key)
    if (existing !== undefined) return existing
    const matcher = this.#matcherFor(namespace, selector, encoder.apiVersion)
    // A short key of its own: frames are cached under it, and no later group with the same long key may find them.
    const group = new Group(
      String(++this.#groupSequence),
      this,
      matcher,
      encoder,
      wire,
      this.#cache.revision,
      this.#logUsage,
    )
    matcher.groups.add(group)
    this.#groups.set(key, group)
    return group
  }

  #matcherFor(namespace: string, selector: WatchSelector, apiVersion: string): GroupMatcher {
    const key = matcherKey(namespace, selector, apiVersion)
    let matcher = this.#matchers.get(key)
    if (matcher === undefined) {
      matcher = new GroupMatcher(namespace, selector, this.facts, apiVersion)
      this.#matchers.set(key, matcher)
      this.#index.add(matcher)
    }
    return matcher
  }

  #removeGroup(group: Group): void {
    const matcher = group.matcher as GroupMatcher
    this.#groups.delete(groupKey(matcher.key, group.encoder, group.wire))
    group.log.reset(this.#cache.revision)
    matcher.groups.delete(group)
    if (matcher.groups.size > 0) return
    this.#matchers.delete(matcher.key)
    this.#index.remove(matcher)
    matcher.close()
  }

  #prefixOf(namespace: string): Key {
    const { prefix } = this.#cache
    return namespace === '' ? prefix : ((prefix + keyFromText(`${namespace}/`)) as Key)
  }
}

/** Asked anew after anything that may have ended it. */
function hasEnded(cursor: Cursor): boolean {
  return cursor.state === 'ended'
}

function noLongerServed(): ServiceUnavailableError {
  return new ServiceUnavailableError('the resource is no longer served here', { details: { retryAfterSeconds: 1 } })
}

function maxRevision(a: Revision, b: Revision): Revision {
  return a > b ? a : b
}

function groupKey(matcher: string, encoder: BodyEncoder, wire: Wire): string {
  return `${matcher}\n${encoder.key}\n${wire.key}`
}
