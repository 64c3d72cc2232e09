/**
 * Every metric of the server in one registry. Each stage's metrics have a file beside this one, and each stage gets
 * only its own part.
 *
 * Label values are chosen by the operator or the code (group, resource, transport, reason), never by a client.
 */
import { AggregatorRegistry, type Registry, collectDefaultMetrics } from 'prom-client'
import type { Limit } from '../../engine/model/limit.js'
import type { Resource } from '../../engine/model/resource.js'
import type { ResourceMetrics } from '../../engine/model/stage-metrics.js'
import type { ResourceGauges } from '../../engine/pipeline/resource-gauges.js'
import type { FleetMetrics } from '../../fleet/fleet-metrics.js'
import { broadcastSeries } from './broadcast-series.js'
import { cacheSeries } from './cache-series.js'
import { feedSeries } from './feed-series.js'
import { fleetSeries } from './fleet-series.js'
import { type LabelledGauges, MetricSet, RESOURCE } from './metric-set.js'
import { processSeries } from './process-series.js'
import { requestSeries } from './request-series.js'

const SIZE_BUCKETS = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]

export class Metrics {
  readonly #set = new MetricSet()
  readonly requests = requestSeries(this.#set)
  readonly #feed = feedSeries(this.#set)
  readonly #cache = cacheSeries(this.#set)
  readonly #broadcast = broadcastSeries(this.#set)
  readonly #fleet = fleetSeries(this.#set)
  readonly process = processSeries(this.#set)
  #gauges: () => Iterable<ResourceGauges> = () => []
  #readInitialStates = (): number => 0

  readonly #resumesExpired = this.#set.counter(
    'watch_resumes_expired_total',
    'Watches answered with 410 because the history no longer has their revision; their clients list again.',
    RESOURCE,
  )
  readonly #unreadable = this.#set.counter(
    'codec_unreadable_objects_total',
    'Objects that could not be converted to JSON.',
    [],
  )
  readonly #unknownFields = this.#set.counter(
    'codec_unknown_fields_total',
    'Fields of a later release that JSON answers lack.',
    [],
  )
  readonly #rejected = this.#set.counter('http_rejected_total', 'Requests refused by a limit, by its name.', ['limit'])
  readonly #listBytes = this.#set.histogram('list_bytes', 'Size of list responses.', RESOURCE, SIZE_BUCKETS)
  readonly #initialStates = this.#set.gauge('initial_states', 'Initial states and large lists being sent.', [])

  constructor(version: string) {
    collectDefaultMetrics({ register: this.registry })
    this.#set.gauge('build_info', 'Always 1; the label has the version.', ['version'], 'first').set({ version }, 1)
  }

  get registry(): Registry {
    return this.#set.registry
  }

  get contentType(): string {
    return this.registry.contentType
  }

  /** Sets the source of the per-resource gauges. */
  observe(gauges: () => Iterable<ResourceGauges>): void {
    this.#gauges = gauges
  }

  /** Sets the source of the number of lists and initial states being sent. */
  observeInitialStates(read: () => number): void {
    this.#readInitialStates = read
  }

  async expose(): Promise<{ readonly contentType: string; readonly text: string }> {
    this.#readGauges()
    return { contentType: this.contentType, text: await this.registry.metrics() }
  }

  /** Returns the metrics for `merge` in another process. */
  async collect(): Promise<string> {
    this.#readGauges()
    return JSON.stringify(await this.registry.getMetricsAsJSON())
  }

  /** Merges a scrape of this process with others: counters and shares are summed, copies of one value are not. */
  async merge(collected: readonly string[]): Promise<string> {
    const all = [await this.collect(), ...collected].map((text) => JSON.parse(text) as object[])
    return await AggregatorRegistry.aggregate(all).metrics()
  }

  /** Figures for the status page, which has no Prometheus to query: totals over all resources since the start. */
  figures(): {
    /** Events that entered the caches: a worker gets them from its primary process, a replica from another one. */
    readonly takenEvents: number
    /** Cumulative counts by upper bound in seconds, for the segment cache-to-socket. */
    readonly delays: readonly (readonly [upTo: number, count: number])[]
  } {
    return { takenEvents: this.#cache.totalEvents(), delays: this.#broadcast.delays() }
  }

  /** Returns the metrics of one resource. */
  forResource({ group, plural }: Resource): ResourceMetrics {
    const labels = { group, resource: plural }
    return {
      feed: this.#feed(labels),
      cache: this.#cache.of(labels, this.#broadcast.delayOf(labels, 'upstream-to-cache')),
      broadcast: this.#broadcast.of(labels),
      list: (bytes) => this.#listBytes.observe(labels, bytes),
      resumeExpired: () => this.#resumesExpired.inc(labels),
    }
  }

  /**
   * Returns the metrics of one resource in a fleet. Apart, because they announce a series that no other server needs.
   */
  forFleet({ group, plural }: Resource): FleetMetrics {
    const labels = { group, resource: plural }
    return this.#fleet(labels, this.#broadcast.delayOf(labels, 'publisher-to-replica'))
  }

  passSlice(seconds: number): void {
    this.#broadcast.passSlice(seconds)
  }

  unreadable(): void {
    this.#unreadable.inc()
  }

  unknownFields(count: number): void {
    this.#unknownFields.inc(count)
  }

  rejected(limit: Limit): void {
    this.#rejected.inc({ limit })
  }

  #readGauges(): void {
    this.requests.readGauges()
    this.process.readGauges()
    this.#initialStates.set(this.#readInitialStates())
    const states = [...this.#gauges()].map((gauges): LabelledGauges => {
      const { group, plural } = gauges.resource
      return [{ group, resource: plural }, gauges]
    })
    this.#cache.readGauges(states)
    this.#broadcast.readGauges(states)
  }
}
