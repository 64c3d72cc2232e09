/**
 * Metrics counted by the stages of one resource. `src/server/metrics` implements these interfaces and each stage gets
 * its own, so that no stage knows Prometheus and the metrics know no stage.
 */
import type { EndReason } from './end-reason.js'
import type { ReplaceReason } from './feed-sink.js'

/** Bound to the resource by the caller. */
export interface FeedMetrics {
  received(batches: number, events: number): void
  /** Events that etcd sent twice. */
  dropped(events: number): void
  /** The watch continues after a lost connection. */
  reconnected(): void
  /** A whole state replaced an earlier one. */
  relisted(reason: ReplaceReason): void
  /** A list or a watch met a compaction. */
  compacted(): void
  /** The time from the beginning of the list to `synced`. */
  initialised(seconds: number): void
  /** @param code the upstream's error code. */
  initialisationFailed(code: string): void
  /** Counts a comparison of the cache with etcd, or an attempt. */
  checked(outcome: 'equal' | 'different' | 'skipped'): void
}

export interface WatchCacheMetrics {
  /** Events put into the cache and dispatched, and the time that took. */
  applied(events: number, seconds: number): void
  /** Events made from the difference of two states. */
  coalesced(events: number): void
  readWait(seconds: number): void
  /** Batches of history that the byte limit has evicted before their time. */
  historyCut(batches: number): void
}

export interface BroadcastMetrics {
  ended(reason: EndReason): void
  /** The time from the arrival of an event to the end of the pass that wrote it. */
  delay(seconds: number): void
}

/** All metrics of one resource. */
export interface ResourceMetrics {
  readonly feed: FeedMetrics
  readonly cache: WatchCacheMetrics
  readonly broadcast: BroadcastMetrics
  list(bytes: number): void
  /** Counts a watch from a revision that is gone. */
  resumeExpired(): void
}
