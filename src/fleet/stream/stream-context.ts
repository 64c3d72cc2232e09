/** Everything that the parts of one resource's stream share. */
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { Broker } from '../broker.js'
import type { FleetMetrics } from '../fleet-metrics.js'
import type { Envelope } from './envelope.js'
import type { Names } from './names.js'
import type { SnapshotStore } from './snapshot-store.js'

export interface StreamContext {
  readonly client: Broker
  readonly names: Names
  readonly envelope: Envelope
  readonly store: SnapshotStore
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: FleetMetrics
}
