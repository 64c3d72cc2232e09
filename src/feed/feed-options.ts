/** What a feed is made of and what it tells: its options, its metrics, its status. */
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { BackoffOptions } from '../support/backoff.js'
import type { Clock } from '../support/clock.js'
import type { Limiter } from '../support/limiter.js'
import type { Logger } from '../support/log.js'
import type { Random } from '../support/random.js'
import type { UpstreamErrorCode, UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import type { AuditOutcome } from './consistency-check.js'
import type { FeedSink, ReplaceReason } from './feed-sink.js'
import type { FeedState } from './feed-state.js'

/** Bound to the resource by whoever passes it in. */
export interface FeedMetrics {
  received(batches: number, events: number): void
  /** Events that had been handed over before: etcd has had duplicates. */
  dropped(events: number): void
  /** The watch goes on after a lost connection. */
  reconnected(): void
  /** A whole state replaced an earlier one. */
  relisted(reason: ReplaceReason): void
  /** A list or a watch met a compaction. */
  compacted(): void
  /** From the beginning of the list to `synced`. */
  initialised(seconds: number): void
  initialisationFailed(code: UpstreamErrorCode): void
  /** What is held was compared with etcd, or could not be. */
  audited(outcome: AuditOutcome['kind']): void
}

export interface FeedOptions {
  /** For logs. */
  readonly name: string
  readonly prefix: Key
  readonly upstream: UpstreamReader & UpstreamWatcher
  readonly sink: FeedSink
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: FeedMetrics
  /** Shared by all feeds of one etcd: how many list and replay at once. */
  readonly turns: Limiter
  /** How many revisions of history to replay at the start; 0: list the present. */
  readonly backfillRevisions: number
  readonly onGap: 'expire' | 'coalesce'
  readonly backoff: BackoffOptions
  /** Most keys in one page of a list. */
  readonly pageKeys: number
  /** Bound on one read, and on etcd's accepting a watch. */
  readonly requestTimeoutMs: number
  /** Between attempts to list what was refused. */
  readonly refusedRetryMs: number
}

export interface FeedStatus {
  readonly state: FeedState['kind']
  /** Everything at or before it has been handed over; null before the first list. */
  readonly revision: Revision | null
  /** Milliseconds since the epoch, null while not watching. */
  readonly connectedSince: number | null
  /** Why it is not watching, null when it is or nothing is wrong. */
  readonly reason: string | null
  /** In a fleet: whether it publishes for all, is fed by who does, or reads the upstream because the fleet's broker is away. */
  readonly part?: 'publishes' | 'follows' | 'direct'
}
