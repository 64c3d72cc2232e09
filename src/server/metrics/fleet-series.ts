/** The metrics of a fleet: what is published to NATS, and what replicas receive from it. */
import type { FleetMetrics } from '../../fleet/fleet-metrics.js'
import { type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

export class FleetSeries {
  readonly #publishing
  readonly #queue
  readonly #publishedMessages
  readonly #publishedEvents
  readonly #publishedBytes
  readonly #snapshots
  readonly #snapshotSeconds
  readonly #snapshotBytes
  readonly #receivedMessages
  readonly #receivedEvents
  readonly #broken
  readonly #refused
  readonly #loaded
  readonly #unusable

  constructor(set: MetricSet) {
    this.#publishing = set.gauge(
      'fleet_publishing',
      '1 on the replica that publishes the resource to NATS, 0 on standby candidates; absent on edges.',
      RESOURCE,
    )
    this.#queue = set.gauge('fleet_publisher_queue_bytes', 'Bytes waiting to be written to NATS.', RESOURCE)
    this.#publishedMessages = set.counter(
      'fleet_published_messages_total',
      'Messages written to NATS and acknowledged.',
      RESOURCE,
    )
    this.#publishedEvents = set.counter(
      'fleet_published_events_total',
      'Events written to NATS and acknowledged.',
      RESOURCE,
    )
    this.#publishedBytes = set.counter(
      'fleet_published_bytes_total',
      'Bytes written to NATS and acknowledged.',
      RESOURCE,
    )
    this.#snapshots = set.counter('fleet_snapshots_made_total', 'Snapshots written to the object store.', RESOURCE)
    this.#snapshotSeconds = set.gauge(
      'fleet_snapshot_duration_seconds',
      'Time the last snapshot took.',
      RESOURCE,
      'max',
    )
    this.#snapshotBytes = set.gauge('fleet_snapshot_bytes', 'Size of the last snapshot.', RESOURCE, 'max')
    this.#receivedMessages = set.counter(
      'fleet_received_messages_total',
      'Messages with events received from NATS.',
      RESOURCE,
    )
    this.#receivedEvents = set.counter('fleet_received_events_total', 'New events received from NATS.', RESOURCE)
    this.#broken = set.counter(
      'fleet_chain_breaks_total',
      'Messages that did not follow their predecessor; the replica then loaded a newer snapshot.',
      RESOURCE,
    )
    this.#refused = set.counter(
      'fleet_refused_total',
      'Messages, snapshots, statuses and questions from NATS refused for lack of a signature (--nats-signing-key-file).',
      RESOURCE,
    )
    this.#loaded = set.counter('fleet_snapshots_taken_total', 'Snapshots that this replica loaded.', RESOURCE)
    this.#unusable = set.counter(
      'fleet_snapshots_unusable_total',
      'Snapshots that were missing or had a wrong checksum.',
      RESOURCE,
    )
  }

  /** @param hop receives the seconds from the publisher's write to this replica. */
  of(labels: ResourceLabels, hop: (seconds: number) => void): FleetMetrics {
    return {
      hop,
      received: (messages, events) => {
        this.#receivedMessages.inc(labels, messages)
        this.#receivedEvents.inc(labels, events)
      },
      broken: () => this.#broken.inc(labels),
      refused: () => this.#refused.inc(labels),
      snapshotLoaded: () => this.#loaded.inc(labels),
      snapshotUnusable: () => this.#unusable.inc(labels),
      published: (messages, events, bytes) => {
        this.#publishedMessages.inc(labels, messages)
        this.#publishedEvents.inc(labels, events)
        this.#publishedBytes.inc(labels, bytes)
      },
      snapshot: (seconds, bytes) => {
        this.#snapshots.inc(labels)
        this.#snapshotSeconds.set(labels, seconds)
        this.#snapshotBytes.set(labels, bytes)
      },
      queued: (bytes) => this.#queue.set(labels, bytes),
      publishing: (isPublishing) => this.#publishing.set(labels, isPublishing ? 1 : 0),
    }
  }
}
