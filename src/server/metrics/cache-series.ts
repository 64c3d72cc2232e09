/** The metrics of caches: their events, their contents and their history. */
import type { WatchCacheMetrics } from '../../engine/model/stage-metrics.js'
import { type LabelledGauges, type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

export function cacheSeries(set: MetricSet) {
  const events = set.hotCounter('cache_events_total', 'Events that entered the cache.', RESOURCE)
  const coalesced = set.counter(
    'cache_events_coalesced_total',
    'Events made from the difference between two lists, after a gap (--on-gap=coalesce).',
    RESOURCE,
  )
  const readWait = set.histogram(
    'cache_read_wait_duration_seconds',
    'Time that reads waited for the first state, or for the cache to reach their revision.',
    RESOURCE,
  )
  const historyCut = set.counter(
    'cache_history_cut_total',
    'Revisions of history dropped before they were 75 s old, because --watch-cache-bytes was reached.',
    RESOURCE,
  )
  const objects = set.resourceGauges([
    ['cache_objects', 'Objects in the cache.', 'max', (state) => state.objects],
    ['cache_unservable_values', 'Values in etcd that cannot be served.', 'max', (state) => state.unservable],
  ])
  const encrypted = set.gauge(
    'cache_encrypted_values',
    'Values encrypted at rest that cannot be read here, by the name of their key. While there are any, watches of the resource are refused.',
    [...RESOURCE, 'key'],
    'max',
  )
  const history = set.resourceGauges([
    ['cache_resource_version', 'Revision up to which the cache is complete.', 'min', (state) => state.revision],
    ['cache_ring_batches', 'Revisions of history in the cache.', 'min', (state) => state.ringBatches],
    ['cache_ring_bytes', 'Bytes of history in the cache.', 'sum', (state) => state.ringBytes],
    [
      'cache_ring_age_seconds',
      'Age of the oldest revision in the history: how long a client may be away and still resume.',
      'min',
      (state) => state.ringAgeSeconds,
    ],
    ['cache_waiting_reads', 'Reads waiting for a revision.', 'sum', (state) => state.waiting],
    [
      'cache_staleness_seconds',
      'Time since the upstream last confirmed the cache; 0 while connected.',
      'max',
      (state) => state.stalenessSeconds,
    ],
    [
      'cache_ready',
      '1 if lists and watches of the resource are answered, otherwise 0.',
      'min',
      (state) => (state.ready ? 1 : 0),
    ],
  ])
  return {
    /** @param arrived receives the seconds from the arrival of a run of events to its dispatch. */
    of: (labels: ResourceLabels, arrived: (seconds: number) => void): WatchCacheMetrics => {
      const entered = events.labels(labels)
      return {
        applied: (count, seconds) => {
          entered(count)
          arrived(seconds)
        },
        coalesced: (count) => coalesced.inc(labels, count),
        readWait: (seconds) => readWait.observe(labels, seconds),
        historyCut: (batches) => historyCut.inc(labels, batches),
      }
    },
    /** The number of events that entered all caches since the start. */
    totalEvents: () => events.total(),
    readGauges: (states: readonly LabelledGauges[]): void => {
      objects(states)
      history(states)
      encrypted.reset()
      for (const [labels, state] of states) {
        for (const [key, values] of state.encrypted) encrypted.set({ ...labels, key }, values)
      }
    },
  }
}
