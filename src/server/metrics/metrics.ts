/**
 * Holds every metric of the server in one registry. Each stage lists its own metrics, and gets only its own part.
 *
 * Label values are chosen by the operator or the code (group, resource, transport, reason), never by a client.
 */
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { AggregatorRegistry, type Registry, collectDefaultMetrics } from 'prom-client'
import type { Resource } from '../../engine/model/resource.js'
import {
  BROADCAST_METRICS,
  CACHE_METRICS,
  DELAY,
  FEED_METRICS,
  PUMP_METRICS,
  READ_METRICS,
  type ResourceMetrics,
  UPSTREAM_METRICS,
} from '../../engine/model/stage-metrics.js'
import { RESOURCE_GAUGES, type ResourceGauges } from '../../engine/pipeline/resource-gauges.js'
import { ETCD_API_METRICS } from '../../etcd-api/metrics.js'
import { FLEET_METRICS, type FleetMetrics } from '../../fleet/fleet-metrics.js'
import { LoopDelay } from './loop-delay.js'
import { MetricSet } from './metric-set.js'
import { PROCESS_METRICS } from './process-metrics.js'
import { REQUEST_METRICS } from './request-metrics.js'

/** The labels of all per-resource metrics. */
const RESOURCE = ['group', 'resource']

/**
 * Metrics of prom-client of which a scrape of several processes has the highest value. A process at its own limit is in
 * trouble, however idle the others are.
 */
const HIGHEST = /^nodejs_(eventloop_lag_(?!min_)|heap_size_)|^process_(open|max)_fds$/

/** One metric as `collect` returns it. */
interface Collected {
  readonly type: string
  readonly values: readonly { readonly labels: Readonly<Record<string, string>> }[]
}

export class Metrics {
  readonly #set = new MetricSet()
  readonly requests = this.#set.open(REQUEST_METRICS)
  readonly etcdApi = this.#set.open(ETCD_API_METRICS)
  readonly upstream = this.#set.open(UPSTREAM_METRICS)
  readonly #feed = this.#set.declare(FEED_METRICS, RESOURCE)
  readonly #cache = this.#set.declare(CACHE_METRICS, RESOURCE)
  readonly #broadcast = this.#set.declare(BROADCAST_METRICS, RESOURCE)
  readonly pump = this.#set.open(PUMP_METRICS)
  readonly #read = this.#set.declare(READ_METRICS, RESOURCE)
  readonly #fleet = this.#set.declare(FLEET_METRICS, RESOURCE)
  readonly process = this.#set.open(PROCESS_METRICS)
  readonly #setGauges = this.#set.declareRead(RESOURCE_GAUGES, RESOURCE)
  readonly #readers: (() => void)[] = []
  /** The counters and histograms of processes that have ended, summed. */
  #ended: readonly Collected[] = []

  constructor(version: string) {
    collectDefaultMetrics({ register: this.registry })
    for (const metric of this.registry.getMetricsAsArray()) {
      if (HIGHEST.test(metric.name)) Object.assign(metric, { aggregator: 'max' })
    }
    const loopDelay = new LoopDelay()
    this.beforeScrape(() => this.process.loopDelay(loopDelay.p99Seconds()))
    this.process.build(version, 1)
    this.process.heapLimit(getHeapStatistics().heap_size_limit)
    this.process.memoryLimit(memoryLimit())
  }

  get registry(): Registry {
    return this.#set.registry
  }

  get contentType(): string {
    return this.registry.contentType
  }

  /** @param read called before each scrape, to set gauges. */
  beforeScrape(read: () => void): void {
    this.#readers.push(read)
  }

  /** Drops the series of all other resources. Otherwise each custom resource that ever existed would have its own. */
  retain(resources: Iterable<Resource>): void {
    const kept = new Set(Array.from(resources, (resource) => labelsOf(resource).join('/')))
    // A request for something else has empty labels.
    kept.add('/')
    this.#retain(({ group, resource }) => resource === undefined || kept.has(`${group}/${resource}`))
  }

  /** Drops the series of one resource. */
  forget(resource: Resource): void {
    const gone = labelsOf(resource).join('/')
    this.#retain(({ group, resource: plural }) => `${group}/${plural}` !== gone)
  }

  #retain(isKept: (labels: Readonly<Record<string, string>>) => boolean): void {
    this.#set.retain(isKept)
    this.#ended = this.#ended.map((metric) => ({
      ...metric,
      values: metric.values.filter(({ labels }) => isKept(labels)),
    }))
  }

  /** Sets the gauges of every resource; those of removed resources disappear. */
  setGauges(all: Iterable<ResourceGauges>): void {
    this.#setGauges([...all].map(({ resource, ...gauges }) => [labelsOf(resource), gauges]))
  }

  async expose(): Promise<{ readonly contentType: string; readonly text: string }> {
    for (const read of this.#readers) read()
    return { contentType: this.contentType, text: await this.registry.metrics() }
  }

  /** Returns the metrics for `merge` in another process. */
  async collect(): Promise<string> {
    for (const read of this.#readers) read()
    return JSON.stringify(await this.registry.getMetricsAsJSON())
  }

  /** Adds what another process had counted when it returned these metrics, before it ended, to every later `merge`. */
  keepCounts(collected: string): void {
    const counts = (JSON.parse(collected) as readonly Collected[]).filter(({ type }) => type !== 'gauge')
    this.#ended = AggregatorRegistry.aggregate([this.#ended, counts]).getMetricsAsArray() as unknown as Collected[]
  }

  /**
   * Merges a scrape of this process with those of others. Counters and shares are summed, but copies of one value are
   * not.
   */
  async merge(collected: readonly string[]): Promise<string> {
    // Read before the wait: a process that ends during it is one of `collected`.
    const ended = this.#ended
    const all = [await this.collect(), ...collected].map((text) => JSON.parse(text) as object[])
    return await AggregatorRegistry.aggregate([...all, ended]).metrics()
  }

  /** Returns figures for the status page, which cannot query Prometheus: totals over all resources since the start. */
  figures(): {
    /**
     * Events that entered the caches. A worker gets them from its primary process, and a replica may get them from
     * another replica.
     */
    readonly takenEvents: number
    /** Cumulative counts of delays from the cache to the socket, by upper bound in seconds. */
    readonly delays: readonly (readonly [upTo: number, count: number])[]
  } {
    let takenEvents = 0
    for (const { value } of this.#set.series(CACHE_METRICS.entered)) takenEvents += value
    const written = [...this.#set.series(DELAY)].filter(({ labels }) => labels['segment'] === 'cache-to-socket')
    let below = 0
    const delays = [...DELAY.buckets, Number.MAX_VALUE].map((upTo, bucket) => {
      for (const { counts } of written) below += counts[bucket]!
      return [upTo, below] as const
    })
    return { takenEvents, delays }
  }

  forResource(resource: Resource): ResourceMetrics {
    const labels = labelsOf(resource)
    return {
      ...this.#read(labels),
      feed: this.#feed(labels),
      cache: this.#cache(labels),
      broadcast: this.#broadcast(labels),
    }
  }

  /**
   * Returns the metrics of one resource in a fleet. They are separate because they create series that no other server
   * needs.
   */
  forFleet(resource: Resource): FleetMetrics {
    return this.#fleet(labelsOf(resource))
  }
}

/** Returns the values of the labels in RESOURCE. */
function labelsOf({ group, plural }: Resource): readonly string[] {
  return [group, plural]
}

/** Without a limit the kernel returns a number larger than the machine's memory. */
function memoryLimit(): number {
  const limit = process.constrainedMemory() ?? 0
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}
