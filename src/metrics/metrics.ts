/**
 * Every metric of the server: name, help and labels, in one place. Each stage gets only the narrow part that it feeds.
 *
 * Label values are chosen by the operator or the code (group, resource, transport, reason), never by a client.
 */
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { AggregatorRegistry, type Counter, type Registry, collectDefaultMetrics } from 'prom-client'
import type { Limit } from '../model/limit.js'
import type { Resource } from '../model/resource.js'
import type { BroadcastMetrics, FeedMetrics, FleetMetrics, WatchCacheMetrics } from '../model/stage-metrics.js'
import { MetricSet } from './metric-set.js'
import { RequestMetrics } from './request-metrics.js'

const RESOURCE = ['group', 'resource'] as const
const SIZE_BUCKETS = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]

const NO_WORKERS = { serving: 0, queuedBytes: 0 }

/** Values that are read at a scrape, instead of being counted as they happen. */
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
  /** Counted since the start. */
  readonly sentEvents: number
  readonly sentBytes: number
  readonly blockedBytes: number
  /** The number of watchers by transport and state. */
  readonly watchers: ReadonlyMap<string, number>
}

export interface ResourceMetrics {
  readonly feed: FeedMetrics
  readonly cache: WatchCacheMetrics
  readonly broadcast: BroadcastMetrics
  /** The metrics of a replica that is fed by NATS. */
  readonly fleet: FleetMetrics
  list(seconds: number, bytes: number): void
  /** Counts a watch that asked for a revision that is gone. */
  resumeExpired(): void
}

export class Metrics {
  readonly #set = new MetricSet()
  readonly requests = new RequestMetrics(this.#set)
  #gauges: () => Iterable<ResourceGauges> = () => []
  /** The totals that the counters of sent events and bytes have reached. */
  readonly #sentTotals = new Map<string, number>()

  readonly #received = this.#set.counter('feed_events_received_total', 'Events received from the upstream.', RESOURCE)
  readonly #dropped = this.#set.counter(
    'feed_events_dropped_total',
    'Events that the upstream sent twice, and that were dropped.',
    RESOURCE,
  )
  readonly #reconnects = this.#set.counter(
    'feed_reconnects_total',
    'Upstream watches that were opened again after a connection broke, without a gap.',
    RESOURCE,
  )
  readonly #relists = this.#set.counter(
    'feed_relists_total',
    'Times the whole state of a resource was listed again and replaced the cache, by reason.',
    [...RESOURCE, 'reason'],
  )
  readonly #compactions = this.#set.counter(
    'feed_compactions_total',
    'Lists and watches that etcd refused because it had compacted their revision.',
    RESOURCE,
  )
  readonly #initialisations = this.#set.counter(
    'feed_initializations_total',
    'Times the first list of a resource was complete.',
    RESOURCE,
  )
  readonly #initErrors = this.#set.counter(
    'feed_initialization_errors_total',
    'First lists that failed, by the code of the error.',
    [...RESOURCE, 'code'],
  )
  readonly #initSeconds = this.#set.renamed(
    this.#set.gauge('feed_initialization_duration_seconds', 'Time that the last first list took.', RESOURCE, 'max'),
    'feed_initialization_seconds',
  )

  readonly #cacheEvents = this.#set.counter('cache_events_total', 'Events that entered the cache.', RESOURCE)
  readonly #coalesced = this.#set.counter(
    'cache_events_coalesced_total',
    'Events made from the difference between two lists, after a gap (--on-gap=coalesce).',
    RESOURCE,
  )
  readonly #readWait = this.#set.renamed(
    this.#set.histogram(
      'cache_read_wait_duration_seconds',
      'Time that reads waited until the cache had the revision they asked for.',
      RESOURCE,
    ),
    'cache_read_wait_seconds',
  )
  readonly #historyCut = this.#set.counter(
    'cache_history_cut_total',
    'Revisions of history that were dropped before they were 75 s old, because --watch-cache-bytes was reached.',
    RESOURCE,
  )
  readonly #objects = this.#set.gauge('cache_objects', 'Objects in the cache.', RESOURCE, 'max')
  readonly #unservable = this.#set.gauge(
    'cache_unservable_values',
    'Values in etcd that cannot be served.',
    RESOURCE,
    'max',
  )
  readonly #encrypted = this.#set.gauge(
    'cache_encrypted_values',
    'Values that are encrypted at rest. While there are any, nothing of the resource is served.',
    RESOURCE,
    'max',
  )
  readonly #revision = this.#set.gauge(
    'cache_resource_version',
    'The revision up to which the cache has everything.',
    RESOURCE,
    'min',
  )
  readonly #ringBatches = this.#set.gauge('cache_ring_batches', 'Revisions of history in the cache.', RESOURCE, 'min')
  readonly #ringBytes = this.#set.gauge('cache_ring_bytes', 'Bytes of history in the cache.', RESOURCE)
  readonly #ringAge = this.#set.gauge(
    'cache_ring_age_seconds',
    'Age of the oldest revision in the history: a client may be away for so long and still resume.',
    RESOURCE,
    'min',
  )
  readonly #waiting = this.#set.gauge('cache_waiting_reads', 'Reads that wait now for a revision.', RESOURCE)
  readonly #staleness = this.#set.gauge(
    'cache_staleness_seconds',
    'Time since the upstream last confirmed the cache; 0 while connected.',
    RESOURCE,
    'max',
  )
  readonly #ready = this.#set.gauge(
    'cache_ready',
    '1 when lists and watches of the resource are answered, otherwise 0.',
    RESOURCE,
    'min',
  )

  readonly #consistencyChecks = this.#set.counter(
    'consistency_checks_total',
    'Comparisons of a cache with etcd, by outcome.',
    [...RESOURCE, 'outcome'],
  )
  readonly #consistencyFailures = this.#set.counter(
    'consistency_check_failures_total',
    'Comparisons that found a difference, after which the cache was rebuilt.',
    RESOURCE,
  )
  // Both under their old names as well, for one release.
  readonly #auditChecks = this.#set.counter(
    'audit_checks_total',
    'Deprecated: see distributary_consistency_checks_total.',
    [...RESOURCE, 'outcome'],
  )
  readonly #auditFailures = this.#set.counter(
    'audit_failures_total',
    'Deprecated: see distributary_consistency_check_failures_total.',
    RESOURCE,
  )

  readonly #sentEvents = this.#set.counter(
    'broadcast_events_sent_total',
    'Events written to the connections of watchers.',
    RESOURCE,
  )
  readonly #sentBytes = this.#set.counter(
    'broadcast_bytes_sent_total',
    'Bytes written to the connections of watchers.',
    RESOURCE,
  )
  readonly #ended = this.#set.counter('broadcast_watchers_ended_total', 'Watches that ended, by reason.', [
    ...RESOURCE,
    'reason',
  ])
  readonly #delay = this.#set.histogram('broadcast_delay_seconds', 'Delay of events on each segment of their way.', [
    ...RESOURCE,
    'segment',
  ])
  readonly #passes = this.#set.renamed(
    this.#set.histogram(
      'broadcast_pass_slice_duration_seconds',
      'Time of one slice of fan-out work, between two turns of the event loop.',
      [],
    ),
    'broadcast_pass_slice_seconds',
  )
  readonly #watchers = this.#set.gauge('broadcast_watchers', 'Running watches, by transport and state.', [
    ...RESOURCE,
    'transport',
    'state',
  ])
  readonly #groups = this.#set.gauge('broadcast_groups', 'Groups of watchers that share their bytes.', RESOURCE)
  readonly #logBytes = this.#set.gauge(
    'broadcast_log_bytes',
    'Bytes of encoded events kept for groups of watchers.',
    RESOURCE,
  )
  readonly #blockedBytes = this.#set.gauge(
    'broadcast_socket_bytes',
    'Bytes written to sockets that clients have not taken yet.',
    RESOURCE,
  )

  readonly #resumesExpired = this.#set.counter(
    'watch_resumes_expired_total',
    'Watches answered with 410 because the history no longer has their revision; their clients list again.',
    RESOURCE,
  )

  readonly #wrapped = this.#set.counter(
    'codec_wrapped_values_total',
    'Values that are not Kubernetes objects, and were served wrapped in one.',
    [],
  )
  readonly #unreadable = this.#set.counter(
    'codec_unreadable_objects_total',
    'Objects that could not be turned into JSON.',
    [],
  )
  readonly #unknownFields = this.#set.counter(
    'codec_unknown_fields_total',
    'Fields of protobuf values that no schema knows, so that JSON clients do not see them.',
    [],
  )
  readonly #rejected = this.#set.counter('http_rejected_total', 'Requests refused by a limit, by its name.', ['limit'])
  readonly #listSeconds = this.#set.renamed(
    this.#set.histogram(
      'list_duration_seconds',
      'Time from the arrival of a list request to the end of its answer.',
      RESOURCE,
    ),
    'list_seconds',
  )
  readonly #listBytes = this.#set.histogram('list_bytes', 'Size of the answers to lists.', RESOURCE, SIZE_BUCKETS)
  readonly #initialStates = this.#set.gauge(
    'initial_states',
    'Initial states and large lists that are being sent now.',
    [],
  )
  #readInitialStates = (): number => 0

  readonly #fleetPublishing = this.#set.gauge(
    'fleet_publishing',
    '1 on the replica that publishes the resource to NATS, 0 on candidates that stand by; edges do not have it.',
    RESOURCE,
  )
  readonly #fleetQueue = this.#set.gauge(
    'fleet_publisher_queue_bytes',
    'Bytes that wait until they are written to NATS.',
    RESOURCE,
  )
  readonly #fleetPublishedMessages = this.#set.counter(
    'fleet_published_messages_total',
    'Messages written to NATS and acknowledged.',
    RESOURCE,
  )
  readonly #fleetPublishedEvents = this.#set.counter(
    'fleet_published_events_total',
    'Events written to NATS and acknowledged.',
    RESOURCE,
  )
  readonly #fleetPublishedBytes = this.#set.counter(
    'fleet_published_bytes_total',
    'Bytes written to NATS and acknowledged.',
    RESOURCE,
  )
  readonly #fleetSnapshots = this.#set.counter(
    'fleet_snapshots_made_total',
    'Snapshots written to the object store.',
    RESOURCE,
  )
  readonly #fleetSnapshotSeconds = this.#set.renamed(
    this.#set.gauge('fleet_snapshot_duration_seconds', 'Time that the last snapshot took to make.', RESOURCE, 'max'),
    'fleet_snapshot_seconds',
  )
  readonly #fleetSnapshotBytes = this.#set.gauge('fleet_snapshot_bytes', 'Size of the last snapshot.', RESOURCE, 'max')
  readonly #fleetReceivedMessages = this.#set.counter(
    'fleet_received_messages_total',
    'Messages with events received from NATS.',
    RESOURCE,
  )
  readonly #fleetReceivedEvents = this.#set.counter(
    'fleet_received_events_total',
    'Events received from NATS that were new.',
    RESOURCE,
  )
  readonly #fleetBroken = this.#set.counter(
    'fleet_chain_breaks_total',
    'Messages that did not follow the ones before them, so that the replica loaded a newer snapshot.',
    RESOURCE,
  )
  readonly #fleetLoaded = this.#set.counter(
    'fleet_snapshots_taken_total',
    'Snapshots that this replica loaded.',
    RESOURCE,
  )
  readonly #fleetUnusable = this.#set.counter(
    'fleet_snapshots_unusable_total',
    'Snapshots that were missing, or whose checksum was wrong.',
    RESOURCE,
  )

  readonly #certificates = this.#set.gauge(
    'certificate_expiry_timestamp_seconds',
    'End of a certificate that the server shows (the first in its chain), in seconds since the epoch, by whom it is shown to.',
    ['use', 'file'],
    'min',
  )
  readonly #reloadOk = this.#set.gauge(
    'config_last_reload_successful',
    '1 when the last attempt to load the configuration succeeded, otherwise 0.',
    [],
    'min',
  )
  readonly #reloadSeconds = this.#set.gauge(
    'config_last_reload_success_timestamp_seconds',
    'Time at which the configuration was last loaded, in seconds since 1970.',
    [],
    'min',
  )
  readonly #workers = this.#set.gauge('workers', 'Worker processes that serve clients; 0 without --workers.', [])
  readonly #workerQueue = this.#set.gauge(
    'worker_queue_bytes',
    'Bytes that the primary process has not yet handed to its workers.',
    [],
  )
  readonly #writeJobs = this.#set.histogram('write_job_seconds', 'Time that a write took in a worker thread.', [])
  readonly #writeThreads = this.#set.counter(
    'write_threads_replaced_total',
    'Worker threads that a write was too much for (deadline, memory), or that ended by themselves (crash).',
    ['reason'],
  )
  readonly #workerRestarts = this.#set.counter('worker_restarts_total', 'Workers that ended and were replaced.', [])
  #readWorkers: () => { readonly serving: number; readonly queuedBytes: number } = () => NO_WORKERS

  get registry(): Registry {
    return this.#set.registry
  }

  constructor(version: string) {
    this.configLoaded(true, Date.now())
    collectDefaultMetrics({ register: this.registry })
    this.#set.gauge('build_info', 'Always 1; the version is in the label.', ['version'], 'first').set({ version }, 1)
    this.#set
      .gauge('heap_limit_bytes', 'Size to which the JavaScript heap may grow.', [])
      .set(getHeapStatistics().heap_size_limit)
    this.#set
      .gauge(
        'memory_limit_bytes',
        'Memory that the process may use: the limit of its container, or the memory of the machine.',
        [],
        'first',
      )
      .set(memoryLimit())
  }

  /** Sets when the certificate in `file` ends; `use` names whom it is shown to. */
  certificateEnds(use: string, file: string, seconds: number): void {
    this.#certificates.set({ use, file }, seconds)
  }

  /** Sets what a scrape reads about each resource. */
  observe(gauges: () => Iterable<ResourceGauges>): void {
    this.#gauges = gauges
  }

  async expose(): Promise<{ readonly contentType: string; readonly text: string }> {
    this.#readGauges()
    return { contentType: this.registry.contentType, text: await this.registry.metrics() }
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

  /** Observes the workers, in the process that has them. */
  observeWorkers(read: () => { readonly serving: number; readonly queuedBytes: number }): void {
    this.#readWorkers = read
  }

  /** @param atMs milliseconds since 1970. */
  configLoaded(isSuccess: boolean, atMs: number): void {
    this.#reloadOk.set(isSuccess ? 1 : 0)
    if (isSuccess) this.#reloadSeconds.set(atMs / 1000)
  }

  workerRestarted(): void {
    this.#workerRestarts.inc()
  }

  get contentType(): string {
    return this.registry.contentType
  }

  /** Figures for the status page, which has no Prometheus to ask: totals over all resources since the start. */
  async figures(): Promise<{
    /** Events that entered the caches: a worker's come from its primary process, a replica's from another one. */
    readonly takenEvents: number
    /** Cumulative counts by upper bound in seconds, for the segment cache-to-socket. */
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

  /** Returns the narrow parts for one resource. */
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

  writeJob(seconds: number): void {
    this.#writeJobs.observe({}, seconds)
  }

  writeThreadReplaced(reason: string): void {
    this.#writeThreads.inc({ reason })
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

  /** Observes the lists and initial states that are being sent. */
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
    this.requests.readGauges()
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
}

/** Without a limit the kernel's answer is a number larger than the machine. */
function memoryLimit(): number {
  const limit = process.constrainedMemory() ?? 0
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Raises a counter to a total that is kept elsewhere; a source that restarted counts from zero again. */
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
