/** The metrics of feeds: lists, watches, and comparisons with etcd. */
import type { FeedMetrics } from '../../engine/model/stage-metrics.js'
import { announce, type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

export function feedSeries(set: MetricSet) {
  const received = set.hotCounter('feed_events_received_total', 'Events received from the upstream.', RESOURCE)
  const dropped = set.counter(
    'feed_events_dropped_total',
    'Events dropped because the upstream sent them twice.',
    RESOURCE,
  )
  const reconnects = set.counter(
    'feed_reconnects_total',
    'Upstream watches reopened without a gap after a connection broke.',
    RESOURCE,
  )
  const relists = set.counter('feed_relists_total', 'Relists of a resource that replaced the cache, by reason.', [
    ...RESOURCE,
    'reason',
  ])
  const compactions = set.counter(
    'feed_compactions_total',
    'Lists and watches that etcd refused because it had compacted their revision.',
    RESOURCE,
  )
  const initialisations = set.counter(
    'feed_initializations_total',
    'Initializations of a resource: list plus the history after it.',
    RESOURCE,
  )
  const initErrors = set.counter(
    'feed_initialization_errors_total',
    'Lists of a resource that failed, by the code of the error.',
    [...RESOURCE, 'code'],
  )
  const initSeconds = set.gauge(
    'feed_initialization_duration_seconds',
    'Time that the last initialization of a resource took.',
    RESOURCE,
    'max',
  )
  const consistencyChecks = set.counter(
    'consistency_checks_total',
    'Comparisons of a cache with etcd, by outcome; after `different` the cache was rebuilt.',
    [...RESOURCE, 'outcome'],
  )

  return (labels: ResourceLabels): FeedMetrics => {
    const receivedHere = received.labels(labels)
    announce(relists, { ...labels, reason: 'history-changed' })
    announce(consistencyChecks, { ...labels, outcome: 'different' })
    return {
      received: (_batches, events) => receivedHere(events),
      dropped: (events) => dropped.inc(labels, events),
      reconnected: () => reconnects.inc(labels),
      relisted: (reason) => relists.inc({ ...labels, reason }),
      compacted: () => compactions.inc(labels),
      initialised: (seconds) => {
        initialisations.inc(labels)
        initSeconds.set(labels, seconds)
      },
      initialisationFailed: (code) => initErrors.inc({ ...labels, code }),
      checked: (outcome) => consistencyChecks.inc({ ...labels, outcome }),
    }
  }
}
