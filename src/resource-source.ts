/**
 * One etcd prefix from its upstream to its watchers: feed → cache → broadcast, wired together. However many versions of a
 * resource are served from it, etcd sees one watch.
 */
import { Broadcaster } from './broadcast/broadcaster.js'
import type { Pump } from './broadcast/pump.js'
import { WatchCache } from './cache/watch-cache.js'
import { createIngest } from './codec/ingest.js'
import { keyValueObject } from './dialect/key-value-object.js'
import { Feed } from './feed/feed.js'
import { Freshness } from './feed/freshness.js'
import type { Metrics, ResourceGauges, ResourceMetrics } from './metrics/metrics.js'
import { type Resource, resourceId } from './model/resource.js'
import type { StatusError } from './model/status.js'
import type { StoredObject } from './model/stored-object.js'
import type { Clock } from './support/clock.js'
import type { Limiter } from './support/limiter.js'
import type { Logger } from './support/log.js'
import type { Random } from './support/random.js'
import type { Upstream } from './upstream/upstream.js'

export interface ResourceSourceOptions {
  readonly upstream: Upstream
  /** The JSON of what is stored, for selectors. null: it has none. */
  readonly jsonOf: (resource: Resource, object: StoredObject, onlyMetadata: boolean) => Buffer | null
  readonly onInternalError: (error: StatusError) => void
  readonly pump: Pump
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** Shared by all: how many list and replay at once. */
  readonly turns: Limiter
  readonly ring: { readonly maxItems: number; readonly maxBytes: number; readonly maxAgeMs: number }
  readonly backfillRevisions: number
  readonly onGap: 'expire' | 'coalesce'
  readonly bookmarkIntervalMs: number
  readonly maxValueBytes: number
}

/** A share of the ring's bytes is the most that one group's log and the frames for lagging cursors may take. */
const LOG_SHARE = 1 / 8
const REPLAY_SHARE = 1 / 8
const PAGE_KEYS = 1_000
const REQUEST_TIMEOUT_MS = 15_000
const STATE_TIMEOUT_MS = 30_000
const REFUSED_RETRY_MS = 30_000

export class ResourceSource {
  readonly cache: WatchCache
  readonly broadcaster: Broadcaster
  readonly feed: Feed
  readonly metrics: ResourceMetrics
  readonly #clock: Clock

  /** @param resource one of those served from it: it gives names to logs and metrics, and the shape of keys. */
  constructor(
    readonly resource: Resource,
    options: ResourceSourceOptions,
  ) {
    const { upstream, clock, random, logger, ring } = options
    const name = resourceId(resource)
    const prefix = resource.etcdPrefix
    this.#clock = clock
    this.metrics = options.metrics.forResource(resource)
    // Each needs the other: the cache asks for freshness only once it is running.
    const feedOf = (): Feed => this.feed
    const freshness = new Freshness({
      upstream,
      prefix,
      feed: {
        get trustsProgress() {
          return feedOf().trustsProgress
        },
        requestProgress: () => feedOf().requestProgress(),
      },
      clock,
      pageKeys: PAGE_KEYS,
      revisionTimeoutMs: 3_000,
      stateTimeoutMs: STATE_TIMEOUT_MS,
      exactReads: 2,
    })
    this.cache = new WatchCache({
      name,
      prefix,
      ingest: createIngest({ resource, maxValueBytes: options.maxValueBytes, wrap: keyValueObject }),
      freshness: {
        get trustsProgress() {
          return freshness.trustsProgress
        },
        currentRevision: (signal) => freshness.currentRevision(signal),
        requestProgress: () => freshness.requestProgress(),
        readState: (revision, signal) => freshness.readState(revision, signal),
        readKey: (key, signal) => upstream.readKey(key, signal === undefined ? {} : { signal }),
      },
      ring,
      clock,
      logger,
      metrics: this.metrics.cache,
    })
    this.broadcaster = new Broadcaster({
      cache: this.cache,
      jsonOf: (object, onlyMetadata) => options.jsonOf(resource, object, onlyMetadata),
      onInternalError: options.onInternalError,
      pump: options.pump,
      clock,
      random,
      metrics: this.metrics.broadcast,
      bookmarkIntervalMs: options.bookmarkIntervalMs,
      logBytes: Math.floor(ring.maxBytes * LOG_SHARE),
      replayBytes: Math.floor(ring.maxBytes * REPLAY_SHARE),
    })
    this.feed = new Feed({
      name,
      prefix,
      upstream,
      sink: this.cache,
      clock,
      random,
      logger,
      metrics: this.metrics.feed,
      turns: options.turns,
      backfillRevisions: options.backfillRevisions,
      onGap: options.onGap,
      backoff: { firstMs: 100, capMs: 10_000 },
      pageKeys: PAGE_KEYS,
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      refusedRetryMs: REFUSED_RETRY_MS,
    })
  }

  start(): void {
    this.feed.start()
  }

  async stop(): Promise<void> {
    await this.feed.stop()
    this.broadcaster.close()
  }

  gauges(): ResourceGauges {
    const { cache, broadcaster } = this
    const { ring } = cache
    const watchers = new Map<string, number>()
    let blockedBytes = 0
    for (const cursor of broadcaster.cursors) {
      const key = `${cursor.group.wire.transport} ${cursor.state}`
      watchers.set(key, (watchers.get(key) ?? 0) + 1)
      if (cursor.isBlocked) blockedBytes += cursor.sink.pendingBytes
    }
    let groups = 0
    let logBytes = 0
    for (const group of broadcaster.groups) {
      groups++
      logBytes += group.log.capacity
    }
    return {
      resource: this.resource,
      objects: cache.size,
      unservable: cache.unservableCount,
      revision: cache.revision,
      ringBatches: ring.batches,
      ringBytes: ring.bytes,
      ringAgeSeconds: ring.oldestMs === null ? 0 : (this.#clock.monotonic() - ring.oldestMs) / 1000,
      waiting: cache.waiting,
      stalenessSeconds: cache.stalenessMs / 1000,
      ready: cache.readiness.kind === 'ready',
      groups,
      logBytes,
      blockedBytes,
      watchers,
    }
  }
}
