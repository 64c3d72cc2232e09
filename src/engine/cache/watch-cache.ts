/**
 * The cache of one resource: the latest objects and the recent history, with one revision for both. A feed writes to the
 * cache as its `FeedSink`, and listeners such as the dispatcher follow it. Its parts are what a dialect reads:
 *
 * - `reads`: the state for a list or a get, with a proof of its freshness;
 * - `history`: after which revisions a watch can begin;
 * - `readiness`: whether it may be read, and `source`: how old its state may be.
 *
 * `revision` is the position up to which every event has arrived. Only the source advances it: with a batch, a progress
 * mark, or a whole state.
 */
import { type Batch, eventKey, type Key, type KeyValue, keyToText } from '../model/event.js'
import type { EarlierHistory, FeedSink, Replacement, ReplaceReason } from '../model/feed-sink.js'
import { type Revision, ZERO_REVISION } from '../model/revision.js'
import { type EngineError, SealedError, WithheldError } from '../model/errors.js'
import { CacheBatch, CacheEvent } from './cache-batch.js'
import { differenceBatches } from './difference.js'
import { type Contents, HeldObjects } from './held-objects.js'
import { History } from './history.js'
import { Readiness } from './readiness.js'
import { CacheReads } from './reads.js'
import type { SourceAge } from './source-age.js'
import { CacheState, type WatchCacheOptions } from './state.js'
import type { Snapshot } from './store.js'

/** Called synchronously, in order of revision. */
export interface CacheListener {
  /** The batch is in the ring, and the cache's `revision` is the batch's. */
  onBatch(batch: CacheBatch): void
  /** Everything up to `revision` has been delivered. Called after each series of batches, and on progress. */
  onAdvance?(revision: Revision): void
  /** History before `revision` is gone, so watchers below it cannot continue. */
  onReset(revision: Revision, isOtherHistory: boolean): void
  /** The state is current for the first time. Before that, it may be a past state from which the source catches up. */
  onReady?(): void
  /** Called when a value cannot be read. The cache reports no events until a reset. */
  onUnreadable?(error: EngineError): void
  /** Called when the source begins to refuse the cache (`source.isRefusing`), so no events arrive. */
  onRefused?(): void
  /** Called when the cache is no longer served (`isRetired`), so nothing new arrives. */
  onRetired?(): void
}

export class WatchCache implements FeedSink {
  readonly history: History
  readonly readiness: Readiness
  readonly reads: CacheReads
  readonly #state: CacheState
  readonly #options: WatchCacheOptions
  readonly #listeners = new Set<CacheListener>()
  #isRetired = false

  constructor(options: WatchCacheOptions) {
    this.#options = options
    this.#state = new CacheState(options)
    this.history = new History(this.#state)
    this.readiness = new Readiness(this.#state)
    this.reads = new CacheReads(this.#state, this.history, this.readiness)
  }

  get name(): string {
    return this.#options.name
  }

  get prefix(): Key {
    return this.#options.prefix
  }

  get revision(): Revision {
    return this.#state.revision
  }

  /** Whether the source is connected, and how long ago it confirmed the position. */
  get source(): SourceAge {
    return this.#state.source
  }

  /** The present content, including values that cannot be served. */
  get contents(): Contents {
    return this.#state.held
  }

  /** The state at `revision`; the same object until something changes. */
  snapshot(): Snapshot {
    return this.#state.snapshot()
  }

  /** Adds a listener. @returns a function that removes it. */
  listen(listener: CacheListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Whether the cache is no longer served, and its feed has stopped. */
  get isRetired(): boolean {
    return this.#isRetired
  }

  retire(): void {
    this.#isRetired = true
    for (const listener of this.#listeners) listener.onRetired?.()
  }

  /** The same objects are presented differently from now on; see `History.reread`. */
  reread(): void {
    this.history.reread(this.readiness.kind === 'pending' ? null : this.revision)
  }

  /**
   * Takes values that can be decrypted by now. Values that have been written or deleted in the meantime are left out.
   */
  reveal(keyValues: readonly KeyValue[]): void {
    const { held } = this.#state
    const sealed = new Map(held.sealedValues.map(({ key, modRevision }) => [key, modRevision]))
    const current = keyValues.filter(({ key, modRevision }) => sealed.get(key) === modRevision)
    if (current.length === 0) return
    for (const keyValue of current) held.put(keyValue)
    this.#reset(this.revision, false)
    this.#reportReadable()
    this.#advanced()
  }

  // FeedSink

  get isAwaited(): boolean {
    return this.readiness.isAwaited || this.history.isAwaited
  }

  countKeys(): number {
    return this.#state.held.countKeys()
  }

  replace(revision: Revision, reason: ReplaceReason): Replacement {
    const { ingester } = this.#state
    let held = new HeldObjects(ingester)
    return {
      add: (keyValues) => {
        for (const keyValue of keyValues) held.list(keyValue)
      },
      commit: () => {
        held.listed()
        this.#commit(held, revision, reason)
      },
      abort: () => {
        held = new HeldObjects(ingester)
      },
    }
  }

  #commit(held: HeldObjects, revision: Revision, reason: ReplaceReason): void {
    const before = this.#state.held
    let isOtherHistory = reason === 'history-changed'
    if (reason === 'coalesce' && this.revision !== ZERO_REVISION) {
      const contradicting = held.contradictingKey(before, this.revision, this.prefix, revision)
      const isReadable = held.withheldReason === null && before.withheldReason === null
      if (contradicting === null && revision >= this.revision && isReadable) return this.#coalesce(held, revision)
      isOtherHistory = contradicting !== null || revision < this.revision
      const fields = { resource: this.name, revision, key: contradicting === null ? null : keyToText(contradicting) }
      if (isOtherHistory) {
        this.#options.logger.error(fields, 'history changed: a delivered object differs from the one in etcd')
      }
    }
    const isNewlyWithheld = before.withheldReason === null && held.withheldReason !== null
    this.#state.moveTo(this.revision, held)
    if (isNewlyWithheld) this.#reportWithheld()
    this.#reset(revision, isOtherHistory)
    this.#advanced()
  }

  seeking(isSeeking: boolean): void {
    this.history.seeking(isSeeking)
  }

  earlier(after: Revision, until: Revision): EarlierHistory {
    const held = new HeldObjects(this.#state.ingester)
    const older: CacheBatch[] = []
    const keys = new Set<Key>()
    // The ring evicts by age from its oldest item on.
    const receivedAtMs = this.history.stats.oldestMs ?? this.#options.clock.monotonic()
    // A value that cannot be read would look like a deletion, also if a later one can be read.
    let isReadable = true
    return {
      add: (keyValues) => {
        for (const keyValue of keyValues) held.put(keyValue)
        isReadable &&= held.withheldReason === null
      },
      apply: (batches) => {
        for (const batch of batches) {
          for (const event of batch.events) keys.add(eventKey(event))
          older.push(ingestBatch(held, batch, receivedAtMs))
          isReadable &&= held.withheldReason === null
        }
      },
      commit: () => isReadable && this.history.precede(older, { after, until, keys, store: held.store }),
    }
  }

  apply(batches: readonly Batch[]): void {
    const { clock, metrics } = this.#options
    const { held } = this.#state
    const receivedAtMs = clock.monotonic()
    let events = 0
    for (const batch of batches) {
      // The feed already drops batches that are not above its position. This check protects the ring's order whatever
      // the source does.
      if (batch.revision <= this.revision) continue
      events += batch.events.length
      const wasWhole = held.withheldReason === null
      const ingested = ingestBatch(held, batch, receivedAtMs)
      if (wasWhole && held.withheldReason === null) this.#append(ingested)
      else this.#appendUnread(ingested, wasWhole)
    }
    this.#connected()
    this.#advanced()
    metrics.entered(events)
    metrics.delay((clock.monotonic() - receivedAtMs) / 1000)
  }

  progress(revision: Revision): void {
    this.#connected()
    if (revision <= this.revision) return
    this.#state.moveTo(revision)
    this.#advanced()
  }

  synced(): void {
    const { ingester, held } = this.#state
    ingester.reportLeft(held.unservable)
    const { isListed, kind } = this.readiness
    if (!isListed) {
      const fields = { resource: this.name, revision: this.revision, objects: held.size }
      if (kind === 'refused') this.#options.logger.info(fields, 'resource can be listed now')
      else this.#options.logger.debug(fields, 'resource is ready')
      this.readiness.listed()
      for (const listener of this.#listeners) listener.onReady?.()
    }
    this.#connected()
  }

  disconnected(reason: string): void {
    if (!this.source.disconnected(reason)) return
    this.readiness.disconnected()
    this.#options.logger.debug({ resource: this.name, reason }, 'source is unavailable; serving from the cache')
  }

  confirmed(ageMs: number, validMs: number): void {
    this.source.confirmed(ageMs, validMs)
  }

  refused(reason: string, isLasting: boolean): void {
    const { isListed, refusal } = this.readiness
    const fields = { resource: this.name, reason }
    if (!isListed) {
      if (refusal !== reason) this.#options.logger.error(fields, 'resource cannot be listed')
      return this.readiness.refused(reason)
    }
    this.disconnected(reason)
    if (!isLasting || !this.source.refused()) return
    this.#options.logger.error(fields, 'resource cannot be watched any more; ending its watches')
    for (const listener of this.#listeners) listener.onRefused?.()
  }

  /**
   * While a value cannot be read, no events are sent. A DELETED event would be wrong, because an object that can no
   * longer be read still exists. When all values can be read again, no watch can resume from a revision in between.
   */
  #appendUnread({ revision }: CacheBatch, wasWhole: boolean): void {
    if (wasWhole) this.#reportWithheld()
    this.#reset(revision, false)
    this.#reportReadable()
  }

  #reportReadable(): void {
    if (this.#state.held.withheldReason !== null) return
    this.#options.logger.info({ resource: this.name }, 'resource can be read again')
  }

  /** Restarts history after `revision`. */
  #reset(revision: Revision, isOtherHistory: boolean): void {
    this.#state.moveTo(revision)
    this.history.restart(revision, isOtherHistory)
    this.reads.forgetKept()
    for (const listener of this.#listeners) listener.onReset(revision, isOtherHistory)
  }

  #reportWithheld(): void {
    const { name } = this
    const { held } = this.#state
    let values = 0
    for (const count of held.encrypted.values()) values += count
    const message = `cannot be served: ${held.withheldReason}`
    const [first] = held.sealedValues
    const fields = {
      resource: name,
      ...(first === undefined ? {} : { key: keyToText(first.key) }),
      ...(values > 0 ? { values } : {}),
    }
    this.#options.logger.error(fields, `resource ${message}`)
    // Without the keys, which a watcher of another part of the resource may not know.
    const error =
      first === undefined ? new WithheldError(`${name} ${message}`) : new SealedError(name, new Map(), 'list')
    for (const listener of this.#listeners) listener.onUnreadable?.(error)
  }

  #append(batch: CacheBatch): void {
    this.history.append(batch)
    this.#state.moveTo(batch.revision)
    for (const listener of this.#listeners) listener.onBatch(batch)
  }

  #coalesce(held: HeldObjects, revision: Revision): void {
    const after = this.revision
    const { prefix } = this
    const { clock, identityOf, logger, metrics } = this.#options
    const receivedAtMs = clock.monotonic()
    const batches = differenceBatches(this.snapshot(), held.snapshot(revision), { prefix, receivedAtMs, identityOf })
    this.history.addGap(after, revision)
    this.#state.moveTo(after, held)
    let events = 0
    for (const batch of batches) {
      events += batch.events.length
      this.#append(batch)
    }
    metrics.coalesced(events)
    this.#state.moveTo(revision)
    const fields = { resource: this.name, after, until: revision, batches: batches.length }
    // A resource that is seldom written and not cached by an API server has such gaps every few minutes.
    if (batches.length === 0) logger.info(fields, 'gap coalesced')
    else logger.warn(fields, 'gap coalesced')
    this.#advanced()
  }

  #connected(): void {
    const { isRefusing } = this.source
    if (!this.source.connected()) return
    const fields = { resource: this.name, revision: this.revision }
    if (isRefusing) this.#options.logger.info(fields, 'resource can be watched again')
    else this.#options.logger.debug(fields, 'source is back')
  }

  #advanced(): void {
    for (const listener of this.#listeners) listener.onAdvance?.(this.revision)
    this.reads.advanced()
  }
}

/** Puts the values of a batch into the objects. @returns the changes of those that can be served. */
function ingestBatch(held: HeldObjects, { revision, events: given }: Batch, receivedAtMs: number): CacheBatch {
  const events: CacheEvent[] = []
  for (const event of given) {
    const key = eventKey(event)
    const previous = held.store.get(key) ?? null
    if (event.type === 'put') {
      const object = held.put(event.keyValue)
      if (object !== null || previous !== null) events.push(new CacheEvent(revision, object, previous))
    } else {
      held.delete(key)
      if (previous !== null) events.push(new CacheEvent(revision, null, previous))
    }
  }
  // `push` gives an array room for seventeen events, but most batches have one, so keep a copy of the exact size.
  return new CacheBatch(revision, events.slice(), receivedAtMs)
}
