/** What a replica counts that is fed by NATS, or feeds others through it. `src/server/metrics` implements it. */
import type { ReplaceReason } from '../engine/model/feed-sink.js'

export interface FleetMetrics {
  /** The time from the publisher's writing to the sink, by two machines' clocks. */
  hop(seconds: number): void
  received(messages: number, events: number): void
  /** A message did not follow the one before: a newer snapshot is taken. */
  broken(): void
  /** Something was not signed by this fleet, and is not used. */
  refused(): void
  snapshotLoaded(reason: ReplaceReason): void
  /** A snapshot cannot be read. */
  snapshotUnusable(): void
  published(messages: number, events: number, bytes: number): void
  snapshot(seconds: number, bytes: number): void
  /** Bytes that wait for their turn to be written. */
  queued(bytes: number): void
  /** Whether this process publishes the resource; told by those that may. */
  publishing(isPublishing: boolean): void
}
