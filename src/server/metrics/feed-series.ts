/** The metrics of feeds: lists, watches, and comparisons with etcd. */
import type { FeedMetrics } from '../../engine/model/stage-metrics.js'
import { type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

export class FeedSeries {
  readonly #received
  readonly #dropped
  readonly #reconnects
  readonly #relists
  readonly #compactions
  readonly #initialisations
  readonly #initErrors
  readonly #initSeconds
  readonly #consistencyChecks
  readonly #consistencyFailures

  constructor(set: MetricSet) {
    this.#received = set.hotCounter('feed_events_received_total', 'Events received from the upstream.', RESOURCE)
    this.#dropped = set.counter(
      'feed_events_dropped_total',
      'Events dropped because the upstream sent them twice.',
      RESOURCE,
    )
    this.#reconnects = set.counter(
      'feed_reconnects_total',
      'Upstream watches reopened without a gap after a connection broke.',
      RESOURCE,
    )
    this.#relists = set.counter('feed_relists_total', 'Relists of a resource that replaced the cache, by reason.', [
      ...RESOURCE,
      'reason',
    ])
    this.#compactions = set.counter(
      'feed_compactions_total',
      'Lists and watches that etcd refused because it had compacted their revision.',
      RESOURCE,
    )
    this.#initialisations = set.counter(
      'feed_initializations_total',
      'Initializations of a resource: list plus the history after it.',
      RESOURCE,
    )
    this.#initErrors = set.counter(
      'feed_initialization_errors_total',
      'Lists of a resource that failed, by the code of the error.',
      [...RESOURCE, 'code'],
    )
    this.#initSeconds = set.gauge(
      'feed_initialization_duration_seconds',
      'Time that the last initialization of a resource took.',
      RESOURCE,
      'max',
    )
    this.#consistencyChecks = set.counter('consistency_checks_total', 'Comparisons of a cache with etcd, by outcome.', [
      ...RESOURCE,
      'outcome',
    ])
    this.#consistencyFailures = set.counter(
      'consistency_check_failures_total',
      'Comparisons that found a difference; the cache was then rebuilt.',
      RESOURCE,
    )
  }

  of(labels: ResourceLabels): FeedMetrics {
    const received = this.#received.labels(labels)
    return {
      received: (_batches, events) => received(events),
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
        if (outcome === 'different') this.#consistencyFailures.inc(labels)
      },
    }
  }
}
