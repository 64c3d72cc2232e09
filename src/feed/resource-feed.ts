/**
 * What stands behind one cache: something that writes to its `FeedSink` and answers for its freshness. An upstream
 * (`upstream-feed.ts`), a NATS stream and a worker's primary are such sources, and whoever wires a resource does not know
 * which one it has.
 */
import type { Resource } from '../model/resource.js'
import type { CheckedCache } from '../model/checked-cache.js'
import type { CheckOutcome } from './consistency-check.js'
import type { FeedMetrics } from '../model/stage-metrics.js'
import type { FeedStatus } from './feed-options.js'
import type { FeedSink } from '../model/feed-sink.js'
import type { FreshnessSource } from '../model/freshness-source.js'

export interface ResourceFeed {
  readonly freshness: FreshnessSource
  readonly status: FeedStatus
  start(): void
  /** Resolves when nothing of it runs any more; the sink hears nothing after the call. */
  stop(): Promise<void>
  /** Compares what the sink holds with etcd, now. Absent in a worker, whose primary does it. */
  checkConsistency?(): Promise<CheckOutcome>
}

export interface FeedRequest {
  /** One of those served from the prefix: it gives the prefix, and names to logs and metrics. */
  readonly resource: Resource
  readonly sink: FeedSink
  readonly metrics: FeedMetrics
  /** What the sink holds, for the consistency check; the process that owns the watch runs it now and then. */
  readonly checked?: CheckedCache
}

/** One per etcd prefix, not started yet. */
export type OpenFeed = (request: FeedRequest) => ResourceFeed
