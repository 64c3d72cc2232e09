/**
 * An upstream in this process that obeys etcd's documented rules. It is used when no etcd is configured.
 *
 * It does not replace etcd, because nothing is kept on disk and everything is lost when the process ends. Storage,
 * watches and leases are in separate files; this file implements the interface and the limits.
 * `test/support/faulty-store.ts` adds faults.
 */
import type { Batch, Key, KeyValue } from '../../model/event.js'
import type { Revision } from '../../model/revision.js'
import { type Clock, systemClock } from '../../../support/clock.js'
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
  /** How often a quiet watch gets a progress notification. Default: 5,000 ms, as Kubernetes configures its etcd. */
  readonly progressIntervalMs?: number
  /**
   * The number of revisions that stay readable and watchable. With too few, a short disconnect leads to a relist.
   * Default: 100,000.
   */
  readonly historyRevisions?: number
  /** The bytes of keys and values in that history. Default: 64 MiB. */
  readonly historyBytes?: number
  /** The most keys in one page. Default: 10,000. */
  readonly pageKeys?: number
  /** The largest write, as with etcd's `--max-request-bytes`. Default: 1.5 MiB. */
  readonly maxRequestBytes?: number
}

/** etcd's `--max-txn-ops`. */
const maxOperations = 128

export class EmbeddedUpstream implements Upstream {
  readonly areKeysCheap = true
  protected readonly clock: Clock
  protected readonly leases: Leases
  protected store: MvccStore
  protected clusterId: string
  readonly #hub: WatchHub
  readonly #random: Random
  readonly #pageKeys: number
  readonly #maxRequestBytes: number
  #isClosed = false

  /** @param openHub opens the watches of the store. */
  constructor(
    options: EmbeddedUpstreamOptions = {},
    openHub: (...hub: ConstructorParameters<typeof WatchHub>) => WatchHub = (...hub) => new WatchHub(...hub),
  ) {
    this.clock = options.clock ?? systemClock
    this.#random = options.random ?? systemRandom
    this.clusterId = options.clusterId ?? this.newClusterId()
    this.#pageKeys = options.pageKeys ?? 10_000
    this.#maxRequestBytes = options.maxRequestBytes ?? 1.5 * 1024 * 1024
    this.store = new MvccStore({
      historyRevisions: options.historyRevisions ?? 100_000,
      historyBytes: options.historyBytes ?? 64 * 1024 * 1024,
    })
    this.#hub = openHub(this.store, this.clock, options.progressIntervalMs ?? 5_000)
    this.leases = new Leases(this.clock, (keys) => {
      this.commit(keys.map((key) => ({ type: 'delete', key })))
    })
  }

  async read(options: ReadOptions): Promise<Page> {
    const { prefix, startKey = prefix, limit, keysOnly = false, signal } = options
    await this.admit('read', signal, prefix)
    const { revision: currentRevision } = this.store
    const revision = options.revision ?? currentRevision
    const most = Math.min(limit ?? this.#pageKeys, this.#pageKeys)
    const { keyValues, more, count } = this.store.range(prefix, startKey, revision, most)
    return { revision, currentRevision, keyValues: keysOnly ? keyValues.map(withoutValue) : keyValues, more, count }
  }

  async readKey(key: Key, options: { revision?: Revision; signal?: AbortSignal } = {}): Promise<KeyValue | null> {
    await this.admit('read', options.signal, key)
    return this.store.get(key, options.revision)
  }

  async currentRevision(signal?: AbortSignal): Promise<Revision> {
    await this.admit('status', signal)
    return this.store.revision
  }

  async status(signal?: AbortSignal): Promise<UpstreamStatus> {
    await this.admit('status', signal)
    return { clusterId: this.clusterId, serverVersions: ['embedded'], trustsProgress: true }
  }

  watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    return this.#hub.watch(options, handlers)
  }

  async write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    await this.admit('write')
    this.#checkWrite(compares, operations)
    const current = compares.map(({ key }) => this.store.get(key))
    const isEqual = compares.every(({ modRevision }, i) => (current[i]?.modRevision ?? 0) === modRevision)
    if (!isEqual) return { kind: 'conflict', revision: this.store.revision, current }
    this.commit(operations)
    return { kind: 'written', revision: this.store.revision }
  }

  async grantLease(ttlSeconds: number): Promise<string> {
    await this.admit('write')
    if (!(ttlSeconds > 0)) throw new UpstreamError('protocol', `lease time ${ttlSeconds} s is not above 0`)
    return this.leases.grant(ttlSeconds)
  }

  async dropLease(leaseId: string): Promise<void> {
    await this.admit('drop')
    this.leases.drop(leaseId)
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.leases.close()
    this.#hub.close()
    return Promise.resolve()
  }

  /** Writes without the conditions and limits of a transaction. Returns null when nothing has changed. */
  commit(operations: readonly WriteOperation[]): Batch | null {
    const batch = this.store.apply(operations)
    if (batch === null) return null
    for (const event of batch.events) {
      if (event.type === 'put') this.leases.attach(event.keyValue.key, event.keyValue.leaseId)
      else this.leases.detach(event.key)
    }
    this.#hub.wake()
    return batch
  }

  /** Returns the current keys and values under the prefix, sorted by key. */
  peek(prefix: Key): readonly KeyValue[] {
    return this.store.range(prefix, prefix, this.store.revision, Number.POSITIVE_INFINITY).keyValues
  }

  /**
   * Every request waits here until it may be answered.
   * @param _prefix the prefix of the keys that are read.
   * @throws UpstreamError
   */
  protected async admit(
    _request: 'read' | 'status' | 'write' | 'drop',
    signal?: AbortSignal,
    _prefix?: Key,
  ): Promise<void> {
    if (signal?.aborted) throw new UpstreamError('unavailable', 'the request was aborted', { cause: signal.reason })
    if (this.#isClosed) throw new UpstreamError('unavailable', 'the embedded store is closed')
  }

  /** Returns 64 random bits in decimal. */
  protected newClusterId(): string {
    const bits = (): bigint => BigInt(Math.floor(this.#random.next() * 2 ** 32))
    return ((bits() << 32n) | bits()).toString()
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
      if (leaseId !== '0' && !this.leases.has(leaseId)) {
        throw new UpstreamError('lease-not-found', `requested lease not found: ${leaseId}`)
      }
    }
    if (bytes > this.#maxRequestBytes) {
      throw new UpstreamError('too-large', `the request has ${bytes} bytes, and the limit is ${this.#maxRequestBytes}`)
    }
  }
}

const noValue = Buffer.alloc(0)

function withoutValue(keyValue: KeyValue): KeyValue {
  return { ...keyValue, value: noValue }
}
