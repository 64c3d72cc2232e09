/**
 * An upstream in this process that obeys etcd's documented rules. It is used when no etcd is configured, and in tests,
 * where switches simulate faults that are hard to provoke in a real etcd.
 *
 * It does not replace etcd: nothing is kept on disk, and everything is lost when the process ends. Storage, watches and
 * leases have separate files; this one has the interface, the limits and the faults.
 */
import type { Batch, Key, KeyValue } from '../../model/event.js'
import type { Revision } from '../../model/revision.js'
import { type Clock, sleep, systemClock } from '../../../support/clock.js'
import { type Random, systemRandom } from '../../../support/random.js'
import {
  type Compare,
  type Page,
  type ReadOptions,
  type Upstream,
  UpstreamError,
  type UpstreamStatus,
  type UpstreamWatch,
  type WatchHandlers,
  type UpstreamWatchOptions,
  type WriteOperation,
  type WriteResult,
} from '../upstream.js'
import { Leases } from './leases.js'
import { MvccStore } from './mvcc-store.js'
import { WatchHub } from './watch-hub.js'

export interface EmbeddedUpstreamOptions {
  readonly clock?: Clock
  readonly random?: Random
  /** Decimal text. Default: random. */
  readonly clusterId?: string
  /**
   * Whether to behave like etcd from 3.4.31 or 3.5.13 on, or like an older one that leaves progress requests
   * unanswered. Default: true.
   */
  readonly trustsProgress?: boolean
  /** How often a quiet watch is sent its progress. Default: 5,000 ms, as Kubernetes configures its etcd. */
  readonly progressIntervalMs?: number
  /**
   * The number of revisions that stay readable and watchable; too few turn a short disconnect into a relist. Default:
   * 100,000.
   */
  readonly historyRevisions?: number
  /** The bytes of keys and values in that history. Default: 64 MiB. */
  readonly historyBytes?: number
  /** The most keys of one page. Default: 10,000. */
  readonly pageKeys?: number
  /** etcd's `--max-request-bytes`, the most that one write may carry. Default: 1.5 MiB. */
  readonly maxRequestBytes?: number
}

/** A backup: the whole history and the leases at one moment. */
export interface EmbeddedSnapshot {
  readonly revision: Revision
}

/** Controls that no real etcd has: faults, and a view of the inside. */
export interface EmbeddedControls {
  readonly revision: Revision
  readonly compactRevision: Revision
  readonly watchCount: number
  /** Writes as another client would, unaffected by this client's faults. Returns null when nothing changed. */
  commit(operations: readonly WriteOperation[]): Batch | null
  /** Returns what is stored now under the prefix, sorted by key, whatever faults are set. */
  peek(prefix: Key): readonly KeyValue[]
  /** Returns every batch still in the history, oldest first, for comparison with what watchers got. */
  history(): readonly Batch[]
  /** Compacts as `etcdctl compact` does. @throws UpstreamError `compacted`, `future-revision` */
  compact(revision: Revision): void
  /** Ends every watch as if its connection broke. Default: `unavailable`. */
  cutWatches(error?: UpstreamError): void
  /** Reads, writes and new watches fail at once with `unavailable`; running watches fall silent. */
  setUnavailable(isUnavailable: boolean): void
  /** Nothing is refused and nothing is answered until released: connections stay open without bytes. */
  setStalled(isStalled: boolean): void
  /** Makes reads under the prefix (by default all) fail with this error; null ends it. */
  failReads(error: UpstreamError | null, prefix?: Key): void
  /** Makes writes fail with this error; null ends it. */
  failWrites(error: UpstreamError | null): void
  /** Watches whose prefix starts with this get nothing, and their progress requests stay unanswered. */
  holdDelivery(prefix: Key): void
  /** Ends one hold, by default all. */
  releaseDelivery(prefix?: Key): void
  /** Sets how long answers take from now on, in milliseconds of the given clock. */
  setDelays(delays: { readonly readMs?: number; readonly writeMs?: number; readonly watchMs?: number }): void
  /** Resolves when every watch that is not held has been given all events. */
  delivered(): Promise<void>
  snapshot(): EmbeddedSnapshot
  /**
   * Behaves like an etcd restored from a backup: the whole history is replaced, so the revision usually goes back, and
   * every watch is cut. A restore creates a new cluster id unless the old one is forced; pass it to simulate that.
   */
  restore(snapshot: EmbeddedSnapshot, options?: { readonly clusterId?: string }): void
}

interface Backup extends EmbeddedSnapshot {
  readonly store: MvccStore
  readonly leaseTimes: ReadonlyMap<string, number>
}

/** etcd's `--max-txn-ops`. */
const maxOperations = 128

export function createEmbeddedUpstream(options: EmbeddedUpstreamOptions = {}): Upstream & EmbeddedControls {
  return new EmbeddedUpstream(options)
}

class EmbeddedUpstream implements Upstream, EmbeddedControls {
  readonly #clock: Clock
  readonly #random: Random
  readonly #trustsProgress: boolean
  readonly #pageKeys: number
  readonly #maxRequestBytes: number
  readonly #leases: Leases
  readonly #hub: WatchHub
  readonly #readFailures = new Map<Key, UpstreamError>()
  #store: MvccStore
  #clusterId: string
  #isClosed = false
  #isUnavailable = false
  #isStalled = false
  readonly #stalledRequests = new Set<() => void>()
  #writeFailure: UpstreamError | null = null
  #delays = { readMs: 0, writeMs: 0, watchMs: 0 }

  constructor(options: EmbeddedUpstreamOptions) {
    this.#clock = options.clock ?? systemClock
    this.#random = options.random ?? systemRandom
    this.#clusterId = options.clusterId ?? this.#newClusterId()
    this.#trustsProgress = options.trustsProgress ?? true
    this.#pageKeys = options.pageKeys ?? 10_000
    this.#maxRequestBytes = options.maxRequestBytes ?? 1.5 * 1024 * 1024
    this.#store = new MvccStore({
      historyRevisions: options.historyRevisions ?? 100_000,
      historyBytes: options.historyBytes ?? 64 * 1024 * 1024,
    })
    this.#hub = new WatchHub(this.#store, {
      clock: this.#clock,
      trustsProgress: this.#trustsProgress,
      progressIntervalMs: options.progressIntervalMs ?? 5_000,
    })
    this.#leases = new Leases(this.#clock, (keys) => {
      this.commit(keys.map((key) => ({ type: 'delete', key })))
    })
  }

  async read(options: ReadOptions): Promise<Page> {
    const { prefix, startKey = prefix, limit, keysOnly = false, signal } = options
    await this.#answerable(this.#delays.readMs, signal)
    this.#checkRead(prefix)
    const { revision: currentRevision } = this.#store
    const revision = options.revision ?? currentRevision
    const most = Math.min(limit ?? this.#pageKeys, this.#pageKeys)
    const { keyValues, more, count } = this.#store.range(prefix, startKey, revision, most)
    return { revision, currentRevision, keyValues: keysOnly ? keyValues.map(withoutValue) : keyValues, more, count }
  }

  async readKey(key: Key, options: { revision?: Revision; signal?: AbortSignal } = {}): Promise<KeyValue | null> {
    await this.#answerable(this.#delays.readMs, options.signal)
    this.#checkRead(key)
    return this.#store.get(key, options.revision)
  }

  async currentRevision(signal?: AbortSignal): Promise<Revision> {
    await this.#answerable(this.#delays.readMs, signal)
    return this.#store.revision
  }

  async status(signal?: AbortSignal): Promise<UpstreamStatus> {
    await this.#answerable(this.#delays.readMs, signal)
    return {
      clusterId: this.#clusterId,
      serverVersions: ['embedded'],
      trustsProgress: this.#trustsProgress,
    }
  }

  watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    return this.#hub.watch(options, handlers, this.#isUnavailable ? unavailableError() : null)
  }

  async write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    await this.#answerable(this.#delays.writeMs)
    if (this.#writeFailure !== null) throw this.#writeFailure
    this.#checkWrite(compares, operations)
    const current = compares.map(({ key }) => this.#store.get(key))
    const isEqual = compares.every(({ modRevision }, i) => (current[i]?.modRevision ?? 0) === modRevision)
    if (!isEqual) return { kind: 'conflict', revision: this.#store.revision, current }
    this.commit(operations)
    return { kind: 'written', revision: this.#store.revision }
  }

  async grantLease(ttlSeconds: number): Promise<string> {
    await this.#answerable(this.#delays.writeMs)
    if (this.#writeFailure !== null) throw this.#writeFailure
    if (!(ttlSeconds > 0)) throw new UpstreamError('protocol', `lease time ${ttlSeconds} s is not above 0`)
    return this.#leases.grant(ttlSeconds)
  }

  async dropLease(leaseId: string): Promise<void> {
    await this.#answerable(this.#delays.writeMs)
    this.#leases.drop(leaseId)
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.setStalled(false)
    this.#leases.close()
    this.#hub.close()
    return Promise.resolve()
  }

  get revision(): Revision {
    return this.#store.revision
  }

  get compactRevision(): Revision {
    return this.#store.compactRevision
  }

  get watchCount(): number {
    return this.#hub.size
  }

  commit(operations: readonly WriteOperation[]): Batch | null {
    const batch = this.#store.apply(operations)
    if (batch === null) return null
    for (const event of batch.events) {
      if (event.type === 'put') this.#leases.attach(event.keyValue.key, event.keyValue.leaseId)
      else this.#leases.detach(event.key)
    }
    this.#hub.wake()
    return batch
  }

  peek(prefix: Key): readonly KeyValue[] {
    return this.#store.range(prefix, prefix, this.#store.revision, Number.POSITIVE_INFINITY).keyValues
  }

  history(): readonly Batch[] {
    return this.#store.batches()
  }

  compact(revision: Revision): void {
    this.#store.compact(revision)
    this.#hub.wake()
  }

  cutWatches(error: UpstreamError = new UpstreamError('unavailable', 'the connection was cut')): void {
    this.#hub.cut(error)
  }

  setUnavailable(isUnavailable: boolean): void {
    this.#isUnavailable = isUnavailable
    this.#hub.setStalled(isUnavailable || this.#isStalled)
  }

  setStalled(isStalled: boolean): void {
    this.#isStalled = isStalled
    if (!isStalled) for (const answer of this.#stalledRequests) answer()
    this.#hub.setStalled(this.#isUnavailable || isStalled)
  }

  failReads(error: UpstreamError | null, prefix: Key = '' as Key): void {
    if (error === null) this.#readFailures.delete(prefix)
    else this.#readFailures.set(prefix, error)
  }

  failWrites(error: UpstreamError | null): void {
    this.#writeFailure = error
  }

  holdDelivery(prefix: Key): void {
    this.#hub.hold(prefix)
  }

  releaseDelivery(prefix?: Key): void {
    this.#hub.release(prefix)
  }

  setDelays(delays: { readonly readMs?: number; readonly writeMs?: number; readonly watchMs?: number }): void {
    this.#delays = { ...this.#delays, ...delays }
    this.#hub.setDeliveryDelay(this.#delays.watchMs)
  }

  delivered(): Promise<void> {
    return this.#hub.delivered()
  }

  snapshot(): EmbeddedSnapshot {
    const backup: Backup = {
      revision: this.#store.revision,
      store: this.#store.clone(),
      leaseTimes: this.#leases.times(),
    }
    return backup
  }

  restore(snapshot: EmbeddedSnapshot, options: { readonly clusterId?: string } = {}): void {
    const { store, leaseTimes } = snapshot as Backup
    this.#store = store.clone()
    this.#clusterId = options.clusterId ?? this.#newClusterId()
    this.#leases.restore(leaseTimes)
    const { keyValues } = this.#store.range('' as Key, '' as Key, this.#store.revision, Number.POSITIVE_INFINITY)
    for (const { key, leaseId } of keyValues) this.#leases.attach(key, leaseId)
    this.#hub.replaceStore(this.#store)
    this.cutWatches(new UpstreamError('unavailable', 'the server was restored from a backup'))
  }

  /**
   * Every request waits here for its delay and for the end of a stall, and is refused while the store is unavailable.
   */
  async #answerable(delayMs: number, signal?: AbortSignal): Promise<void> {
    this.#refuse(signal)
    if (delayMs > 0) await sleep(this.#clock, delayMs, signal)
    if (this.#isStalled) await this.#untilAnswered(signal)
    this.#refuse(signal)
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

  /** @throws UpstreamError */
  #refuse(signal: AbortSignal | undefined): void {
    if (signal?.aborted) throw new UpstreamError('unavailable', 'the request was aborted', { cause: signal.reason })
    if (this.#isUnavailable) throw unavailableError()
    if (this.#isClosed) throw new UpstreamError('unavailable', 'the embedded store is closed')
  }

  #checkRead(prefix: Key): void {
    for (const [under, error] of this.#readFailures) if (prefix.startsWith(under)) throw error
  }

  #checkWrite(compares: readonly Compare[], operations: readonly WriteOperation[]): void {
    if (Math.max(compares.length, operations.length) > maxOperations) {
      throw new UpstreamError('protocol', `more than ${maxOperations} operations in one transaction`)
    }
    let bytes = 0
    for (const operation of operations) {
      bytes += operation.key.length
      if (operation.type === 'delete') continue
      bytes += operation.value.length
      const { leaseId = '0' } = operation
      if (leaseId !== '0' && !this.#leases.has(leaseId)) {
        throw new UpstreamError('protocol', `requested lease not found: ${leaseId}`)
      }
    }
    if (bytes > this.#maxRequestBytes) {
      throw new UpstreamError('too-large', `a request of ${bytes} bytes, at most ${this.#maxRequestBytes}`)
    }
  }

  /** Returns 64 random bits in decimal. */
  #newClusterId(): string {
    const bits = (): bigint => BigInt(Math.floor(this.#random.next() * 2 ** 32))
    return ((bits() << 32n) | bits()).toString()
  }
}

function unavailableError(): UpstreamError {
  return new UpstreamError('unavailable', 'the embedded store is set to be unavailable')
}

const noValue = Buffer.alloc(0)

function withoutValue(keyValue: KeyValue): KeyValue {
  return { ...keyValue, value: noValue }
}
