/** Metrics of a replica that is fed by NATS, or publishes to it. `src/server/metrics` implements this interface. */
import type { ReplaceReason } from '../engine/model/feed-sink.js'

export interface FleetMetrics {
  /** The time from the publisher's write to the sink, by two machines' clocks. */
  hop(seconds: number): void
  /** Called for each message with events. */
  received(events: number): void
  /** A message did not follow the previous one, so a newer snapshot is read. */
  broken(): void
  /** Something was not signed by this fleet and is ignored. */
  refused(): void
  snapshotLoaded(reason: ReplaceReason): void
  /** A snapshot is unreadable. */
  snapshotUnusable(): void
  /** Called for each message. */
  published(events: number): void
  /** A snapshot was written. */
  snapshot(): void
  /** Bytes waiting to be written. */
  queued(bytes: number): void
  /** Whether this process publishes the resource; reported only by processes that may. */
  publishing(isPublishing: boolean): void
}
