/**
 * Every metric of the server: name, help and labels, in one place. Stages are handed the narrow part they feed.
 *
 * Labels have values that the operator or the code chooses (group, resource, transport, reason), never a client.
 */
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { AggregatorRegistry, Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { Limit } from '../model/limit.js'
import type { Resource } from '../model/resource.js'
import type { BroadcastMetrics, FeedMetrics, FleetMetrics, WatchCacheMetrics } from '../model/stage-metrics.js'

const RESOURCE = ['group', 'resource'] as const
/** From 0.1 ms (one pass at the head) to 10 s (a peer that is far behind). */
const DELAY_BUCKETS = [0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const SIZE_BUCKETS = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]

const NO_WORKERS = { serving: 0, queuedBytes: 0 }

/** What is read when somebody scrapes, rather than counted as it happens. */
export interface ResourceGauges {
  readonly resource: Resource
  readonly objects: number
  readonly unservable: number
  readonly encrypted: number
  readonly revision: number
  readonly ringBatches: number
  readonly ringBytes: number
  readonly ringAgeSeconds: number
  readonly waiting: number
  readonly stalenessSeconds: number
  readonly ready: boolean
  readonly groups: number
  readonly logBytes: number
  /** Since the start. */
  readonly sentEvents: number
  readonly sentBytes: number
  readonly blockedBytes: number
  /** By transport and state. */
  readonly watchers: ReadonlyMap<string, number>
}

export interface ResourceMetrics {
  readonly feed: FeedMetrics
  readonly cache: WatchCacheMetrics
  readonly broadcast: BroadcastMetrics
  /** Of a replica that is fed by NATS. */
  readonly fleet: FleetMetrics
  list(seconds: number, bytes: number): void
  /** A watch was asked for after a revision that is gone. */
  resumeExpired(): void
}

export class Metrics {
  readonly registry = new Registry()
  #gauges: () => Iterable<ResourceGauges> = () => []
  /** What the counters of sent events and bytes have been told. */
  readonly #sentTotals = new Map<string, number>()

  readonly #received = this.#counter('feed_events_received_total', 'Events received from the upstream.', RESOURCE)
  readonly #dropped = this.#counter('feed_events_dropped_total', 'Events that had been handed over before.', RESOURCE)
  readonly #reconnects = this.#counter(
    'feed_reconnects_total',
    'Upstream watches that went on after a break.',
    RESOURCE,
  )
  readonly #relists = this.#counter('feed_relists_total', 'Whole states that replaced an earlier one.', [
    ...RESOURCE,
    'reason',
  ])
  readonly #compactions = this.#counter('feed_compactions_total', 'Lists and watches that met a compaction.', RESOURCE)
  readonly #initialisations = this.#counter(
    'feed_initializations_total',
    'Times the first state was complete.',
    RESOURCE,
  )
  readonly #initErrors = this.#counter('feed_initialization_errors_total', 'Failed attempts at it.', [
    ...RESOURCE,
    'code',
  ])
  readonly #initSeconds = this.#gauge(
    'feed_initialization_seconds',
    'What the last initialisation took.',
    RESOURCE,
    'max',
  )

  readonly #cacheEvents = this.#counter('cache_events_total', 'Events that entered the cache.', RESOURCE)
  readonly #coalesced = this.#counter(
    'cache_events_coalesced_total',
    'Events made from a gap (--on-gap=coalesce).',
    RESOURCE,
  )
  readonly #readWait = this.#histogram(
    'cache_read_wait_seconds',
    'Waits of reads for a revision.',
    RESOURCE,
    DELAY_BUCKETS,
  )
  readonly #historyCut = this.#counter(
    'cache_history_cut_total',
    'Revisions of history given up before they were 75 s old, because --watch-cache-bytes was reached.',
    RESOURCE,
  )
  readonly #objects = this.#gauge('cache_objects', 'Objects held.', RESOURCE, 'max')
  readonly #unservable = this.#gauge(
    'cache_unservable_values',
    'Values that are there and cannot be served.',
    RESOURCE,
    'max',
  )
  readonly #encrypted = this.#gauge(
    'cache_encrypted_values',
    'Of those, values that are encrypted at rest; while there are any, nothing of the resource is served.',
    RESOURCE,
    'max',
  )
  readonly #revision = this.#gauge(
    'cache_resource_version',
    'Everything up to this revision has arrived.',
    RESOURCE,
    'min',
  )
  readonly #ringBatches = this.#gauge('cache_ring_batches', 'Revisions of history held.', RESOURCE, 'min')
  readonly #ringBytes = this.#gauge('cache_ring_bytes', 'Bytes of history held.', RESOURCE)
  readonly #ringAge = this.#gauge('cache_ring_age_seconds', 'Age of the oldest revision held.', RESOURCE, 'min')
  readonly #waiting = this.#gauge('cache_waiting_reads', 'Reads waiting for a revision.', RESOURCE)
  readonly #staleness = this.#gauge(
    'cache_staleness_seconds',
    'Since the upstream last confirmed; 0 while connected.',
    RESOURCE,
    'max',
  )
  readonly #ready = this.#gauge('cache_ready', '1 when lists and watches are answered.', RESOURCE, 'min')

  readonly #consistencyChecks = this.#counter(
    'consistency_checks_total',
    'Comparisons of a cache with etcd, by outcome.',
    [...RESOURCE, 'outcome'],
  )
  readonly #consistencyFailures = this.#counter(
    'consistency_check_failures_total',
    'Comparisons that found a difference: the cache was rebuilt.',
    RESOURCE,
  )
  // Both under their old names as well, for one release.
  readonly #auditChecks = this.#counter(
    'audit_checks_total',
    'Deprecated: see distributary_consistency_checks_total.',
    [...RESOURCE, 'outcome'],
  )
  readonly #auditFailures = this.#counter(
    'audit_failures_total',
    'Deprecated: see distributary_consistency_check_failures_total.',
    RESOURCE,
  )

  readonly #sentEvents = this.#counter('broadcast_events_sent_total', 'Events handed to connections.', RESOURCE)
  readonly #sentBytes = this.#counter(
    'broadcast_bytes_sent_total',
    'Bytes of watch streams handed to connections.',
    RESOURCE,
  )
  readonly #ended = this.#counter('broadcast_watchers_ended_total', 'Watchers that ended.', [...RESOURCE, 'reason'])
  readonly #delay = this.#histogram(
    'broadcast_delay_seconds',
    'Delay of events by segment of their way.',
    [...RESOURCE, 'segment'],
    DELAY_BUCKETS,
  )
  readonly #passes = this.#histogram(
    'broadcast_pass_slice_seconds',
    'Slices of work between two turns of the event loop.',
    [],
    DELAY_BUCKETS,
  )
  readonly #watchers = this.#gauge('broadcast_watchers', 'Watchers now.', [...RESOURCE, 'transport', 'state'])
  readonly #groups = this.#gauge('broadcast_groups', 'Groups of watchers that share bytes.', RESOURCE)
  readonly #logBytes = this.#gauge('broadcast_log_bytes', 'Bytes of framed events held for groups.', RESOURCE)
  readonly #blockedBytes = this.#gauge('broadcast_socket_bytes', 'Bytes handed to sockets and not yet taken.', RESOURCE)

  readonly #resumesExpired = this.#counter(
    'watch_resumes_expired_total',
    'Watches asked for after a revision that is gone: their clients list anew.',
    RESOURCE,
  )

  readonly #wrapped = this.#counter(
    'codec_wrapped_values_total',
    'Values among Kubernetes objects that are none, served wrapped.',
    [],
  )
  readonly #unreadable = this.#counter('codec_unreadable_objects_total', 'Object versions that have no JSON here.', [])
  readonly #unknownFields = this.#counter(
    'codec_unknown_fields_total',
    'Fields of protobuf values that no schema knows: JSON clients miss them.',
    [],
  )
  readonly #requests = this.#counter('http_requests_total', 'Requests answered.', ['verb', 'code'])
  readonly #requestSeconds = this.#histogram(
    'http_request_seconds',
    'Time to answer, watches excepted.',
    ['verb'],
    DELAY_BUCKETS,
  )
  readonly #rejected = this.#counter('http_rejected_total', 'Requests refused by a limit.', ['limit'])
  readonly #listSeconds = this.#histogram('list_seconds', 'Time to answer a list.', RESOURCE, DELAY_BUCKETS)
  readonly #listBytes = this.#histogram('list_bytes', 'Size of answered lists.', RESOURCE, SIZE_BUCKETS)
  readonly #initialStates = this.#gauge('initial_states', 'Initial states and large lists being sent.', [])
  #readInitialStates = (): number => 0

  readonly #fleetPublishing = this.#gauge(
    'fleet_publishing',
    '1 on the replica that publishes the resource to NATS, 0 on those that stand by; edges say nothing.',
    RESOURCE,
  )
  readonly #fleetQueue = this.#gauge('fleet_publisher_queue_bytes', 'Bytes that wait to be written to NATS.', RESOURCE)
  readonly #fleetPublishedMessages = this.#counter(
    'fleet_published_messages_total',
    'Messages written to NATS and acknowledged.',
    RESOURCE,
  )
  readonly #fleetPublishedEvents = this.#counter(
    'fleet_published_events_total',
    'Events written to NATS and acknowledged.',
    RESOURCE,
  )
  readonly #fleetPublishedBytes = this.#counter(
    'fleet_published_bytes_total',
    'Bytes written to NATS and acknowledged.',
    RESOURCE,
  )
  readonly #fleetSnapshots = this.#counter(
    'fleet_snapshots_made_total',
    'Snapshots written to the object store.',
    RESOURCE,
  )
  readonly #fleetSnapshotSeconds = this.#gauge(
    'fleet_snapshot_seconds',
    'What the last snapshot took to make.',
    RESOURCE,
    'max',
  )
  readonly #fleetSnapshotBytes = this.#gauge('fleet_snapshot_bytes', 'Size of the last snapshot.', RESOURCE, 'max')
  readonly #fleetReceivedMessages = this.#counter(
    'fleet_received_messages_total',
    'Messages with events received from NATS.',
    RESOURCE,
  )
  readonly #fleetReceivedEvents = this.#counter(
    'fleet_received_events_total',
    'Events received from NATS that were new.',
    RESOURCE,
  )
  readonly #fleetBroken = this.#counter(
    'fleet_chain_breaks_total',
    'Messages that did not follow the ones before them: a newer snapshot was taken.',
    RESOURCE,
  )
  readonly #fleetLoaded = this.#counter(
    'fleet_snapshots_taken_total',
    'Snapshots that this replica was fed with.',
    RESOURCE,
  )
  readonly #fleetUnusable = this.#counter(
    'fleet_snapshots_unusable_total',
    'Snapshots that could not be read: missing, or not as their checksum says.',
    RESOURCE,
  )

  readonly #workers = this.#gauge('workers', 'Worker processes that serve clients; 0 without --workers.', [])
  readonly #workerQueue = this.#gauge('worker_queue_bytes', 'Bytes on their way from the primary to its workers.', [])
  readonly #workerRestarts = this.#counter('worker_restarts_total', 'Workers that ended and were replaced.', [])
  #readWorkers: () => { readonly serving: number; readonly queuedBytes: number } = () => NO_WORKERS

  constructor(version: string) {
    collectDefaultMetrics({ register: this.registry })
    this.#gauge('build_info', 'Always 1; the version is in the label.', ['version'], 'first').set({ version }, 1)
    this.#gauge('heap_limit_bytes', 'What the JavaScript heap may grow to.', []).set(
      getHeapStatistics().heap_size_limit,
    )
    this.#gauge(
      'memory_limit_bytes',
      "What the process may take: its container's limit, else the machine's.",
      [],
      'first',
    ).set(memoryLimit())
  }

  /** What a scrape reads about each resource. */
  observe(gauges: () => Iterable<ResourceGauges>): void {
    this.#gauges = gauges
  }

  async expose(): Promise<{ readonly contentType: string; readonly text: string }> {
    this.#readGauges()
    return { contentType: this.registry.contentType, text: await this.registry.metrics() }
  }

  /** For `merge` in another process. */
  async collect(): Promise<string> {
    this.#readGauges()
    return JSON.stringify(await this.registry.getMetricsAsJSON())
  }

  /** One scrape of this process and others: counters and shares are summed, replicas of one thing are not. */
  async merge(collected: readonly string[]): Promise<string> {
    const all = [await this.collect(), ...collected].map((text) => JSON.parse(text) as object[])
    return await AggregatorRegistry.aggregate(all).metrics()
  }

  /** Of the process that has workers. */
  observeWorkers(read: () => { readonly serving: number; readonly queuedBytes: number }): void {
    this.#readWorkers = read
  }

  workerRestarted(): void {
    this.#workerRestarts.inc()
  }

  get contentType(): string {
    return this.registry.contentType
  }

  /** For the status page, which has no Prometheus to ask: all resources together, since the start. */
  async figures(): Promise<{
    /** That entered the caches: a worker's come from its primary, a replica's from another. */
    readonly takenEvents: number
    /** Cumulative counts by upper bound in seconds, of the segment cache-to-socket. */
    readonly delays: readonly (readonly [upTo: number, count: number])[]
  }> {
    const taken = await this.#cacheEvents.get()
    const delays = new Map<number, number>()
    for (const { metricName, labels, value } of (await this.#delay.get()).values) {
      if (metricName?.endsWith('_bucket') !== true || labels.segment !== 'cache-to-socket') continue
      const { le } = labels as { readonly le?: string | number }
      const upTo = le === '+Inf' ? Number.MAX_VALUE : Number(le)
      delays.set(upTo, (delays.get(upTo) ?? 0) + value)
    }
    return {
      takenEvents: taken.values.reduce((sum, { value }) => sum + value, 0),
      delays: [...delays].sort(([a], [b]) => a - b),
    }
  }

  /** The narrow parts for one resource. */
  forResource(resource: Resource): ResourceMetrics {
    const labels = { group: resource.group, resource: resource.plural }
    const delay = this.#delay
    const received = this.#received.labels(labels)
    const cacheEvents = this.#cacheEvents.labels(labels)
    const toSocket = delay.labels({ ...labels, segment: 'cache-to-socket' })
    const toCache = delay.labels({ ...labels, segment: 'upstream-to-cache' })
    const hop = (seconds: number): void => delay.observe({ ...labels, segment: 'publisher-to-replica' }, seconds)
    return {
      feed: {
        received: (_batches, events) => received.inc(events),
        dropped: (events) => this.#dropped.inc(labels, events),
        reconnected: () => this.#reconnects.inc(labels),
        relisted: (reason) => this.#relists.inc({ ...labels, reason }),
        compacted: () => this.#compactions.inc(labels),
        initialised: (seconds) => {
          this.#initialisations.inc(labels)
          this.#initSeconds.set(labels, seconds)
        },
        initialisationFailed: (code) => this.#initErrors.inc({ ...labels, code }),
        checked: (outcome) => {
          this.#consistencyChecks.inc({ ...labels, outcome })
          this.#auditChecks.inc({ ...labels, outcome })
          if (outcome !== 'different') return
          this.#consistencyFailures.inc(labels)
          this.#auditFailures.inc(labels)
        },
      },
      cache: {
        applied: (events, seconds) => {
          cacheEvents.inc(events)
          toCache.observe(seconds)
        },
        coalesced: (events) => this.#coalesced.inc(labels, events),
        readWait: (seconds) => this.#readWait.observe(labels, seconds),
        historyCut: (batches) => this.#historyCut.inc(labels, batches),
      },
      broadcast: {
        ended: (reason) => this.#ended.inc({ ...labels, reason }),
        delay: (seconds) => toSocket.observe(seconds),
      },
      fleet: {
        hop,
        received: (messages, events) => {
          this.#fleetReceivedMessages.inc(labels, messages)
          this.#fleetReceivedEvents.inc(labels, events)
        },
        broken: () => this.#fleetBroken.inc(labels),
        snapshotLoaded: () => this.#fleetLoaded.inc(labels),
        snapshotUnusable: () => this.#fleetUnusable.inc(labels),
        published: (messages, events, bytes) => {
          this.#fleetPublishedMessages.inc(labels, messages)
          this.#fleetPublishedEvents.inc(labels, events)
          this.#fleetPublishedBytes.inc(labels, bytes)
        },
        snapshot: (seconds, bytes) => {
          this.#fleetSnapshots.inc(labels)
          this.#fleetSnapshotSeconds.set(labels, seconds)
          this.#fleetSnapshotBytes.set(labels, bytes)
        },
        queued: (bytes) => this.#fleetQueue.set(labels, bytes),
        publishing: (isPublishing) => this.#fleetPublishing.set(labels, isPublishing ? 1 : 0),
      },
      list: (seconds, bytes) => {
        this.#listSeconds.observe(labels, seconds)
        this.#listBytes.observe(labels, bytes)
      },
      resumeExpired: () => this.#resumesExpired.inc(labels),
    }
  }

  passSlice(seconds: number): void {
    this.#passes.observe(seconds)
  }

  request(verb: string, code: number, seconds: number | null): void {
    this.#requests.inc({ verb, code: String(code) })
    if (seconds !== null) this.#requestSeconds.observe({ verb }, seconds)
  }

  wrapped(): void {
    this.#wrapped.inc()
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

  /** Lists and initial states being sent. */
  observeInitialStates(read: () => number): void {
    this.#readInitialStates = read
  }

  #readGauges(): void {
    const gauges = [
      this.#objects,
      this.#unservable,
      this.#encrypted,
      this.#revision,
      this.#ringBatches,
      this.#ringBytes,
      this.#ringAge,
      this.#waiting,
      this.#staleness,
      this.#ready,
      this.#watchers,
      this.#groups,
      this.#logBytes,
      this.#blockedBytes,
    ]
    for (const gauge of gauges) gauge.reset()
    const { serving, queuedBytes } = this.#readWorkers()
    this.#initialStates.set(this.#readInitialStates())
    this.#workers.set(serving)
    this.#workerQueue.set(queuedBytes)
    for (const state of this.#gauges()) {
      const labels = { group: state.resource.group, resource: state.resource.plural }
      this.#objects.set(labels, state.objects)
      this.#unservable.set(labels, state.unservable)
      this.#encrypted.set(labels, state.encrypted)
      this.#revision.set(labels, state.revision)
      this.#ringBatches.set(labels, state.ringBatches)
      this.#ringBytes.set(labels, state.ringBytes)
      this.#ringAge.set(labels, state.ringAgeSeconds)
      this.#waiting.set(labels, state.waiting)
      this.#staleness.set(labels, state.stalenessSeconds)
      this.#ready.set(labels, state.ready ? 1 : 0)
      this.#groups.set(labels, state.groups)
      this.#logBytes.set(labels, state.logBytes)
      this.#blockedBytes.set(labels, state.blockedBytes)
      raise(this.#sentEvents, labels, this.#sentTotals, `${labels.group}/${labels.resource} events`, state.sentEvents)
      raise(this.#sentBytes, labels, this.#sentTotals, `${labels.group}/${labels.resource} bytes`, state.sentBytes)
      for (const [key, count] of state.watchers) {
        const [transport = '', watcherState = ''] = key.split(' ')
        this.#watchers.set({ ...labels, transport, state: watcherState }, count)
      }
    }
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name: `distributary_${name}`, help, labelNames: [...labelNames], registers: [this.registry] })
  }

  /** @param ofWorkers what several processes say of one thing comes to: their sum where each has its own share of it. */
  #gauge<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    ofWorkers: 'sum' | 'min' | 'max' | 'first' = 'sum',
  ): Gauge<L> {
    return new Gauge({
      name: `distributary_${name}`,
      help,
      labelNames: [...labelNames],
      registers: [this.registry],
      aggregator: ofWorkers,
    })
  }

  #histogram<L extends string>(name: string, help: string, labelNames: readonly L[], buckets: number[]): Histogram<L> {
    return new Histogram({
      name: `distributary_${name}`,
      help,
      labelNames: [...labelNames],
      buckets,
      registers: [this.registry],
    })
  }
}

/** Without a limit the kernel's answer is a number larger than the machine. */
function memoryLimit(): number {
  const limit = process.constrainedMemory() ?? 0
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Brings a counter up to a total that is kept elsewhere; a source that began anew counts from zero. */
function raise<L extends string>(
  counter: Counter<L>,
  labels: Record<L, string>,
  totals: Map<string, number>,
  key: string,
  total: number,
): void {
  const before = totals.get(key) ?? 0
  counter.inc(labels, total >= before ? total - before : total)
  totals.set(key, total)
}
