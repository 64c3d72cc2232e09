/** Everything that the parts of one resource's stream share. */
import type { Ambient } from '../../support/ambient.js'
import type { Broker } from '../broker.js'
import type { FleetMetrics } from '../fleet-metrics.js'
import type { Envelope } from './signed-envelope.js'
import type { Names } from './names.js'
import type { SnapshotStore } from './snapshot-store.js'

export interface StreamContext extends Ambient {
  readonly client: Broker
  readonly names: Names
  readonly envelope: Envelope
  readonly store: SnapshotStore
  readonly metrics: FleetMetrics
}
