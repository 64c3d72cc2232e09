/** The metrics of a fleet: what is published to NATS, and what replicas receive from it. */
import type { FleetMetrics } from '../../fleet/fleet-metrics.js'
import { announce, type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

export function fleetSeries(set: MetricSet) {
  const publishing = set.gauge(
    'fleet_publishing',
    '1 on the replica that publishes the resource to NATS, 0 on standby candidates; absent on edges.',
    RESOURCE,
  )
  const queue = set.gauge('fleet_publisher_queue_bytes', 'Bytes waiting to be written to NATS.', RESOURCE)
  const publishedEvents = set.counter(
    'fleet_published_events_total',
    'Events written to NATS and acknowledged.',
    RESOURCE,
  )
  const snapshots = set.counter('fleet_snapshots_made_total', 'Snapshots written to the object store.', RESOURCE)
  const receivedEvents = set.counter('fleet_received_events_total', 'New events received from NATS.', RESOURCE)
  const broken = set.counter(
    'fleet_chain_breaks_total',
    'Messages that did not follow their predecessor; the replica then loaded a newer snapshot.',
    RESOURCE,
  )
  const refused = set.counter(
    'fleet_refused_total',
    'Messages, snapshots, statuses and requests from NATS refused for lack of a valid signature (--nats-signing-key-file).',
    RESOURCE,
  )
  const loaded = set.counter('fleet_snapshots_taken_total', 'Snapshots that this replica loaded.', RESOURCE)
  const unusable = set.counter(
    'fleet_snapshots_unusable_total',
    'Snapshots that were missing or had a wrong checksum.',
    RESOURCE,
  )

  /** `hop` receives the seconds from the publisher's write to this replica. */
  return (labels: ResourceLabels, hop: (seconds: number) => void): FleetMetrics => {
    announce(refused, labels)
    return {
      hop,
      received: (events) => receivedEvents.inc(labels, events),
      broken: () => broken.inc(labels),
      refused: () => refused.inc(labels),
      snapshotLoaded: () => loaded.inc(labels),
      snapshotUnusable: () => unusable.inc(labels),
      published: (events) => publishedEvents.inc(labels, events),
      snapshot: () => snapshots.inc(labels),
      queued: (bytes) => queue.set(labels, bytes),
      publishing: (isPublishing) => publishing.set(labels, isPublishing ? 1 : 0),
    }
  }
}
