/**
 * The in-process store with switches for faults that are hard to provoke in a real etcd, and a view of the inside.
 */
import type { Batch, Key } from '../../src/engine/model/event.js'
import type { Revision } from '../../src/engine/model/revision.js'
import {
  EmbeddedUpstream,
  type EmbeddedUpstreamOptions as StoreOptions,
} from '../../src/engine/upstream/embedded/embedded-upstream.js'
import type { MvccStore } from '../../src/engine/upstream/embedded/mvcc-store.js'
import { type HubWatch, WatchHub } from '../../src/engine/upstream/embedded/watch-hub.js'
import {
  UpstreamError,
  type UpstreamStatus,
  type UpstreamWatch,
  type UpstreamWatchOptions,
  type WatchHandlers,
} from '../../src/engine/upstream/upstream.js'
import { type Clock, sleep } from '../../src/support/clock.js'

export interface EmbeddedUpstreamOptions extends StoreOptions {
  /**
   * Whether to behave like etcd from 3.4.31 or 3.5.13 on, or like an older one that leaves progress requests
   * unanswered. Default: true.
   */
  readonly trustsProgress?: boolean
}

/** A backup: the whole history and the leases at one moment. */
export interface EmbeddedSnapshot {
  readonly revision: Revision
}

interface Backup extends EmbeddedSnapshot {
  readonly store: MvccStore
  readonly leaseTimes: ReadonlyMap<string, number>
}

export type EmbeddedControls = FaultyStore

export function createEmbeddedUpstream(options: EmbeddedUpstreamOptions = {}): FaultyStore {
  return new FaultyStore(options)
}

class FaultyHub extends WatchHub {
  readonly #clock: Clock
  readonly #held = new Set<Key>()
  readonly #idleCallbacks: (() => void)[] = []
  isStalled = false
  deliveryDelayMs = 0
  answersProgress = true
  /** Why new watches are refused; null if they are not. */
  refusal: UpstreamError | null = null

  constructor(store: MvccStore, clock: Clock, progressIntervalMs: number) {
    super(store, clock, progressIntervalMs)
    this.#clock = clock
  }

  get size(): number {
    return this.watches.size
  }

  override watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    const watch = super.watch(options, handlers)
    const newest = [...this.watches].at(-1)
    if (newest !== undefined && this.refusal !== null) newest.end ??= { kind: 'failed', error: this.refusal }
    return this.answersProgress ? watch : { ...watch, requestProgress: () => {} }
  }

  protected override later(pass: () => void): void {
    const passed = (): void => {
      pass()
      if (this.isScheduled) return
      for (const callback of this.#idleCallbacks.splice(0)) callback()
    }
    if (this.deliveryDelayMs === 0) super.later(passed)
    else this.#clock.setTimer(this.deliveryDelayMs, passed)
  }

  protected override isDeliverable({ prefix }: HubWatch): boolean {
    return !this.isStalled && ![...this.#held].some((held) => prefix.startsWith(held))
  }

  delivered(): Promise<void> {
    if (!this.isScheduled) return Promise.resolve()
    return new Promise((resolve) => this.#idleCallbacks.push(resolve))
  }

  cut(error: UpstreamError): void {
    for (const watch of this.watches) watch.end ??= { kind: 'failed', error }
    this.wake()
  }

  hold(prefix: Key): void {
    this.#held.add(prefix)
  }

  release(prefix?: Key): void {
    if (prefix === undefined) this.#held.clear()
    else this.#held.delete(prefix)
    this.wake()
  }

  replaceStore(store: MvccStore): void {
    this.store = store
  }
}

export class FaultyStore extends EmbeddedUpstream {
  readonly #hub: FaultyHub
  readonly #trustsProgress: boolean
  readonly #readFailures = new Map<Key, UpstreamError>()
  readonly #stalledRequests = new Set<() => void>()
  #isUnavailable = false
  #isStalled = false
  #writeFailure: UpstreamError | null = null
  #delays = { readMs: 0, writeMs: 0, watchMs: 0 }

  constructor({ trustsProgress = true, ...options }: EmbeddedUpstreamOptions) {
    let opened!: FaultyHub
    super(options, (...hub) => (opened = new FaultyHub(...hub)))
    this.#hub = opened
    this.#hub.answersProgress = trustsProgress
    this.#trustsProgress = trustsProgress
  }

  get revision(): Revision {
    return this.store.revision
  }

  get compactRevision(): Revision {
    return this.store.compactRevision
  }

  get watchCount(): number {
    return this.#hub.size
  }

  override async status(signal?: AbortSignal): Promise<UpstreamStatus> {
    return { ...(await super.status(signal)), trustsProgress: this.#trustsProgress }
  }

  override close(): Promise<void> {
    this.setStalled(false)
    return super.close()
  }

  /** Returns every batch still in the history, oldest first, for comparison with what watchers got. */
  history(): readonly Batch[] {
    const batches: Batch[] = []
    let batch = this.store.batchAt(this.revision)
    while (batch !== undefined) {
      batches.push(batch)
      batch = this.store.batchAt((batch.revision - 1) as Revision)
    }
    return batches.reverse()
  }

  /** Compacts as `etcdctl compact` does. @throws UpstreamError `compacted`, `future-revision` */
  compact(revision: Revision): void {
    this.store.compact(revision)
    this.#hub.wake()
  }

  /** Ends every watch as if its connection broke; undelivered events are dropped. Default: `unavailable`. */
  cutWatches(error: UpstreamError = new UpstreamError('unavailable', 'the connection was cut')): void {
    this.#hub.cut(error)
  }

  /** Reads, writes and new watches fail at once with `unavailable`; running watches fall silent. */
  setUnavailable(isUnavailable: boolean): void {
    this.#isUnavailable = isUnavailable
    this.#hub.refusal = isUnavailable ? unavailableError() : null
    this.#stallHub()
  }

  /** Nothing is refused and nothing is answered until released: connections stay open without bytes. */
  setStalled(isStalled: boolean): void {
    this.#isStalled = isStalled
    if (!isStalled) for (const answer of this.#stalledRequests) answer()
    this.#stallHub()
  }

  /** Makes reads under the prefix (by default all) fail with this error; null ends it. */
  failReads(error: UpstreamError | null, prefix: Key = '' as Key): void {
    if (error === null) this.#readFailures.delete(prefix)
    else this.#readFailures.set(prefix, error)
  }

  /** Makes new watches fail with this error; null ends it. */
  failWatches(error: UpstreamError | null): void {
    this.#hub.refusal = error
  }

  /** Makes writes fail with this error; null ends it. */
  failWrites(error: UpstreamError | null): void {
    this.#writeFailure = error
  }

  /** Watches whose prefix starts with this get nothing, and their progress requests stay unanswered. */
  holdDelivery(prefix: Key): void {
    this.#hub.hold(prefix)
  }

  /** Ends one hold, by default all. */
  releaseDelivery(prefix?: Key): void {
    this.#hub.release(prefix)
  }

  /** Sets how long answers take from now on, in milliseconds of the given clock. */
  setDelays(delays: { readonly readMs?: number; readonly writeMs?: number; readonly watchMs?: number }): void {
    this.#delays = { ...this.#delays, ...delays }
    this.#hub.deliveryDelayMs = this.#delays.watchMs
  }

  /** Resolves when every watch that is not held has been given all events. */
  delivered(): Promise<void> {
    return this.#hub.delivered()
  }

  snapshot(): EmbeddedSnapshot {
    const backup: Backup = {
      revision: this.store.revision,
      store: this.store.clone(),
      leaseTimes: this.leases.times(),
    }
    return backup
  }

  /**
   * Behaves like an etcd restored from a backup: the whole history is replaced, so the revision usually goes back, and
   * every watch is cut. A restore creates a new cluster id unless the old one is forced; pass it to simulate that.
   */
  restore(snapshot: EmbeddedSnapshot, options: { readonly clusterId?: string } = {}): void {
    const { store, leaseTimes } = snapshot as Backup
    this.store = store.clone()
    this.clusterId = options.clusterId ?? this.newClusterId()
    this.leases.restore(leaseTimes)
    for (const { key, leaseId } of this.peek('' as Key)) this.leases.attach(key, leaseId)
    this.#hub.replaceStore(this.store)
    this.cutWatches(new UpstreamError('unavailable', 'the server was restored from a backup'))
  }

  /** Every request waits for its delay and for the end of a stall, and is refused while the store is unavailable. */
  protected override async admit(
    request: 'read' | 'status' | 'write' | 'drop',
    signal?: AbortSignal,
    prefix?: Key,
  ): Promise<void> {
    await this.#admitNow(request, signal)
    const { readMs, writeMs } = this.#delays
    const delayMs = request === 'read' || request === 'status' ? readMs : writeMs
    if (delayMs > 0) await sleep(this.clock, delayMs, signal)
    if (this.#isStalled) await this.#untilAnswered(signal)
    await this.#admitNow(request, signal)
    for (const [under, error] of this.#readFailures) if (prefix?.startsWith(under) === true) throw error
    if (request === 'write' && this.#writeFailure !== null) throw this.#writeFailure
  }

  async #admitNow(request: 'read' | 'status' | 'write' | 'drop', signal: AbortSignal | undefined): Promise<void> {
    await super.admit(request, signal)
    if (this.#isUnavailable) throw unavailableError()
  }

  /** Resolves when the stall ends or the signal aborts. */
  #untilAnswered(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#stalledRequests.delete(done)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      this.#stalledRequests.add(done)
      signal?.addEventListener('abort', done, { once: true })
    })
  }

  #stallHub(): void {
    this.#hub.isStalled = this.#isUnavailable || this.#isStalled
    this.#hub.wake()
  }
}

function unavailableError(): UpstreamError {
  return new UpstreamError('unavailable', 'the embedded store is set to be unavailable')
}
