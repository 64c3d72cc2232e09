/**
 * The cache of one resource: the latest objects (store) and the recent history (ring), with one revision for both. A
 * feed writes to the cache as its `FeedSink`, the dispatcher listens to it, and lists and watches read from it
 * (`reads.ts`).
 *
 * `revision` is the position up to which every event has arrived. Only the source advances it: with a batch, a progress
 * mark, or a whole state.
 */
import { type Batch, type Key, type KeyValue, keyToText } from '../model/event.js'
import type { FeedSink, Replacement, ReplaceReason } from '../model/feed-sink.js'
import type { FreshnessSource } from '../model/freshness-source.js'
import type { CheckedCache, CheckedKey } from '../model/checked-cache.js'
import { nextRevision, type Revision, ZERO_REVISION } from '../model/revision.js'
import type { CacheMetrics } from '../model/stage-metrics.js'
import {
  ExpiredError,
  NotImplementedError,
  type StatusError,
  StorageReadError,
  TooManyRequestsError,
} from '../model/status.js'
import { type Ingest, type StoredObject, isUnservable } from '../model/stored-object.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { CacheBatch, CacheEvent } from './cache-batch.js'
import { differenceBatches } from './difference.js'
import { Gaps } from './gaps.js'
import { HeldObjects, Ingester } from './held-objects.js'
import { CacheReads, newHistory } from './reads.js'
import { digestOf, Positions } from './positions.js'
import { RingBuffer, type RingBounds } from './ring-buffer.js'
import { turns } from '../../support/turns.js'
import { SourceAge } from './source-age.js'
import type { Snapshot } from './store.js'
import { Waiters } from './waiters.js'

/** Called synchronously, in order of revision. */
export interface CacheListener {
  /** The batch is in the ring, and the cache's `revision` is the batch's. */
  onBatch(batch: CacheBatch): void
  /** Everything up to `revision` has been delivered. Called after each series of batches, and on progress. */
  onAdvance(revision: Revision): void
  /** History before `revision` is gone, so watchers below it cannot continue. */
  onReset(revision: Revision, isOtherHistory: boolean): void
  /** The state is current for the first time. Before that, it may be a past state from which the source catches up. */
  onReady?(): void
  /** Called when a value cannot be read. The cache reports no events until a reset. */
  onUnreadable?(error: StatusError): void
}

export type Readiness =
  | { readonly kind: 'pending' }
  | { readonly kind: 'ready' }
  /** The source cannot be listed; clients get the reason. */
  | { readonly kind: 'refused'; readonly reason: string }

export interface WatchCacheOptions {
  readonly name: string
  /** Ends in '/'. */
  readonly prefix: Key
  readonly ingest: Ingest
  /** As in `DifferenceOptions`. */
  readonly uidOf?: (object: StoredObject) => string
  /** Called when a read needs the source, because the source may be opened after the cache that it feeds. */
  readonly freshness: () => FreshnessSource
  readonly ring: RingBounds
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: CacheMetrics
}

/** Minimum time between two log lines about a resource whose history is too short for its write rate. */
const CUT_LOG_GAP_MS = 3_600_000

/**
 * How long a read waits for a revision, or for the first state. The API server waits equally long, and some clients
 * give up after five seconds.
 */
const WAIT_LIMIT_MS = 3_000

/**
 * Retry-After grows by a second for each such period without a first state. A client whose read has waited here may
 * retry soon, because it will wait again. For a client whose read could not wait, each Retry-After is about twice the
 * one before.
 */
const MS_PER_RETRY_SECOND = { waited: 8_000, refused: 1_000 }

const LOADED = nextRevision(ZERO_REVISION)

export class WatchCache extends CacheReads implements FeedSink, CheckedCache {
  readonly name: string
  readonly prefix: Key
  protected readonly ingester: Ingester
  protected readonly waiters: Waiters
  protected held: HeldObjects
  /**
   * Reads that wait for the first state. Their position is 0 until the state is complete, or until it is known why it
   * cannot be.
   */
  readonly #loads: Waiters
  readonly #options: WatchCacheOptions
  readonly #ring: RingBuffer<CacheBatch>
  readonly #gaps = new Gaps()
  readonly #age: SourceAge
  #snapshot: Snapshot | null = null
  #cutLoggedAtMs = Number.NEGATIVE_INFINITY
  #revision: Revision = ZERO_REVISION
  #history = newHistory()
  #positions: Positions
  /** The revision of the last `reread`; null if there was none. */
  #rereadAt: Revision | null = null
  #readiness: Readiness = { kind: 'pending' }
  #isAwaited = false
  readonly #pendingSinceMs: number
  readonly #listeners = new Set<CacheListener>()

  constructor(options: WatchCacheOptions) {
    super()
    const { name, clock, logger, metrics, freshness } = options
    this.#options = options
    this.name = name
    this.prefix = options.prefix
    this.ingester = new Ingester(options.ingest, name, logger)
    this.held = new HeldObjects(this.ingester)
    const waits = { freshness, clock, metrics, limitMs: WAIT_LIMIT_MS }
    this.waiters = new Waiters({ ...waits, position: () => this.#revision })
    this.#loads = new Waiters({ ...waits, position: () => (this.isLoading ? ZERO_REVISION : LOADED) })
    this.#age = new SourceAge(clock)
    this.#ring = new RingBuffer(options.ring, ZERO_REVISION)
    this.#positions = new Positions(this)
    this.#pendingSinceMs = clock.monotonic()
  }

  protected get source(): FreshnessSource {
    return this.#options.freshness()
  }

  /** Adds a listener. @returns a function that removes it. */
  listen(listener: CacheListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  get revision(): Revision {
    return this.#revision
  }

  /** A watch can resume after any revision at or above this. */
  get floorRevision(): Revision {
    return this.#ring.floorRevision
  }

  /**
   * The name of the history. The same revision means a different state in a different history. The name is random, so
   * that names derived from it, such as the ETag of a list, never refer to another process's state.
   */
  get history(): string {
    return this.#history
  }

  get readiness(): Readiness {
    const reason = this.#readiness.kind === 'ready' ? this.held.withheldReason : null
    if (reason !== null) return { kind: 'refused', reason }
    return this.#readiness
  }

  get isAwaited(): boolean {
    return this.#isAwaited
  }

  /** Whether the first state is still being loaded. */
  get isLoading(): boolean {
    return this.#readiness.kind === 'pending' && this.disconnectedReason === null
  }

  /**
   * Waits until the first state is complete, or until it is known why it cannot be.
   * @throws TooManyRequestsError after the limit.
   */
  async load(signal: AbortSignal): Promise<void> {
    this.#isAwaited = true
    const isOver = await this.#loads.wait(LOADED, { signal, requestsProgress: false })
    if (!isOver) throw this.#whileLoading(MS_PER_RETRY_SECOND.waited)
  }

  get size(): number {
    return this.held.store.size
  }

  /** Whether there are objects, and all of them are stored as protobuf. */
  get isAllProtobuf(): boolean {
    let count = 0
    for (const objects of this.held.store.protobufKinds.values()) count += objects
    return count > 0 && count === this.size
  }

  /** The kinds of objects stored as protobuf: `apiVersion kind`, each once. */
  get protobufKinds(): Iterable<string> {
    return this.held.store.protobufKinds.keys()
  }

  /** Whether the progress that the source reports can be trusted. */
  get trustsProgress(): boolean {
    return this.source.trustsProgress
  }

  /**
   * Asks the source for its progress, unless its progress reports cannot be trusted. The response arrives as
   * `progress`, or not at all.
   */
  requestProgress(): void {
    if (this.trustsProgress && this.#readiness.kind === 'ready') this.source.requestProgress()
  }

  /** The number of values encrypted at rest that cannot be decrypted, by the name of their encryption key. */
  get encrypted(): ReadonlyMap<string, number> {
    return this.held.encrypted
  }

  /** Stored values that none of this server's encryption keys can decrypt. */
  get sealedValues(): readonly KeyValue[] {
    return this.held.sealedValues
  }

  get unservableCount(): number {
    return this.held.unservable.size
  }

  get ringStats(): { readonly batches: number; readonly bytes: number; readonly oldestMs: number | null } {
    const oldest = this.#ring.at(0)
    return {
      batches: this.#ring.length,
      bytes: this.#ring.bytes,
      oldestMs: oldest === undefined ? null : oldest.receivedAtMs,
    }
  }

  get waiting(): number {
    return this.waiters.size
  }

  /** Why the source is disconnected; null while it is connected. */
  get disconnectedReason(): string | null {
    return this.#age.disconnectedReason
  }

  /**
   * Milliseconds since the source last confirmed the position; 0 while it is connected and its last confirmation is
   * valid.
   */
  get stalenessMs(): number {
    return this.#age.ageMs
  }

  /**
   * The age as reported to the next server of a chain, and the time for which a confirmation is valid: `Infinity` until
   * the source has reported a time.
   */
  get reportedAge(): { readonly ageMs: number; readonly validMs: number } {
    return this.#age.reported
  }

  /**
   * @param isWhole false for a list or a get: `assertListOpen` or `assertOpen` then checks the part that it reads.
   * @throws TooManyRequestsError before the first state, and while a value is sealed; NotImplementedError when the
   * resource cannot be listed or some value cannot be read.
   */
  assertReadable(isWhole = true): void {
    const { readiness } = this
    if (readiness.kind === 'ready') return
    const isReadable = this.#readiness.kind === 'ready' && this.held.unreadableReason === null
    if (isReadable && !isWhole) return
    if (isReadable) throw this.#whileSealed()
    if (readiness.kind === 'refused')
      throw new NotImplementedError(`${this.name} cannot be served: ${readiness.reason}`)
    this.#isAwaited = true
    throw this.#whileLoading(MS_PER_RETRY_SECOND.refused)
  }

  #whileLoading(msPerRetrySecond: number): TooManyRequestsError {
    const retryAfter = (this.#options.clock.monotonic() - this.#pendingSinceMs) / msPerRetrySecond
    const { disconnectedReason } = this
    const why = disconnectedReason === null ? '' : `: ${disconnectedReason}`
    const message = `${this.name}: storage is (re)initializing${why}`
    return new TooManyRequestsError(message, Math.max(1, Math.min(30, Math.round(retryAfter))))
  }

  #whileSealed(): TooManyRequestsError {
    const { message } = StorageReadError.ofList(this.name, this.snapshot().sealed)
    return new TooManyRequestsError(`storage is (re)initializing: failed to list <unspecified>: ${message}`, 1)
  }

  /**
   * Takes values that can be decrypted by now. Values that have been written or deleted in the meantime are left out.
   */
  reveal(keyValues: readonly KeyValue[]): void {
    const sealed = new Map(this.sealedValues.map(({ key, modRevision }) => [key, modRevision]))
    const current = keyValues.filter(({ key, modRevision }) => sealed.get(key) === modRevision)
    if (current.length === 0) return
    for (const keyValue of current) this.held.put(keyValue)
    this.#reset(this.#revision, false)
    this.#reportReadable()
    this.#advanced()
  }

  // FeedSink

  countKeys(): number {
    return this.size + this.unservableCount
  }

  replace(revision: Revision, reason: ReplaceReason): Replacement {
    let state = new HeldObjects(this.ingester)
    return {
      add: (keyValues) => {
        for (const keyValue of keyValues) state.list(keyValue)
      },
      commit: () => {
        state.listed()
        this.#commit(state, revision, reason)
      },
      abort: () => {
        state = new HeldObjects(this.ingester)
      },
    }
  }

  #commit(state: HeldObjects, revision: Revision, reason: ReplaceReason): void {
    let isOtherHistory = reason === 'history-changed'
    if (reason === 'coalesce' && this.#revision !== ZERO_REVISION) {
      const contradicting = state.contradictingKey(this.held, this.#revision, this.prefix)
      const isReadable = state.withheldReason === null && this.held.withheldReason === null
      if (contradicting === null && revision >= this.#revision && isReadable) return this.#coalesce(state, revision)
      isOtherHistory = contradicting !== null || revision < this.#revision
      const fields = { resource: this.name, revision, key: contradicting === null ? null : keyToText(contradicting) }
      if (isOtherHistory) {
        this.#options.logger.error(fields, 'history changed: a delivered object differs from the one in etcd')
      }
    }
    const isNewlyWithheld = this.held.withheldReason === null && state.withheldReason !== null
    this.held = state
    if (isNewlyWithheld) this.#reportWithheld()
    this.#gaps.clear()
    if (isOtherHistory) this.#history = newHistory()
    this.#reset(revision, isOtherHistory)
    this.#advanced()
  }

  apply(batches: readonly Batch[]): void {
    const receivedAtMs = this.#options.clock.monotonic()
    let events = 0
    for (const batch of batches) {
      // The feed already drops batches that are not above its position. This check protects the ring's order whatever
      // the source does.
      if (batch.revision <= this.#revision) continue
      events += batch.events.length
      const wasWhole = this.held.withheldReason === null
      const ingested = this.#ingestBatch(batch, receivedAtMs)
      if (wasWhole && this.held.withheldReason === null) this.#append(ingested)
      else this.#appendUnread(ingested, wasWhole)
    }
    this.#connected()
    this.#advanced()
    const { clock, metrics } = this.#options
    metrics.entered(events)
    metrics.delay((clock.monotonic() - receivedAtMs) / 1000)
  }

  progress(revision: Revision): void {
    this.#connected()
    if (revision <= this.#revision) return
    this.#revision = revision
    this.#snapshot = null
    this.#advanced()
  }

  synced(): void {
    if (this.#readiness.kind !== 'ready') {
      const fields = { resource: this.name, revision: this.#revision, objects: this.size }
      if (this.#readiness.kind === 'refused') this.#options.logger.info(fields, 'resource can be listed now')
      else this.#options.logger.debug(fields, 'resource is ready')
      this.#readiness = { kind: 'ready' }
      this.#loads.reached(LOADED)
      for (const listener of this.#listeners) listener.onReady?.()
    }
    this.#connected()
  }

  disconnected(reason: string): void {
    if (!this.#age.disconnected(reason)) return
    if (!this.isLoading) this.#loads.reached(LOADED)
    this.#options.logger.debug({ resource: this.name, reason }, 'source is unavailable; serving from the cache')
  }

  confirmed(ageMs: number, validMs: number): void {
    this.#age.confirmed(ageMs, validMs)
  }

  refused(reason: string): void {
    if (this.#readiness.kind === 'ready') return this.disconnected(reason)
    if (this.#readiness.kind !== 'refused' || this.#readiness.reason !== reason) {
      this.#options.logger.error({ resource: this.name, reason }, 'resource cannot be listed')
    }
    this.#readiness = { kind: 'refused', reason }
    this.#loads.reached(LOADED)
  }

  // For readers; the rest is in `reads.ts`

  /** The state at `revision`; the same object until something changes. */
  snapshot(): Snapshot {
    this.#snapshot ??= this.held.snapshot(this.#revision, this.#history)
    return this.#snapshot
  }

  /**
   * The same objects are presented differently from now on. Watches cannot resume from an earlier revision, because
   * their clients hold objects in the old form and must list again.
   */
  reread(): void {
    this.#history = newHistory()
    this.#snapshot = null
    this.#rereadAt = this.#readiness.kind === 'pending' ? null : this.#revision
  }

  /** @throws ExpiredError when events after `afterRevision` are gone. */
  assertResumable(afterRevision: Revision): void {
    const oldest = this.#oldestInstead(afterRevision)
    if (oldest !== null) throw ExpiredError.tooOld(afterRevision, oldest)
  }

  /** Whether a watch can begin after the revision. */
  isResumable(afterRevision: Revision): boolean {
    return this.#oldestInstead(afterRevision) === null
  }

  /** Returns the oldest revision to resume from, or null if the given one is resumable. */
  #oldestInstead(afterRevision: Revision): Revision | null {
    if (this.#rereadAt !== null && afterRevision <= this.#rereadAt) return nextRevision(this.#rereadAt)
    const floor = this.#ring.floorRevision
    if (afterRevision < floor) return nextRevision(floor)
    const gap = this.#gaps.around(afterRevision)
    return gap === undefined ? null : nextRevision(gap.until)
  }

  /** Whether every event after `revision` is in the ring or still to come. */
  canResumeAfter(revision: Revision): boolean {
    return revision >= this.#ring.floorRevision && this.#gaps.around(revision) === undefined
  }

  /**
   * Returns the first batch after `afterRevision`; undefined if there is none. Check `floorRevision` first. O(log n).
   */
  batchAfter(afterRevision: Revision): CacheBatch | undefined {
    return this.#ring.at(this.#ring.indexAfter(afterRevision))
  }

  /** Returns the last batch at or before `revision`; undefined if the ring has none. O(log n). */
  batchUpTo(revision: Revision): CacheBatch | undefined {
    return this.#ring.at(this.#ring.indexAfter(revision) - 1)
  }

  /**
   * Returns the digest of the state at a revision not above this cache's. Every cache that held the same objects at
   * that revision returns the same digest.
   * @throws ExpiredError when no watch can begin after the revision.
   */
  async digestAt(revision: Revision): Promise<string> {
    // Repeat if a reset has replaced `#positions` in the meantime, or if batches have arrived that one round did not
    // add up.
    while (this.isResumable(revision)) {
      const digest = await this.#positions.digestAt(revision)
      if (digest !== null) return digest
    }
    throw ExpiredError.tooOld(revision, this.#oldestInstead(revision) ?? revision)
  }

  /**
   * Returns the digest of a snapshot read through this cache, which may be ahead of the cache; null when no watch can
   * begin after its revision.
   */
  async digestOf(snapshot: Snapshot): Promise<string | null> {
    const { revision, history } = snapshot
    if (revision > this.#revision || history !== this.#history) return await digestOf(snapshot)
    return this.isResumable(revision) ? await this.digestAt(revision) : null
  }

  /** Changes the limits of the history and evicts batches that exceed them at once. */
  setRingBounds(bounds: RingBounds): void {
    const cutBefore = this.#ring.cutShort
    this.#ring.setBounds(bounds, this.#options.clock.monotonic())
    this.#noteCuts(cutBefore)
  }

  /** Frees memory by evicting history, never the latest objects. */
  shrinkRing(maxBytes: number): void {
    this.#ring.shrinkTo(maxBytes)
  }

  /** Evicts history by age. A slow timer calls this, because a quiet resource appends nothing and so evicts nothing. */
  evictByAge(): void {
    this.#ring.evictOlderThan(this.#options.clock.monotonic() - this.#ring.bounds.maxAgeMs)
  }

  // CheckedCache

  /**
   * Returns all keys at the cache's own revision, sorted, including those whose values cannot be served; null for any
   * other revision.
   */
  stateAt(revision: Revision): Iterable<CheckedKey> | null {
    if (revision !== this.#revision || revision === ZERO_REVISION) return null
    const unservable = [...this.held.unservable]
      .map(([key, modRevision]) => ({ key, modRevision }))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
    return merged(this.snapshot().objects(this.prefix), unservable)
  }

  /** Returns the bytes that the cache would hold for a value; null if the value cannot be served. */
  comparable(keyValue: KeyValue): Buffer | null {
    const object = this.ingester.ingest(keyValue)
    return isUnservable(object) ? null : object.bytes
  }

  #ingestBatch(batch: Batch, receivedAtMs: number): CacheBatch {
    const { held } = this
    const events: CacheEvent[] = []
    for (const event of batch.events) {
      const key = event.type === 'put' ? event.keyValue.key : event.key
      const previous = held.store.get(key) ?? null
      if (event.type === 'put') {
        const object = held.put(event.keyValue)
        if (object !== null || previous !== null) events.push(new CacheEvent(batch.revision, object, previous))
      } else {
        held.delete(key)
        if (previous !== null) events.push(new CacheEvent(batch.revision, null, previous))
      }
    }
    // `push` gives an array room for seventeen events, but most batches have one, so keep a copy of the exact size.
    return new CacheBatch(batch.revision, events.slice(), receivedAtMs)
  }

  /**
   * While a value cannot be read, no events are sent. A DELETED event would be wrong, because an object that can no
   * longer be read still exists. When all values can be read again, no watch can resume from a revision in between.
   */
  #appendUnread(batch: CacheBatch, wasWhole: boolean): void {
    if (wasWhole) this.#reportWithheld()
    this.#reset(batch.revision, false)
    this.#reportReadable()
  }

  #reportReadable(): void {
    if (this.held.withheldReason !== null) return
    this.#options.logger.info({ resource: this.name }, 'resource can be read again')
  }

  /** Restarts history after `revision`. */
  #reset(revision: Revision, isOtherHistory: boolean): void {
    this.#snapshot = null
    this.forgetKept()
    this.#revision = revision
    this.#ring.reset(revision)
    this.#positions.close()
    this.#positions = new Positions(this)
    for (const listener of this.#listeners) listener.onReset(revision, isOtherHistory)
  }

  /** Logs that the byte limit has evicted batches before their minimum time. */
  #noteCuts(cutBefore: number): void {
    const batches = this.#ring.cutShort - cutBefore
    if (batches === 0) return
    const { clock, logger, metrics } = this.#options
    metrics.historyCut(batches)
    if (clock.monotonic() - this.#cutLoggedAtMs < CUT_LOG_GAP_MS) return
    this.#cutLoggedAtMs = clock.monotonic()
    const oldest = this.#ring.at(0)
    const keptSeconds = oldest === undefined ? 0 : Math.round((clock.monotonic() - oldest.receivedAtMs) / 1000)
    logger.warn(
      { resource: this.name, keptSeconds, bytes: this.#ring.bounds.maxBytes },
      'history is shorter than a reconnect may take; raise --watch-cache-bytes',
    )
  }

  #reportWithheld(): void {
    const { withheldReason, encryptedCount: values } = this.held
    this.#options.logger.error(
      { resource: this.name, ...(values > 0 ? { values } : {}) },
      `resource cannot be served: ${withheldReason}`,
    )
    const { sealed } = this.held.snapshot(this.#revision)
    const error =
      sealed.size > 0
        ? StorageReadError.ofList(this.name, sealed)
        : new NotImplementedError(`${this.name} cannot be served: ${withheldReason}`)
    for (const listener of this.#listeners) listener.onUnreadable?.(error)
  }

  #append(batch: CacheBatch): void {
    this.#snapshot = null
    const cutBefore = this.#ring.cutShort
    this.#ring.append(batch)
    this.#noteCuts(cutBefore)
    this.#revision = batch.revision
    for (const listener of this.#listeners) listener.onBatch(batch)
  }

  #coalesce(state: HeldObjects, revision: Revision): void {
    const after = this.#revision
    const { clock, uidOf } = this.#options
    const receivedAtMs = clock.monotonic()
    const target = state.snapshot(revision)
    const batches = differenceBatches(this.snapshot(), target, { prefix: this.prefix, receivedAtMs, uidOf })
    this.held = state
    this.#gaps.add({ after, until: revision }, this.#ring.floorRevision)
    let events = 0
    for (const batch of batches) {
      events += batch.events.length
      this.#append(batch)
    }
    this.#options.metrics.coalesced(events)
    this.#revision = revision
    this.#snapshot = null
    this.#options.logger.warn({ resource: this.name, after, until: revision, batches: batches.length }, 'gap coalesced')
    this.#advanced()
  }

  protected async rebuild(revision: Revision): Promise<Snapshot | null> {
    const present = this.snapshot()
    const { unservableCount, history } = present
    const store = present.toStore()
    // `store` contains all batches up to this revision.
    let position = present.revision
    while (true) {
      if (turns.isOver) await turns.take()
      // In the meantime, the ring may have evicted a batch that is needed here, or the cache may have switched to
      // another history.
      if (this.#history !== history || !this.canResumeAfter(revision)) return null
      const batch = this.#ring.at(this.#ring.indexAfter(position) - 1)
      if (batch === undefined || batch.revision <= revision) return store.snapshot(revision, unservableCount, history)
      position = (batch.revision - 1) as Revision
      const { events } = batch
      for (let j = events.length - 1; j >= 0; j--) {
        const { object, previous } = events[j]!
        if (previous !== null) store.set(previous.key, previous)
        else if (object !== null) store.delete(object.key)
      }
    }
  }

  #connected(): void {
    if (!this.#age.connected()) return
    this.#options.logger.debug({ resource: this.name, revision: this.#revision }, 'source is back')
  }

  #advanced(): void {
    for (const listener of this.#listeners) listener.onAdvance(this.#revision)
    this.waiters.reached(this.#revision)
  }
}

/** Merges two lists that are sorted by key. */
function* merged(
  objects: Iterable<StoredObject>,
  others: readonly { readonly key: Key; readonly modRevision: Revision }[],
): Generator<CheckedKey, void, void> {
  let at = 0
  for (const { key, modRevision, bytes } of objects) {
    while (at < others.length && others[at]!.key < key) yield others[at++]!
    yield { key, modRevision, value: bytes }
  }
  while (at < others.length) yield others[at++]!
}
