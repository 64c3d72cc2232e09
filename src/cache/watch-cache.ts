/**
 * Everything this process knows of one resource, under one revision: the latest objects (store) and the recent past
 * (ring). A feed writes to it through `FeedSink`; the dispatcher listens; lists and watches read.
 *
 * `revision` is the position up to which every event has arrived. It moves only by what the source has said: a batch, a
 * progress mark, a whole state. A state read from elsewhere (a linearizable read with an etcd whose progress cannot be
 * trusted) answers one request and never moves it: put@5 and delete@6 leave a state that looks as it did before 5, and a
 * cache that took it for 6 would tell a bookmark before the events.
 */
import type { FreshnessSource, StateAtRevision } from '../model/freshness-source.js'
import type { WatchCacheMetrics } from '../model/stage-metrics.js'
import { LRUCache } from 'lru-cache'
import { type Batch, type Key, type KeyValue, keyToText } from '../model/event.js'
import { type Revision, ZERO_REVISION } from '../model/revision.js'
import {
  ExpiredError,
  NotImplementedError,
  TimeoutError,
  TooLargeResourceVersionError,
  TooManyRequestsError,
} from '../model/status.js'
import { type StoredObject, type Unservable, isUnservable } from '../model/stored-object.js'
import type { Clock } from '../support/clock.js'
import type { Logger } from '../support/log.js'
import { CacheBatch, CacheEvent } from './cache-batch.js'
import { differenceBatches } from './difference.js'
import { RingBuffer, type RingBounds } from '../support/ring-buffer.js'
import { type Snapshot, Store } from './store.js'

/** Told synchronously, in order of revision. */
export interface CacheListener {
  /** The batch is in the ring, and `revision` is its own. */
  onBatch(batch: CacheBatch): void
  /** Everything at or before `revision` has been told. Once after a run of batches, and on progress. */
  onAdvance(revision: Revision): void
  /** History before `revision` is gone: watchers that stand below it can go on nowhere. */
  onReset(revision: Revision, isOtherHistory: boolean): void
  /** What comes next cannot be read: nothing is told until a reset. */
  onUnreadable?(error: NotImplementedError): void
}

export type Readiness =
  | { readonly kind: 'pending' }
  | { readonly kind: 'ready' }
  /** The source cannot be listed: clients are told why. */
  | { readonly kind: 'refused'; readonly reason: string }

export interface WatchCacheOptions {
  readonly name: string
  /** Ends in '/'. */
  readonly prefix: Key
  readonly ingest: (keyValue: KeyValue) => StoredObject | Unservable
  /** Asked for once something is to be read: the source may be opened after the cache it fills. */
  readonly freshness: () => FreshnessSource
  readonly ring: RingBounds
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: WatchCacheMetrics
  /** How long a read waits for a revision, milliseconds. The API server waits 3 s. */
  readonly waitLimitMs?: number
  /** Of caches of one name that live at the same time, each has its own: what is kept by it is not shared. Default: 0. */
  readonly firstHistory?: number
}

const ENCRYPTED =
  "its values are encrypted at rest, and the key is the API server's (--encryption-provider-config there)"

/** A trusted etcd drops a progress request in silence while a watcher is behind: ask again. */
const PROGRESS_REPEAT_MS = 100
/** Pages of a list hold on to their snapshot; more than a few pagings of different revisions at once are rare. */
const KEPT_SNAPSHOTS = 16
const KEPT_SNAPSHOT_MS = 5 * 60_000
/** A key that cannot be served is logged once; the memory of that has a bound. */
const LOGGED_KEYS = 1_000

/** Beyond as many gaps in one ring the oldest two count as one: more is refused than must be, never less. */
const MAX_GAPS = 64

interface Gap {
  readonly after: Revision
  readonly until: Revision
}

interface Waiter {
  readonly revision: Revision
  readonly wake: () => void
}

export class WatchCache {
  readonly name: string
  readonly prefix: Key
  readonly #options: WatchCacheOptions
  readonly #ring: RingBuffer<CacheBatch>
  #store = new Store()
  #unservable = new Map<Key, Revision>()
  #snapshot: Snapshot | null = null
  readonly #kept = new LRUCache<Revision, Snapshot>({ max: KEPT_SNAPSHOTS, ttl: KEPT_SNAPSHOT_MS })
  /** Of those, what is encrypted at rest. */
  #encrypted = new Set<Key>()
  readonly #loggedKeys = new LRUCache<Key, true>({ max: LOGGED_KEYS })
  #revision: Revision = ZERO_REVISION
  #history: number
  /** Revisions strictly between these were never seen one by one: nobody can resume there. */
  #gaps: readonly Gap[] = []
  #readiness: Readiness = { kind: 'pending' }
  #pendingSinceMs: number
  #disconnected: { readonly reason: string; readonly sinceMs: number } | null = null
  #confirmedAtMs: number
  /** For how long a confirmation stands; for good where the source tells of its end. */
  #confirmedForMs = Number.POSITIVE_INFINITY
  readonly #waiters = new Set<Waiter>()
  readonly #states = new WeakMap<StateAtRevision, Snapshot>()
  #nudgedMs = Number.NEGATIVE_INFINITY
  #isNudgeDue = false
  readonly #listeners: CacheListener[] = []

  constructor(options: WatchCacheOptions) {
    this.#options = options
    this.name = options.name
    this.prefix = options.prefix
    this.#history = options.firstHistory ?? 0
    this.#ring = new RingBuffer(options.ring, ZERO_REVISION)
    this.#pendingSinceMs = options.clock.monotonic()
    this.#confirmedAtMs = options.clock.monotonic()
  }

  /** Before the first state arrives, and for good. */
  listen(listener: CacheListener): void {
    this.#listeners.push(listener)
  }

  get revision(): Revision {
    return this.#revision
  }

  /** A watch can resume after any revision at or above this. */
  get floorRevision(): Revision {
    return this.#ring.floorRevision
  }

  /** Another number after another history began: there, the same revision means another state. */
  get history(): number {
    return this.#history
  }

  get readiness(): Readiness {
    if (this.#encrypted.size > 0 && this.#readiness.kind === 'ready') return { kind: 'refused', reason: ENCRYPTED }
    return this.#readiness
  }

  get size(): number {
    return this.#store.size
  }

  /** Everything that is held is stored as protobuf, and something is. */
  get isAllProtobuf(): boolean {
    let count = 0
    for (const objects of this.#store.protobufKinds.values()) count += objects
    return count > 0 && count === this.#store.size
  }

  /** What is stored as protobuf: `apiVersion kind`, each once. */
  get protobufKinds(): Iterable<string> {
    return this.#store.protobufKinds.keys()
  }

  /** Whether the source's word on how far it is can be believed. */
  get trustsProgress(): boolean {
    return this.#options.freshness().trustsProgress
  }

  /** Values that are encrypted at rest: while there is one, nothing of the resource is served. */
  get encryptedCount(): number {
    return this.#encrypted.size
  }

  get unservableCount(): number {
    return this.#unservable.size
  }

  get ring(): { readonly batches: number; readonly bytes: number; readonly oldestMs: number | null } {
    const oldest = this.#ring.at(0)
    return {
      batches: this.#ring.length,
      bytes: this.#ring.bytes,
      oldestMs: oldest === undefined ? null : oldest.receivedAtMs,
    }
  }

  get waiting(): number {
    return this.#waiters.size
  }

  /** Why the source is away; null while it is there. */
  get disconnectedReason(): string | null {
    return this.#disconnected?.reason ?? null
  }

  /** Milliseconds since the source last confirmed the position; 0 while it is connected and says so. */
  get stalenessMs(): number {
    const ageMs = this.#options.clock.monotonic() - this.#confirmedAtMs
    if (this.#confirmedForMs !== Number.POSITIVE_INFINITY) return ageMs > this.#confirmedForMs ? ageMs : 0
    return this.#disconnected === null ? 0 : ageMs
  }

  /** @throws TooManyRequestsError before the first state; NotImplementedError when it can never be listed. */
  assertReadable(): void {
    const { readiness } = this
    if (readiness.kind === 'ready') return
    if (readiness.kind === 'refused')
      throw new NotImplementedError(`${this.name} cannot be served: ${readiness.reason}`)
    const waitedSeconds = (this.#options.clock.monotonic() - this.#pendingSinceMs) / 1000
    const retryAfter = Math.max(1, Math.min(30, Math.round(waitedSeconds)))
    const why = this.#disconnected === null ? '' : `: ${this.#disconnected.reason}`
    throw new TooManyRequestsError(`${this.name}: storage is (re)initializing${why}`, retryAfter)
  }

  // What the feed tells (FeedSink).

  replace(
    revision: Revision,
    reason: 'initial' | 'gap' | 'coalesce' | 'history-changed',
  ): { add(keyValues: readonly KeyValue[]): void; commit(): void; abort(): void } {
    let store = new Store()
    let unservable = new Map<Key, Revision>()
    let encrypted = new Set<Key>()
    const add = (keyValues: readonly KeyValue[]): void => {
      for (const keyValue of keyValues) this.#put(store, unservable, encrypted, keyValue)
    }
    const abort = (): void => {
      store = new Store()
      unservable = new Map()
      encrypted = new Set()
    }
    const commit = (): void => {
      let isOtherHistory = reason === 'history-changed'
      if (reason === 'coalesce' && this.#revision !== ZERO_REVISION) {
        const stranger = this.#strangerIn(store, unservable)
        const isReadable = encrypted.size === 0 && this.#encrypted.size === 0
        if (stranger === null && revision >= this.#revision && isReadable) {
          return this.#coalesce(store, unservable, revision)
        }
        isOtherHistory = stranger !== null || revision < this.#revision
        const fields = { resource: this.name, revision, key: stranger === null ? null : keyToText(stranger) }
        if (isOtherHistory) {
          this.#options.logger.error(fields, 'not the same history: what was before is not what it was')
        }
      }
      this.#store = store
      this.#unservable = unservable
      this.#turnEncrypted(encrypted)
      this.#snapshot = null
      this.#kept.clear()
      this.#gaps = []
      if (isOtherHistory) this.#history++
      this.#ring.reset(revision)
      this.#revision = revision
      for (const listener of this.#listeners) listener.onReset(revision, isOtherHistory)
      this.#advanced()
    }
    return { add, commit, abort }
  }

  apply(batches: readonly Batch[]): void {
    const receivedAtMs = this.#options.clock.monotonic()
    let events = 0
    for (const batch of batches) {
      // The feed drops what is not above its position; this guards the ring's order whatever the source.
      if (batch.revision <= this.#revision) continue
      events += batch.events.length
      const before = this.#encrypted.size
      const ingested = this.#ingestBatch(batch, receivedAtMs)
      if (before > 0 || this.#encrypted.size > 0) this.#appendUnread(ingested, before)
      else this.#append(ingested)
    }
    this.#connected()
    this.#advanced()
    this.#options.metrics.applied(events, (this.#options.clock.monotonic() - receivedAtMs) / 1000)
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
    }
    this.#connected()
  }

  disconnected(reason: string): void {
    if (this.#disconnected === null) {
      if (this.#confirmedForMs === Number.POSITIVE_INFINITY) this.#confirmedAtMs = this.#options.clock.monotonic()
      this.#options.logger.debug({ resource: this.name, reason }, 'source is away; the cache goes on serving')
    }
    this.#disconnected = { reason, sinceMs: this.#options.clock.monotonic() }
  }

  confirmed(ageMs: number, validMs: number): void {
    this.#confirmedAtMs = this.#options.clock.monotonic() - ageMs
    this.#confirmedForMs = validMs
  }

  refused(reason: string): void {
    if (this.#readiness.kind === 'ready') return this.disconnected(reason)
    if (this.#readiness.kind !== 'refused' || this.#readiness.reason !== reason) {
      this.#options.logger.error({ resource: this.name, reason }, 'resource cannot be listed')
    }
    this.#readiness = { kind: 'refused', reason }
  }

  // What readers ask.

  /** The state at `revision`; the same object until something changes. */
  snapshot(): Snapshot {
    this.#snapshot ??= this.#store.snapshot(this.#revision, this.#unservable.size)
    return this.#snapshot
  }

  /** Waits until everything at or before `revision` has arrived. @throws TooLargeResourceVersionError after the limit. */
  async waitUntil(revision: Revision, signal?: AbortSignal): Promise<void> {
    if (revision <= this.#revision) return
    // The revision may exist in etcd with nothing for this prefix in it: only a progress mark gets us there.
    const reached = await this.#wait(revision, signal, this.#nudge)
    if (!reached) throw new TooLargeResourceVersionError(revision, this.#revision)
  }

  /** As fresh as a linearizable read. @throws TimeoutError when the source does not answer in time. */
  async consistentSnapshot(signal?: AbortSignal): Promise<Snapshot> {
    const freshness = this.#options.freshness()
    if (!freshness.trustsProgress) return await this.#readState(null, signal)
    const revision = await this.#fromSource(freshness.currentRevision(signal))
    const reached = await this.#wait(revision, signal, this.#nudge)
    if (!reached) throw new TimeoutError(`Timeout: ${this.name} did not reach revision ${revision}`, RETRY_SOON)
    return this.snapshot()
  }

  /** One object, as fresh as a linearizable read. @throws TimeoutError when the source does not answer in time. */
  async consistentObject(key: Key, signal?: AbortSignal): Promise<StoredObject | undefined> {
    const { ingest } = this.#options
    const freshness = this.#options.freshness()
    if (freshness.trustsProgress) return (await this.consistentSnapshot(signal)).get(key)
    const keyValue = await this.#fromSource(freshness.readKey(key, signal))
    if (keyValue === null) return undefined
    const held = this.#store.get(key)
    if (held !== undefined && held.modRevision === keyValue.modRevision) return held
    const object = ingest(keyValue)
    return isUnservable(object) ? undefined : object
  }

  /**
   * A state not older than `revision`.
   * @throws TooLargeResourceVersionError when etcd itself is not there after the wait limit.
   */
  async snapshotNotOlderThan(revision: Revision, signal?: AbortSignal): Promise<Snapshot> {
    if (revision <= this.#revision) return this.snapshot()
    if (this.#options.freshness().trustsProgress) {
      await this.waitUntil(revision, signal)
      return this.snapshot()
    }
    // Without trusted progress a quiet prefix stays where it is; what etcd has now may well be new enough.
    const reached = await this.#wait(revision, signal, () => {}, UNTRUSTED_WAIT_MS)
    if (reached) return this.snapshot()
    const state = await this.#readState(null, signal).catch(() => null)
    if (state !== null && state.revision >= revision) return state
    // etcd was not there when it was read, and may be before the limit.
    await this.waitUntil(revision, signal)
    return this.snapshot()
  }

  /**
   * Exactly the state at `revision`: kept, rebuilt by walking the ring back, or read from etcd.
   * @throws ExpiredError when it is gone everywhere; TooLargeResourceVersionError when it is still to come.
   */
  async snapshotAt(revision: Revision, signal?: AbortSignal): Promise<Snapshot> {
    const freshness = this.#options.freshness()
    if (revision > this.#revision) {
      if (freshness.trustsProgress) await this.waitUntil(revision, signal)
      else if (!(await this.#wait(revision, signal, () => {}, UNTRUSTED_WAIT_MS))) {
        const current = await this.#fromSource(freshness.currentRevision(signal))
        if (current >= revision) return await this.#readState(revision, signal)
        await this.waitUntil(revision, signal)
      }
    }
    if (revision === this.#revision) return this.snapshot()
    const kept = this.#kept.get(revision)
    if (kept !== undefined) return kept
    const rebuilt = this.#rebuild(revision)
    if (rebuilt !== null) {
      this.#kept.set(revision, rebuilt)
      return rebuilt
    }
    const history = this.#history
    const read = await this.#readState(revision, signal)
    // Meanwhile the cache may have gone over to another history, whose pages are not to be filled up from this one.
    if (this.#history === history) this.#kept.set(revision, read)
    return read
  }

  /** Keeps a snapshot for the pages still to be asked for. */
  keep(snapshot: Snapshot): void {
    this.#kept.set(snapshot.revision, snapshot)
  }

  /** @throws ExpiredError when events after `afterRevision` are gone. */
  assertResumable(afterRevision: Revision): void {
    const floor = this.#ring.floorRevision
    if (afterRevision < floor) throw ExpiredError.tooOld(afterRevision, (floor + 1) as Revision)
    const gap = this.#gapAround(afterRevision)
    if (gap !== undefined) throw ExpiredError.tooOld(afterRevision, (gap.until + 1) as Revision)
  }

  /** Whether every event after it is held, or still to come. */
  canResumeAfter(revision: Revision): boolean {
    return revision >= this.#ring.floorRevision && this.#gapAround(revision) === undefined
  }

  /** The first batch after `afterRevision`, undefined when caught up. Ask `floorRevision` first. O(log n). */
  batchAfter(afterRevision: Revision): CacheBatch | undefined {
    return this.#ring.at(this.#ring.indexAfter(afterRevision))
  }

  /** Gives memory back: history only, never the latest objects. */
  shrinkRing(maxBytes: number): void {
    this.#ring.shrinkTo(maxBytes)
  }

  /** Evicts history by age; called from a slow timer, because a quiet resource appends nothing. */
  evictByAge(): void {
    this.#ring.evictOlderThan(this.#options.clock.monotonic() - this.#options.ring.maxAgeMs)
  }

  // What the audit asks (AuditedCache).

  /** Everything at the cache's own revision, what cannot be served included, sorted by key; null at any other. */
  stateAt(revision: Revision): Iterable<{ key: Key; modRevision: Revision; value?: Buffer }> | null {
    if (revision !== this.#revision || revision === ZERO_REVISION) return null
    const unservable = [...this.#unservable]
      .map(([key, modRevision]) => ({ key, modRevision }))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
    return merged(this.snapshot().objects(this.prefix), unservable)
  }

  /** The bytes it would hold of a value; null for one that cannot be served. */
  comparable(keyValue: KeyValue): Buffer | null {
    const object = this.#options.ingest(keyValue)
    return isUnservable(object) ? null : object.bytes
  }

  #ingestBatch(batch: Batch, receivedAtMs: number): CacheBatch {
    const events: CacheEvent[] = []
    for (const event of batch.events) {
      const key = event.type === 'put' ? event.keyValue.key : event.key
      const previous = this.#store.get(key) ?? null
      if (event.type === 'put') {
        const object = this.#put(this.#store, this.#unservable, this.#encrypted, event.keyValue)
        if (object !== null || previous !== null) events.push(new CacheEvent(batch.revision, object, previous))
      } else {
        this.#store.delete(key)
        this.#unservable.delete(key)
        this.#encrypted.delete(key)
        if (previous !== null) events.push(new CacheEvent(batch.revision, null, previous))
      }
    }
    return new CacheBatch(batch.revision, events, receivedAtMs)
  }

  /**
   * While something is encrypted nobody is told anything: an object that cannot be read any more is not gone, and a list
   * without it is no list. When all can be read again, what came meanwhile is no history to resume in.
   */
  #appendUnread(batch: CacheBatch, encryptedBefore: number): void {
    if (encryptedBefore === 0) this.#tellEncrypted()
    this.#snapshot = null
    this.#kept.clear()
    this.#revision = batch.revision
    this.#ring.reset(batch.revision)
    for (const listener of this.#listeners) listener.onReset(batch.revision, false)
    if (this.#encrypted.size === 0) this.#options.logger.info({ resource: this.name }, 'resource can be read again')
  }

  #turnEncrypted(encrypted: Set<Key>): void {
    const isNew = this.#encrypted.size === 0 && encrypted.size > 0
    this.#encrypted = encrypted
    if (isNew) this.#tellEncrypted()
  }

  #tellEncrypted(): void {
    this.#options.logger.error(
      { resource: this.name, values: this.#encrypted.size },
      `resource cannot be served: ${ENCRYPTED}`,
    )
    const error = new NotImplementedError(`${this.name} cannot be served: ${ENCRYPTED}`)
    for (const listener of this.#listeners) listener.onUnreadable?.(error)
  }

  #append(batch: CacheBatch): void {
    this.#snapshot = null
    this.#ring.append(batch)
    this.#revision = batch.revision
    for (const listener of this.#listeners) listener.onBatch(batch)
  }

  #put(store: Store, unservable: Map<Key, Revision>, encrypted: Set<Key>, keyValue: KeyValue): StoredObject | null {
    const object = this.#options.ingest(keyValue)
    if (!isUnservable(object)) {
      if (unservable.size > 0) unservable.delete(keyValue.key)
      if (encrypted.size > 0) encrypted.delete(keyValue.key)
      store.set(keyValue.key, object)
      return object
    }
    unservable.set(keyValue.key, keyValue.modRevision)
    store.delete(keyValue.key)
    if (object.isEncrypted === true) {
      encrypted.add(keyValue.key)
      return null
    }
    encrypted.delete(keyValue.key)
    if (!this.#loggedKeys.has(keyValue.key)) {
      this.#loggedKeys.set(keyValue.key, true)
      const fields = { resource: this.name, key: keyToText(keyValue.key), reason: object.unservable }
      this.#options.logger.warn(fields, 'value cannot be served')
    }
    return null
  }

  #gapAround(revision: Revision): Gap | undefined {
    return this.#gaps.find(({ after, until }) => revision > after && revision < until)
  }

  /**
   * A key of a later state that cannot be of the history held here: last written at or before our revision, and not what
   * we hold; or there since then, and not here. null: none.
   */
  #strangerIn(store: Store, unservable: ReadonlyMap<Key, Revision>): Key | null {
    for (const { key, modRevision, createRevision, bytes } of store.snapshot(this.#revision, 0).objects(this.prefix)) {
      if (createRevision > this.#revision || this.#unservable.has(key)) continue
      const held = this.#store.get(key)
      if (held?.createRevision !== createRevision) return key
      if (modRevision > this.#revision) continue
      if (held.modRevision !== modRevision || !held.bytes.equals(bytes)) return key
    }
    for (const [key, modRevision] of unservable) {
      if (modRevision <= this.#revision && this.#unservable.get(key) !== modRevision) return key
    }
    return null
  }

  #coalesce(store: Store, unservable: Map<Key, Revision>, revision: Revision): void {
    const after = this.#revision
    const receivedAtMs = this.#options.clock.monotonic()
    const target = store.snapshot(revision, unservable.size)
    const batches = differenceBatches(this.snapshot(), target, this.prefix, receivedAtMs)
    this.#store = store
    this.#unservable = unservable
    const gaps = this.#gaps.filter(({ until }) => until > this.#ring.floorRevision)
    if (gaps.length >= MAX_GAPS) gaps.splice(0, 2, { after: gaps[0]!.after, until: gaps[1]!.until })
    this.#gaps = [...gaps, { after, until: revision }]
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

  #rebuild(revision: Revision): Snapshot | null {
    if (revision < this.#ring.floorRevision) return null
    if (this.#gapAround(revision) !== undefined) return null
    const store = this.snapshot().toStore()
    const first = this.#ring.indexAfter(revision)
    for (let i = this.#ring.length - 1; i >= first; i--) {
      const { events } = this.#ring.at(i)!
      for (let j = events.length - 1; j >= 0; j--) {
        const { object, previous } = events[j]!
        if (previous !== null) store.set(previous.key, previous)
        else if (object !== null) store.delete(object.key)
      }
    }
    return store.snapshot(revision, this.#unservable.size)
  }

  async #readState(revision: Revision | null, signal?: AbortSignal): Promise<Snapshot> {
    const state = await this.#fromSource(this.#options.freshness().readState(revision, signal))
    if (state.revision === this.#revision) return this.snapshot()
    // All who asked at one time were handed the same state: what it costs to sort it is spent once.
    let snapshot = this.#states.get(state)
    if (snapshot === undefined) this.#states.set(state, (snapshot = this.#snapshotOf(state)))
    return snapshot
  }

  /** @throws NotImplementedError when something in it is encrypted: a list without that would be a lie. */
  #snapshotOf({ revision, keyValues }: StateAtRevision): Snapshot {
    const store = new Store()
    const unservable = new Map<Key, Revision>()
    const encrypted = new Set<Key>()
    for (const keyValue of keyValues) {
      // The very version we hold: share its bytes.
      const held = this.#store.get(keyValue.key)
      if (held !== undefined && held.modRevision === keyValue.modRevision) store.set(held.key, held)
      else this.#put(store, unservable, encrypted, keyValue)
    }
    if (encrypted.size > 0) throw new NotImplementedError(`${this.name} cannot be served: ${ENCRYPTED}`)
    return store.snapshot(revision, unservable.size)
  }

  async #fromSource<R>(answer: Promise<R>): Promise<R> {
    try {
      return await answer
    } catch (error) {
      if (isCompacted(error))
        throw new ExpiredError('The resourceVersion for the provided list is too old.', { cause: error })
      throw new TimeoutError(`Timeout: ${this.name}: the storage did not answer`, { ...RETRY_SOON, cause: error })
    }
  }

  async #wait(
    revision: Revision,
    signal: AbortSignal | undefined,
    nudge: () => void,
    limitMs = this.#options.waitLimitMs ?? 3_000,
  ): Promise<boolean> {
    if (revision <= this.#revision) return true
    if (signal?.aborted) return false
    const { clock, metrics } = this.#options
    const startedMs = clock.monotonic()
    const reached = await new Promise<boolean>((resolve) => {
      const finish = (): void => {
        this.#waiters.delete(waiter)
        timer.cancel()
        signal?.removeEventListener('abort', finish)
        resolve(revision <= this.#revision)
      }
      const waiter: Waiter = { revision, wake: finish }
      const repeat = (): void => {
        if (clock.monotonic() - startedMs >= limitMs) return finish()
        nudge()
        timer = clock.setTimer(Math.min(PROGRESS_REPEAT_MS, limitMs), repeat)
      }
      let timer = clock.setTimer(Math.min(PROGRESS_REPEAT_MS, limitMs), repeat)
      this.#waiters.add(waiter)
      signal?.addEventListener('abort', finish, { once: true })
      nudge()
    })
    metrics.readWait((clock.monotonic() - startedMs) / 1000)
    return reached
  }

  /** Asks the source how far it is: once for all who want to know within a few milliseconds, and after the last of them. */
  readonly #nudge = (): void => {
    if (this.#isNudgeDue) return
    const { clock } = this.#options
    const freshness = this.#options.freshness()
    const leftMs = this.#nudgedMs + PROGRESS_GAP_MS - clock.monotonic()
    if (leftMs <= 0) {
      this.#nudgedMs = clock.monotonic()
      return freshness.requestProgress()
    }
    this.#isNudgeDue = true
    clock.setTimer(leftMs, () => {
      this.#isNudgeDue = false
      this.#nudgedMs = clock.monotonic()
      freshness.requestProgress()
    })
  }

  #connected(): void {
    if (this.#disconnected === null) return
    this.#disconnected = null
    this.#options.logger.debug({ resource: this.name, revision: this.#revision }, 'source is back')
  }

  #advanced(): void {
    for (const listener of this.#listeners) listener.onAdvance(this.#revision)
    for (const waiter of this.#waiters) if (waiter.revision <= this.#revision) waiter.wake()
  }
}

/** Between two questions for progress, milliseconds: a thousand waiting reads ask no more often than one would hurry. */
const PROGRESS_GAP_MS = 5

/** With an etcd whose progress cannot be trusted, how long a read waits for events before it goes to etcd itself. */
const UNTRUSTED_WAIT_MS = 200

const RETRY_SOON = { details: { retryAfterSeconds: 1 } } as const

/** The upstream's error, by shape: the cache does not import the upstream. */
function isCompacted(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'compacted'
}

/** Two sorted runs as one. */
function* merged(
  objects: Iterable<StoredObject>,
  others: readonly { readonly key: Key; readonly modRevision: Revision }[],
): Generator<{ key: Key; modRevision: Revision; value?: Buffer }, void, void> {
  let at = 0
  for (const { key, modRevision, bytes } of objects) {
    while (at < others.length && others[at]!.key < key) yield others[at++]!
    yield { key, modRevision, value: bytes }
  }
  while (at < others.length) yield others[at++]!
}
