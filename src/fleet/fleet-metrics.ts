/** The metrics for one resource of a replica that receives the resource from NATS or publishes it there. */
import { announced, counter, gauge, only, type Recorders } from '../engine/model/metric.js'
import { DELAY } from '../engine/model/stage-metrics.js'

export const FLEET_METRICS = {
  /** Computed from the clocks of two machines. */
  delay: only(DELAY, 'publisher-to-replica'),
  publishing: gauge(
    'sum',
    'fleet_publishing',
    '1 on the replica that publishes the resource to NATS, 0 on standby candidates; absent on edges.',
  ),
  queued: gauge('sum', 'fleet_publisher_queue_bytes', 'Bytes waiting to be written to NATS.'),
  published: counter('fleet_published_events_total', 'Events written to NATS and acknowledged.'),
  snapshot: counter('fleet_snapshots_made_total', 'Snapshots written to the object store.'),
  received: counter('fleet_received_events_total', 'New events received from NATS.'),
  broken: announced(
    counter(
      'fleet_chain_breaks_total',
      'Messages that did not follow their predecessor; the replica then loaded a newer snapshot.',
    ),
    [],
  ),
  refused: announced(
    counter(
      'fleet_refused_total',
      'Messages, snapshots, statuses and requests from NATS refused for lack of a valid signature (--nats-signing-key-file).',
    ),
    [],
  ),
  snapshotLoaded: counter('fleet_snapshots_taken_total', 'Snapshots that this replica loaded.'),
  snapshotUnusable: counter('fleet_snapshots_unusable_total', 'Snapshots that were missing or had a wrong checksum.'),
}
export type FleetMetrics = Recorders<typeof FLEET_METRICS>
