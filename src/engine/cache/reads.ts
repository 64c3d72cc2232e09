/**
 * The reads of a cache, for lists, gets and watches: the current state, a state as fresh as a linearizable read, a
 * state not older than a revision, or the state at exactly a revision. `watch-cache.ts` is the write side.
 */
import { LRUCache } from 'lru-cache'
import type { Key } from '../model/event.js'
import type { FreshnessSource, KeysSummary, StateAtRevision } from '../model/freshness-source.js'
import type { Revision } from '../model/revision.js'
import {
  BehindError,
  EngineError,
  RefusedReadError,
  RevisionExpiredError,
  SealedError,
  UnansweredError,
  WithheldError,
} from '../model/errors.js'
import type { StoredObject } from '../model/stored-object.js'
import { turns } from '../../support/turns.js'
import { HeldObjects } from './held-objects.js'
import type { History } from './history.js'
import type { Readiness } from './readiness.js'
import { type CacheState, newHistory } from './state.js'
import type { Snapshot } from './store.js'
import { Waiters } from './waiters.js'
import { getOrMake } from '../../support/memo.js'

/**
 * The pages of a list share a snapshot. Clients rarely page through more than a few lists at different revisions at
 * once.
 */
const KEPT_SNAPSHOTS = 16
const KEPT_SNAPSHOT_MS = 5 * 60_000

/** How long a read waits for events before it goes to etcd, if etcd's progress cannot be trusted. */
const UNTRUSTED_WAIT_MS = 200

/** With fewer objects, reading their keys takes no longer than reading etcd's revision. */
const FEW_OBJECTS = 500

const withoutSlot = (): Promise<() => void> => Promise.resolve(() => {})

export class CacheReads {
  readonly #state: CacheState
  readonly #history: History
  readonly #readiness: Readiness
  readonly #waiters: Waiters
  readonly #kept = new LRUCache<Revision, Snapshot>({ max: KEPT_SNAPSHOTS, ttl: KEPT_SNAPSHOT_MS })
  /** Concurrent reads share one state read from the source, which is converted to a snapshot once. */
  readonly #states = new WeakMap<StateAtRevision, Promise<Snapshot>>()
  /** The cache's state, for each summary of etcd's keys that has proved it current. */
  readonly #proven = new WeakMap<KeysSummary, Snapshot>()

  constructor(state: CacheState, history: History, readiness: Readiness) {
    this.#state = state
    this.#history = history
    this.#readiness = readiness
    this.#waiters = new Waiters(state.options, () => state.revision)
  }

  get #source(): FreshnessSource {
    return this.#state.options.freshness()
  }

  get #isConnected(): boolean {
    return this.#state.source.disconnectedReason === null
  }

  /** The number of reads that wait for a revision. */
  get waiting(): number {
    return this.#waiters.size
  }

  /** Whether the progress that the source reports can be trusted. */
  get trustsProgress(): boolean {
    return this.#source.trustsProgress
  }

  /**
   * Asks the source for its progress, unless its progress reports cannot be trusted. The response moves the cache's
   * revision, or never comes.
   */
  requestProgress(): void {
    if (this.trustsProgress && this.#readiness.kind === 'ready') this.#source.requestProgress()
  }

  /**
   * Waits until all events at or before `revision` have arrived.
   *
   * @throws BehindError after the limit.
   */
  async waitUntil(revision: Revision, signal?: AbortSignal): Promise<void> {
    // etcd may have reached the revision without an event for this prefix. Then only a progress report advances the
    // cache.
    const reached = await this.#waiters.wait(revision, { signal, requestsProgress: true })
    if (!reached) throw new BehindError(revision, this.#state.revision)
  }

  /**
   * Returns etcd's revision from a linearizable read that starts after this call.
   *
   * @throws UnansweredError when the source does not answer in time, or is behind this cache.
   */
  sourceRevision(): Promise<Revision> {
    return this.#freshRevision(undefined)
  }

  /** Returns a state as fresh as a linearizable read. @throws UnansweredError when the source does not answer in time. */
  async consistentSnapshot(signal?: AbortSignal): Promise<Snapshot> {
    if (!this.#source.trustsProgress) return await this.#stateNow(signal)
    const revision = await this.#freshRevision(signal)
    if (await this.#reachesSoon(revision, signal)) return this.#state.snapshot()
    return await this.#readState(null, signal)
  }

  /**
   * Returns one object, as fresh as a linearizable read.
   *
   * @throws UnansweredError when the source does not answer in time; WithheldError when it cannot be read.
   */
  async consistentObject(key: Key, signal?: AbortSignal): Promise<StoredObject | undefined> {
    if (this.#source.trustsProgress) {
      const revision = await this.#freshRevision(signal)
      if (await this.#reachesSoon(revision, signal)) return this.#state.snapshot().get(key)
    }
    return await this.#readObject(key, signal)
  }

  /**
   * Returns a state not older than `revision`.
   * @throws BehindError when etcd itself has not reached it within the wait limit.
   */
  async snapshotNotOlderThan(revision: Revision, signal?: AbortSignal): Promise<Snapshot> {
    if (revision <= this.#state.revision) return this.#state.snapshot()
    if (this.#source.trustsProgress) {
      await this.waitUntil(revision, signal)
      return this.#state.snapshot()
    }
    // If progress is not trusted, the cache of a quiet prefix does not advance, but etcd's current state may be new
    // enough.
    const reached = await this.#waiters.wait(revision, { signal, requestsProgress: false, limitMs: UNTRUSTED_WAIT_MS })
    if (reached) return this.#state.snapshot()
    const state = await this.#provenState(signal).catch(() => null)
    if (state !== null && state.revision >= revision) return state
    // etcd had not reached the revision when it was read, but may do so before the limit.
    await this.waitUntil(revision, signal)
    return this.#state.snapshot()
  }

  /**
   * Returns the state at exactly `revision`, which may be kept from before, rebuilt by walking the ring back, or read
   * from etcd.
   * @param enter takes a slot for a state that has to be rebuilt or read, and returns a function that releases it.
   * @throws RevisionExpiredError when etcd no longer has the state either; BehindError when etcd has not
   * reached the revision within the wait limit.
   */
  async snapshotAt(
    revision: Revision,
    signal?: AbortSignal,
    enter: () => Promise<() => void> = withoutSlot,
  ): Promise<Snapshot> {
    // A kept state may be ahead of the cache: the first page of a list may have been read from etcd.
    if (revision > this.#state.revision && !this.#kept.has(revision)) {
      const read = await this.#reach(revision, signal)
      if (read !== null) return read
    }
    const here = this.#hereAt(revision)
    if (here !== undefined) return here
    const leave = await enter()
    try {
      // Another request may have built the state in the meantime.
      return this.#hereAt(revision) ?? (await this.#makeAt(revision, signal))
    } finally {
      leave()
    }
  }

  #hereAt(revision: Revision): Snapshot | undefined {
    return revision === this.#state.revision ? this.#state.snapshot() : this.#kept.get(revision)
  }

  async #makeAt(revision: Revision, signal: AbortSignal | undefined): Promise<Snapshot> {
    const { history } = this.#state
    const rebuilt = await this.#history.stateAt(revision)
    if (rebuilt !== null) {
      this.#kept.set(revision, rebuilt)
      return rebuilt
    }
    const read = await this.#readState(revision, signal)
    // The cache may have switched to another history in the meantime. Pages of lists in the new history must not come
    // from this state.
    if (this.#state.history === history) this.#kept.set(revision, read)
    return read
  }

  /**
   * @throws SealedError when the object exists but none of the server's encryption keys can decrypt it. A 404
   * would be wrong.
   */
  assertOpen(key: Key): void {
    const reason = this.#state.held.sealedReason(key)
    if (reason !== undefined) throw this.#sealedObject(key, reason)
  }

  #sealedObject(key: Key, reason: string): SealedError {
    return new SealedError(this.#state.name, new Map([[key, reason]]), 'object')
  }

  /**
   * @throws SealedError when none of the server's encryption keys can decrypt some value under the prefix. A list
   * without that value would be wrong.
   */
  assertListOpen({ sealed }: Snapshot, prefix: Key): void {
    if (sealed.size === 0) return
    const listed = new Map([...sealed].filter(([key]) => key.startsWith(prefix)))
    if (listed.size > 0) throw new SealedError(this.#state.name, listed, 'list')
  }

  /** Ends the waits for revisions that the cache has reached. */
  advanced(): void {
    this.#waiters.reached(this.#state.revision)
  }

  /** Keeps a snapshot for the remaining pages of a list. */
  keep(snapshot: Snapshot): void {
    this.#kept.set(snapshot.revision, snapshot)
  }

  /**
   * Called when the kept states must no longer be served, because they belong to another history or some values can no
   * longer be read.
   */
  forgetKept(): void {
    this.#kept.clear()
  }

  /**
   * Returns the revision that a consistent read must have reached.
   *
   * @throws UnansweredError when the source is unreachable or behind this cache.
   */
  async #freshRevision(signal: AbortSignal | undefined): Promise<Revision> {
    const before = this.#state.revision
    const revision = await this.#fromSource(this.#source.currentRevision(signal))
    if (revision >= before) return revision
    // The source is behind the revision that this cache had when the request was sent, so it may be an older copy with
    // a different state.
    throw new UnansweredError(`${this.#state.name}: the storage is at revision ${revision}`)
  }

  /**
   * Waits until the watch has delivered `revision`. Returns false at once while the watch is disconnected, so that the
   * caller reads etcd itself.
   */
  async #reachesSoon(revision: Revision, signal: AbortSignal | undefined): Promise<boolean> {
    if (!this.#isConnected) return false
    return await this.#waiters.wait(revision, { signal, requestsProgress: true })
  }

  /**
   * Waits for a revision.
   * @returns the state read from etcd if etcd has reached the revision but the cache has not, else null.
   */
  async #reach(revision: Revision, signal: AbortSignal | undefined): Promise<Snapshot | null> {
    if (!this.#source.trustsProgress) {
      if (await this.#waiters.wait(revision, { signal, requestsProgress: false, limitMs: UNTRUSTED_WAIT_MS }))
        return null
      const current = await this.#fromSource(this.#source.currentRevision(signal))
      if (current >= revision) return await this.#readState(revision, signal)
    }
    await this.waitUntil(revision, signal)
    return null
  }

  /**
   * Returns a state as fresh as a linearizable read, if progress cannot be trusted. The cheapest proof comes first: the
   * cache has reached etcd's revision (not read if there are few objects), or it has the same keys as etcd. Without a
   * proof, the state is read from etcd.
   */
  async #stateNow(signal: AbortSignal | undefined): Promise<Snapshot> {
    const hasMany = this.#state.held.countKeys() >= FEW_OBJECTS
    if (this.#source.summariseKeys !== undefined && this.#isConnected && hasMany) {
      const revision = await this.#freshRevision(signal)
      if (this.#isConnected && revision <= this.#state.revision) return this.#state.snapshot()
    }
    return await this.#provenState(signal)
  }

  /** Returns the cache's state if a summary of etcd's keys proves that it is current, and otherwise reads etcd's. */
  async #provenState(signal: AbortSignal | undefined): Promise<Snapshot> {
    const { history } = this.#state
    const source = this.#source
    if (source.summariseKeys === undefined || !this.#isConnected) return await this.#readState(null, signal)
    const before = this.#state.revision
    const summary = await this.#fromSource(source.summariseKeys(signal))
    // A source behind the cache may be an older copy.
    if (summary.revision >= before) {
      const newest = summary.maxModRevision as Revision
      await this.#waiters.wait(newest, { signal, requestsProgress: false, limitMs: UNTRUSTED_WAIT_MS })
      if (this.#state.history === history && this.#isConnected) {
        if (summary.revision <= this.#state.revision) return this.#state.snapshot()
        if (newest <= this.#state.revision && summary.count === this.#state.held.countKeys()) {
          return getOrMake(this.#proven, summary, ({ revision }) => this.#state.held.snapshot(revision, history))
        }
      }
    }
    return await this.#readState(null, signal)
  }

  async #readObject(key: Key, signal: AbortSignal | undefined): Promise<StoredObject | undefined> {
    const keyValue = await this.#fromSource(this.#source.readKey(key, signal))
    if (keyValue === null) return undefined
    // An equal mod revision means the version that the cache holds, unless the source is disconnected: then etcd may
    // have another history.
    const held = this.#isConnected ? this.#state.held.store.get(key) : undefined
    if (held !== undefined && held.modRevision === keyValue.modRevision) return held
    const state = new HeldObjects(this.#state.ingester)
    const object = state.put(keyValue)
    const sealed = state.sealedReason(key)
    if (sealed !== undefined) throw this.#sealedObject(key, sealed)
    this.#assertWhole(state)
    return object ?? undefined
  }

  async #readState(revision: Revision | null, signal?: AbortSignal): Promise<Snapshot> {
    const state = await this.#fromSource(this.#source.readState(revision, signal))
    const isHeld = this.#isConnected
    if (isHeld && state.revision === this.#state.revision) return this.#state.snapshot()
    return await getOrMake(this.#states, state, () => this.#snapshotOf(state, isHeld))
  }

  /**
   * @param isHeld whether an equal mod revision means the version that the cache holds. It may not while the source is
   * disconnected, because etcd may then have another history.
   * @throws WithheldError when some value makes the whole state unservable.
   */
  async #snapshotOf({ revision, keyValues }: StateAtRevision, isHeld: boolean): Promise<Snapshot> {
    const { history } = this.#state
    const state = new HeldObjects(this.#state.ingester)
    for (const keyValue of keyValues) {
      if (turns.isOver) await turns.take()
      // The cache holds this version, so share its bytes.
      const held = isHeld && this.#state.history === history ? this.#state.held.store.get(keyValue.key) : undefined
      if (held !== undefined && held.modRevision === keyValue.modRevision) state.keep(held)
      else state.put(keyValue)
    }
    this.#assertWhole(state)
    return state.snapshot(revision, isHeld ? history : newHistory())
  }

  /**
   * A list that omits an unreadable value would be wrong, and so would a 404 for that value.
   * @throws WithheldError
   */
  #assertWhole({ unreadableReason }: HeldObjects): void {
    if (unreadableReason !== null) throw new WithheldError(`${this.#state.name} cannot be served: ${unreadableReason}`)
  }

  async #fromSource<R>(response: Promise<R>): Promise<R> {
    try {
      return await response
    } catch (error) {
      // The source refused the read because too many reads are already waiting.
      if (error instanceof EngineError) throw error
      if (isCompacted(error)) throw new RevisionExpiredError(null, null, { cause: error })
      throw unansweredRead(error, this.#state.name)
    }
  }
}

/**
 * Returns the error for a read that the storage did not answer. Its own words and address are for the operator, in the
 * log and in readiness, and not for callers.
 * @param name the resource, for the message.
 */
export function unansweredRead(cause: unknown, name: string): EngineError {
  return isRefused(cause)
    ? new RefusedReadError(`${name}: the storage refuses this server's own reads`, 1, { cause })
    : new UnansweredError(`${name}: the storage did not answer`, { cause })
}

/** Whether retrying is useless until the storage's permissions or our credentials change. */
function isRefused(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && ['permission-denied', 'unauthenticated'].includes(String(error.code))
  )
}

/** Recognizes the upstream's error by its shape, because the cache does not import the upstream. */
function isCompacted(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'compacted'
}
