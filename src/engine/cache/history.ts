/**
 * The recent history of a cache: after which revisions a watch can begin, the batches after such a revision, earlier
 * states, and the digests by which two caches find out whether their histories are the same.
 */
import { RevisionExpiredError } from '../model/errors.js'
import type { Key } from '../model/event.js'
import { EARLIER_WAIT_MS } from '../model/limits.js'
import { nextRevision, type Revision, ZERO_REVISION } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import { turns } from '../../support/turns.js'
import type { CacheBatch } from './cache-batch.js'
import { Gaps } from './gaps.js'
import { digestOf, Positions } from './positions.js'
import { KEPT_HISTORY_MS, RingBuffer, type RingBounds } from './ring-buffer.js'
import type { CacheState } from './state.js'
import type { Snapshot, Store } from './store.js'
import { Waiters } from './waiters.js'

/** Minimum time between two log lines about a resource whose history is too short for its write rate. */
const CUT_LOG_GAP_MS = 3_600_000

const SOUGHT = nextRevision(ZERO_REVISION)

/** Describes older batches: the revisions and keys that they cover, and the state after them. */
interface Older {
  readonly after: Revision
  readonly until: Revision
  /** The keys that they change. */
  readonly keys: ReadonlySet<Key>
  /** The objects under these keys at `until`. */
  readonly store: Pick<Store, 'get'>
}

export class History {
  readonly #state: CacheState
  readonly #ring: RingBuffer<CacheBatch>
  readonly #gaps = new Gaps()
  readonly #gapListeners = new Set<(until: Revision) => void>()
  #positions: Positions
  /** The revision and time of the last `reread`; null if there was none. */
  #reread: { readonly revision: Revision; readonly ms: number } | null = null
  #cutLoggedAtMs = Number.NEGATIVE_INFINITY
  #isSeeking = false
  /** Watches that wait for the history from before the first state. Their position is 0 while it is being sought. */
  readonly #seekers: Waiters

  constructor(state: CacheState) {
    this.#state = state
    this.#seekers = new Waiters(state.options, () => (this.#isSeeking ? ZERO_REVISION : SOUGHT))
    this.#ring = new RingBuffer(state.options.ring, state.revision)
    this.#positions = new Positions(this.#ring, this.#state)
  }

  /** The name of the history, as in `CacheState`. */
  get name(): string {
    return this.#state.history
  }

  /** A watch can begin after any revision at or above this, unless the history has a gap there. */
  get floorRevision(): Revision {
    return this.#ring.floorRevision
  }

  get stats(): { readonly batches: number; readonly bytes: number; readonly oldestMs: number | null } {
    const { length: batches, bytes } = this.#ring
    return { batches, bytes, oldestMs: this.#ring.at(0)?.receivedAtMs ?? null }
  }

  /**
   * How long a client may have been away and still resume; 0 before the first state. History that was read back counts
   * from then on, because nobody knows when it happened.
   */
  get reachMs(): number {
    const { floorAtMs } = this.#ring
    return floorAtMs === null ? 0 : this.#state.options.clock.monotonic() - floorAtMs
  }

  /** How a gap affects watches. */
  get onGap(): 'expire' | 'coalesce' {
    return this.#state.options.onGap ?? 'expire'
  }

  /** @param listener called before a gap is bridged, with the gap's end. @returns a function that removes it. */
  beforeGap(listener: (until: Revision) => void): () => void {
    this.#gapListeners.add(listener)
    return () => void this.#gapListeners.delete(listener)
  }

  /**
   * Returns the end of the last gap that was bridged between the two revisions, where versions of objects may be
   * missing; null if there is none.
   */
  gapBetween(after: Revision, until: Revision): Revision | null {
    return this.#gaps.endBetween(after, until)
  }

  /** Whether a watch waits for the history from before the first state. */
  get isAwaited(): boolean {
    return this.#seekers.size > 0
  }

  /**
   * If the revision is before the history, and earlier history is being sought, waits for it.
   * @returns whether it has waited.
   */
  async seek(afterRevision: Revision, signal: AbortSignal | undefined): Promise<boolean> {
    if (!this.#isSeeking || afterRevision >= this.floorRevision) return false
    await this.#seekers.wait(SOUGHT, { signal, requestsProgress: false, limitMs: EARLIER_WAIT_MS })
    return true
  }

  /** @throws RevisionExpiredError when no watch can begin after the revision. */
  assertResumable(afterRevision: Revision): void {
    const oldest = this.#oldestInstead(afterRevision)
    if (oldest !== null) throw new RevisionExpiredError(afterRevision, oldest)
  }

  /** Whether a watch can begin after the revision. */
  isResumable(afterRevision: Revision): boolean {
    return this.#oldestInstead(afterRevision) === null
  }

  /** Returns the oldest revision to resume from, or null if the given one is resumable. */
  #oldestInstead(afterRevision: Revision): Revision | null {
    if (this.#isBeforeReread(afterRevision)) return nextRevision(this.#reread!.revision)
    const floor = this.#ring.floorRevision
    if (afterRevision < floor) return nextRevision(floor)
    const gap = this.#gaps.around(afterRevision)
    return gap === undefined ? null : nextRevision(gap.until)
  }

  /**
   * At the very revision of a `reread`, a client may hold objects in either form. The earlier one is likely only for as
   * long as reconnecting takes. After that, a list at this revision must not be called too old, because in an etcd to
   * which nobody writes the next list would be at the same.
   */
  #isBeforeReread(afterRevision: Revision): boolean {
    if (this.#reread === null || afterRevision > this.#reread.revision) return false
    const { revision, ms } = this.#reread
    return afterRevision < revision || this.#state.options.clock.monotonic() < ms + KEPT_HISTORY_MS
  }

  /**
   * Whether every event after `revision` is in the ring or still to come. Unlike `isResumable`, this is also true for
   * who holds the objects in their present form at a revision before which others hold them in an earlier one.
   */
  canResumeAfter(revision: Revision): boolean {
    return revision >= this.#ring.floorRevision && this.#gaps.around(revision) === undefined
  }

  /**
   * Returns the first batch after `afterRevision`; undefined if there is none. Check `floorRevision` first. O(log n).
   */
  batchAfter(afterRevision: Revision): CacheBatch | undefined {
    return this.#ring.after(afterRevision)
  }

  /**
   * Returns the state at an earlier revision by walking the ring back in turns of the event loop, or null if the ring
   * does not reach that far.
   */
  async stateAt(revision: Revision): Promise<Snapshot | null> {
    const present = this.#state.snapshot()
    const { unservableCount, history } = present
    const store = present.toStore()
    // `store` contains all batches up to this revision.
    let position = present.revision
    while (true) {
      if (turns.isOver) await turns.take()
      // In the meantime, the ring may have evicted a batch that is needed here, or the cache may have switched to
      // another history.
      if (this.#state.history !== history || !this.canResumeAfter(revision)) return null
      const batch = this.#ring.upTo(position)
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

  /**
   * Returns the digest of the state at a revision not above this cache's. Every cache that held the same objects at
   * that revision returns the same digest.
   * @throws RevisionExpiredError when no watch can begin after the revision.
   */
  async digestAt(revision: Revision): Promise<string> {
    // Repeat if a reset has replaced `#positions` in the meantime, or if batches have arrived that one round did not
    // add up.
    while (this.isResumable(revision)) {
      const digest = await this.#positions.digestAt(revision)
      if (digest !== null) return digest
    }
    throw new RevisionExpiredError(revision, this.#oldestInstead(revision) ?? revision)
  }

  /**
   * Returns the digest of a snapshot read through this cache, which may be ahead of the cache; null when no watch can
   * begin after its revision.
   */
  async digestOf(snapshot: Snapshot): Promise<string | null> {
    const { revision, history } = snapshot
    if (revision > this.#state.revision || history !== this.#state.history) return await digestOf(snapshot)
    return this.isResumable(revision) ? await this.digestAt(revision) : null
  }

  /** Changes the limits of the history and evicts batches that exceed them at once. */
  setBounds(bounds: RingBounds): void {
    const cutBefore = this.#ring.cutShort
    this.#ring.setBounds(bounds, this.#state.options.clock.monotonic())
    this.#noteCuts(cutBefore)
  }

  /** Frees memory by evicting history, never the latest objects. */
  shrinkTo(maxBytes: number): void {
    this.#ring.shrinkTo(maxBytes)
  }

  /** Evicts history by age. A slow timer calls this, because a quiet resource appends nothing and so evicts nothing. */
  evictByAge(): void {
    this.#ring.evictOlderThan(this.#state.options.clock.monotonic() - this.#ring.bounds.maxAgeMs)
  }

  // For `watch-cache.ts`

  append(batch: CacheBatch): void {
    const cutBefore = this.#ring.cutShort
    this.#ring.append(batch)
    this.#noteCuts(cutBefore)
  }

  /** No watch can begin between the two revisions, because the cache never saw those between them one by one. */
  addGap(after: Revision, until: Revision): void {
    for (const listener of this.#gapListeners) listener(until)
    this.#gaps.add({ after, until }, this.#ring.floorRevision)
  }

  seeking(isSeeking: boolean): void {
    this.#isSeeking = isSeeking
    if (!isSeeking) this.#seekers.reached(SOUGHT)
  }

  /**
   * Puts older batches before the oldest. Does nothing if the history no longer begins where they end, or if it begins
   * with another state.
   * @returns whether they are there now.
   */
  precede(batches: readonly CacheBatch[], { after, until, keys, store }: Older): boolean {
    const replaced = new Map<Key, StoredObject | null>()
    for (let i = this.#ring.length - 1; i >= 0; i--) {
      for (const { object, previous } of this.#ring.at(i)!.events) replaced.set((object ?? previous)!.key, previous)
    }
    const { store: present } = this.#state.held
    const revisionOf = (key: Key): Revision | undefined => {
      const object = replaced.get(key)
      return (object === undefined ? present.get(key) : object)?.modRevision
    }
    const isSame = [...keys].every((key) => store.get(key)?.modRevision === revisionOf(key))
    if (this.#ring.floorRevision !== until || !isSame) return false
    this.#ring.prepend(batches, after)
    this.#renewPositions()
    return true
  }

  /** Restarts the history after `revision`. */
  restart(revision: Revision, isOtherHistory: boolean): void {
    if (isOtherHistory) {
      this.#state.beginHistory()
      this.#reread = null
    }
    this.#gaps.clear()
    this.#ring.reset(revision, this.#state.options.clock.monotonic())
    this.#renewPositions()
  }

  #renewPositions(): void {
    this.#positions.close()
    this.#positions = new Positions(this.#ring, this.#state)
  }

  /**
   * The same objects are presented differently from now on. Watches cannot resume from an earlier revision, because
   * their clients hold objects in the old form and must list again.
   * @param revision null if no client of this cache can hold objects yet.
   */
  reread(revision: Revision | null): void {
    this.#state.beginHistory()
    this.#reread = revision && { revision, ms: this.#state.options.clock.monotonic() }
  }

  /** Logs that the byte limit has evicted batches before their minimum time. */
  #noteCuts(cutBefore: number): void {
    const batches = this.#ring.cutShort - cutBefore
    if (batches === 0) return
    const { clock, logger, metrics } = this.#state.options
    metrics.historyCut(batches)
    if (clock.monotonic() - this.#cutLoggedAtMs < CUT_LOG_GAP_MS) return
    this.#cutLoggedAtMs = clock.monotonic()
    const { oldestMs } = this.stats
    const keptSeconds = oldestMs === null ? 0 : Math.round((clock.monotonic() - oldestMs) / 1000)
    logger.warn(
      { resource: this.#state.name, keptSeconds, bytes: this.#ring.bounds.maxBytes },
      'history is shorter than a reconnect may take; raise --watch-cache-bytes',
    )
  }
}
