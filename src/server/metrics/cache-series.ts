/** The metrics of caches: their events, their contents and their history. */
import type { WatchCacheMetrics } from '../../engine/model/stage-metrics.js'
import { type LabelledGauges, type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

export class CacheSeries {
  readonly #events
  readonly #coalesced
  readonly #readWait
  readonly #historyCut
  readonly #objects
  readonly #unservable
  readonly #encrypted
  readonly #revision
  readonly #ringBatches
  readonly #ringBytes
  readonly #ringAge
  readonly #waiting
  readonly #staleness
  readonly #ready

  constructor(set: MetricSet) {
    this.#events = set.hotCounter('cache_events_total', 'Events that entered the cache.', RESOURCE)
    this.#coalesced = set.counter(
      'cache_events_coalesced_total',
      'Events made from the difference between two lists, after a gap (--on-gap=coalesce).',
      RESOURCE,
    )
    this.#readWait = set.histogram(
      'cache_read_wait_duration_seconds',
      'Time that reads waited for the cache to reach their revision.',
      RESOURCE,
    )
    this.#historyCut = set.counter(
      'cache_history_cut_total',
      'Revisions of history dropped before they were 75 s old, because --watch-cache-bytes was reached.',
      RESOURCE,
    )
    this.#objects = set.gauge('cache_objects', 'Objects in the cache.', RESOURCE, 'max')
    this.#unservable = set.gauge('cache_unservable_values', 'Values in etcd that cannot be served.', RESOURCE, 'max')
    this.#encrypted = set.gauge(
      'cache_encrypted_values',
      'Values encrypted at rest that cannot be read here, by the name of their key. While there are any, watches of the resource are refused.',
      [...RESOURCE, 'key'],
      'max',
    )
    this.#revision = set.gauge('cache_resource_version', 'Revision up to which the cache is complete.', RESOURCE, 'min')
    this.#ringBatches = set.gauge('cache_ring_batches', 'Revisions of history in the cache.', RESOURCE, 'min')
    this.#ringBytes = set.gauge('cache_ring_bytes', 'Bytes of history in the cache.', RESOURCE)
    this.#ringAge = set.gauge(
      'cache_ring_age_seconds',
      'Age of the oldest revision in the history: how long a client may be away and still resume.',
      RESOURCE,
      'min',
    )
    this.#waiting = set.gauge('cache_waiting_reads', 'Reads waiting for a revision.', RESOURCE)
    this.#staleness = set.gauge(
      'cache_staleness_seconds',
      'Time since the upstream last confirmed the cache; 0 while connected.',
      RESOURCE,
      'max',
    )
    this.#ready = set.gauge(
      'cache_ready',
      '1 if lists and watches of the resource are answered, otherwise 0.',
      RESOURCE,
      'min',
    )
  }

  /** @param arrived receives the seconds from the arrival of a run of events to its dispatch. */
  of(labels: ResourceLabels, arrived: (seconds: number) => void): WatchCacheMetrics {
    const events = this.#events.labels(labels)
    return {
      applied: (count, seconds) => {
        events(count)
        arrived(seconds)
      },
      coalesced: (count) => this.#coalesced.inc(labels, count),
      readWait: (seconds) => this.#readWait.observe(labels, seconds),
      historyCut: (batches) => this.#historyCut.inc(labels, batches),
    }
  }

  /** The number of events that entered all caches since the start. */
  totalEvents(): number {
    return this.#events.total()
  }

  /** Sets the gauges of every resource; those of removed resources disappear. */
  readGauges(states: readonly LabelledGauges[]): void {
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
    ]
    for (const gauge of gauges) gauge.reset()
    for (const [labels, state] of states) {
      this.#objects.set(labels, state.objects)
      this.#unservable.set(labels, state.unservable)
      for (const [key, values] of state.encrypted) this.#encrypted.set({ ...labels, key }, values)
      this.#revision.set(labels, state.revision)
      this.#ringBatches.set(labels, state.ringBatches)
      this.#ringBytes.set(labels, state.ringBytes)
      this.#ringAge.set(labels, state.ringAgeSeconds)
      this.#waiting.set(labels, state.waiting)
      this.#staleness.set(labels, state.stalenessSeconds)
      this.#ready.set(labels, state.ready ? 1 : 0)
    }
  }
}
