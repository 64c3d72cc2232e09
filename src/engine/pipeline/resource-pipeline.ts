/**
 * Wires one etcd prefix from its source to its watchers: feed → cache → broadcast. However many versions of a resource
 * are served from the prefix, etcd sees one watch.
 */
import { Dispatcher, type DispatcherBounds } from '../broadcast/dispatcher.js'
import type { PacedEndings } from '../broadcast/paced-endings.js'
import type { Pump } from '../broadcast/pump.js'
import { checkedCache } from '../cache/checked.js'
import { KEPT_HISTORY_MS, type RingBounds } from '../cache/ring-buffer.js'
import { WatchCache } from '../cache/watch-cache.js'
import { openedFeed } from '../feed/opened-feed.js'
import type { FeedRequest, OpenFeed, ResourceFeed } from '../feed/resource-feed.js'
import { type Resource, resourceId } from '../model/resource.js'
import type { ResourceMetrics } from '../model/stage-metrics.js'
import type { FactSource } from '../model/fact-source.js'
import type { Served } from '../model/served.js'
import type { Ingest } from '../model/stored-object.js'
import { openAll, type ValueTransform } from '../model/value-transform.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { LiveResource } from './live-resource.js'
import type { ResourceGauges } from './resource-gauges.js'

export interface PipelineMetrics {
  forResource(resource: Resource): ResourceMetrics
}

/** `R` is what the dialect knows of a resource. */
export interface ResourcePipelineOptions<R extends Resource> {
  readonly openFeed: OpenFeed
  /** How its feed handles a gap. */
  readonly onGap: (resource: R) => 'expire' | 'coalesce'
  /** Returns the functions that read facts from the resource's objects. */
  readonly factsOf: (resource: R) => FactSource
  /** Returns the function that reads stored values of a resource. */
  readonly ingestOf: (resource: R) => Ingest
  /**
   * Returns the transform that decrypts the stored values of a resource; null if they are not encrypted. Default: null.
   */
  readonly transformOf?: (resource: R) => ValueTransform | null
  readonly onUnencodable: (error: Error) => void
  readonly pump: Pump
  /** As in `DispatcherOptions`. */
  readonly endings?: PacedEndings
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: PipelineMetrics
  readonly ring: RingBounds
  readonly bookmarkIntervalMs: number
}

/**
 * Limits for one group's log, for all logs, and for the frames kept for lagging cursors, as shares of the ring's bytes.
 */
const LOG_SHARE = 1 / 8
const ALL_LOGS_SHARE = 1 / 4
const REPLAY_SHARE = 1 / 8

/** The share of the ring's bytes that is kept even when memory is short. */
const KEPT_SHARE = 1 / 8

export class ResourcePipeline<R extends Resource = Resource> {
  readonly cache: WatchCache
  readonly dispatcher: Dispatcher
  #keptBytes: number
  readonly feed: ResourceFeed
  readonly metrics: ResourceMetrics
  readonly #transform: ValueTransform | null

  /**
   * @param resource any of the resources that share the pipeline. It provides names for logs and metrics, and the shape
   * of keys.
   */
  constructor(
    readonly resource: R,
    options: ResourcePipelineOptions<R>,
  ) {
    const { clock, random, logger, ring } = options
    const name = resourceId(resource)
    const prefix = resource.etcdPrefix
    const ingest = options.ingestOf(resource)
    const facts = options.factsOf(resource)
    this.#keptBytes = Math.floor(ring.maxBytes * KEPT_SHARE)
    this.#transform = options.transformOf?.(resource) ?? null
    this.metrics = options.metrics.forResource(resource)
    this.cache = new WatchCache({
      name,
      prefix,
      ingest,
      identityOf: (object) => facts.identity(object),
      // The feed is opened below, because it needs the cache to write to.
      freshness: () => this.feed.freshness,
      ring: { keepAgeMs: KEPT_HISTORY_MS, ...ring },
      onGap: options.onGap(resource),
      clock,
      logger,
      metrics: this.metrics.cache,
    })
    this.dispatcher = new Dispatcher({
      cache: this.cache,
      facts,
      onUnencodable: options.onUnencodable,
      pump: options.pump,
      ...(options.endings === undefined ? {} : { endings: options.endings }),
      clock,
      random,
      metrics: this.metrics.broadcast,
      bookmarkIntervalMs: options.bookmarkIntervalMs,
      ...dispatcherBounds(ring),
    })
    const { openFeed } = options
    const checked = checkedCache(this.cache, ingest)
    const request: FeedRequest = { resource, sink: this.cache, metrics: this.metrics.feed, checked }
    const onSealed = (): void => void this.reopen()
    const transform = this.#transform
    this.feed = transform === null ? openFeed(request) : openedFeed(openFeed, request, { transform, clock, onSealed })
  }

  /** @param served any of the resources that share this pipeline. */
  live<S extends Served>(served: S): LiveResource<S> {
    const { cache, dispatcher, metrics } = this
    return { kind: 'live', served, cache, dispatcher, metrics }
  }

  /** Rereads the objects because their definition has changed. */
  reread(): void {
    this.cache.reread()
    this.dispatcher.reread()
  }

  /** Tries again to decrypt the values that none of the encryption keys could decrypt. */
  async reopen(): Promise<void> {
    const { sealedValues } = this.cache.contents
    if (this.#transform === null || sealedValues.length === 0) return
    const opened = await openAll(this.#transform, sealedValues)
    this.cache.reveal(opened.filter(({ sealed }, i) => sealed !== sealedValues[i]!.sealed))
  }

  start(): void {
    this.feed.start()
  }

  async stop(): Promise<void> {
    await this.feed.stop()
    this.dispatcher.close()
  }

  /** The resource is no longer served. Its watchers get everything that is in the cache, and then end. */
  async retire(): Promise<void> {
    const stopped = this.feed.stop()
    // A watch that waits for the history from before the start learns at once that the resource is gone.
    this.cache.seeking(false)
    await stopped
    this.cache.retire()
    await this.dispatcher.retire()
  }

  /** Changes the limits of the history and its encoded events. Smaller limits evict at once. */
  setRingBounds(ring: RingBounds): void {
    this.#keptBytes = Math.floor(ring.maxBytes * KEPT_SHARE)
    this.cache.history.setBounds({ keepAgeMs: KEPT_HISTORY_MS, ...ring })
    this.dispatcher.setBounds(dispatcherBounds(ring))
  }

  /** Drops a quarter of the history, but keeps a minimum, so that clients need not relist after a short break. */
  relieveMemory(): void {
    const { history } = this.cache
    if (history.stats.bytes > this.#keptBytes) history.shrinkTo(Math.max(this.#keptBytes, history.stats.bytes * 0.75))
    this.dispatcher.relieveMemory()
  }

  gauges(): ResourceGauges<R> {
    const { cache, dispatcher } = this
    const { contents, history } = cache
    const { stats: ring } = history
    const watchers = new Map<string, number>()
    let blockedBytes = 0
    for (const cursor of dispatcher.cursors) {
      const key = `${cursor.group.wire.transport} ${cursor.shownState}`
      watchers.set(key, (watchers.get(key) ?? 0) + 1)
      if (cursor.isBlocked) blockedBytes += cursor.output.pendingBytes
    }
    let groups = 0
    let logBytes = 0
    for (const group of dispatcher.groups) {
      groups++
      logBytes += group.log.capacity
    }
    return {
      resource: this.resource,
      objects: contents.size,
      unservable: contents.unservable.size,
      rawBytes: contents.rawBytes,
      encrypted: contents.encrypted,
      revision: cache.revision,
      floor: history.floorRevision,
      ringBatches: ring.batches,
      ringBytes: ring.bytes,
      ringAgeSeconds: history.reachMs / 1000,
      waiting: cache.reads.waiting,
      stalenessSeconds: cache.source.ageMs / 1000,
      ready: Number(cache.readiness.kind === 'ready' && !cache.source.isRefusing),
      groups,
      logBytes,
      sentEvents: dispatcher.sent.events,
      sentBytes: dispatcher.sent.bytes,
      blockedBytes,
      watchers,
    }
  }
}

function dispatcherBounds({ maxBytes }: RingBounds): DispatcherBounds {
  return {
    logBytes: Math.floor(maxBytes * LOG_SHARE),
    allLogBytes: Math.floor(maxBytes * ALL_LOGS_SHARE),
    replayBytes: Math.floor(maxBytes * REPLAY_SHARE),
  }
}
