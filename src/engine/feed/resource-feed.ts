/**
 * The source behind one cache: it writes to a `FeedSink` and proves how fresh that is. An upstream
 * (`upstream-feed.ts`), a NATS stream and a worker's primary process are such sources, and the wiring of a resource
 * does not know which one it has.
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
  /** Resolves when nothing runs any more; the sink is not called after this call. */
  stop(): Promise<void>
  /** Compares what the sink has with etcd now. Absent in a worker, where the primary process does it. */
  checkConsistency?(): Promise<CheckOutcome>
}

export interface FeedRequest {
  /** One of the resources served from the prefix; provides the prefix, and names for logs and metrics. */
  readonly resource: Resource
  readonly sink: FeedSink
  readonly metrics: FeedMetrics
  /** The contents of the sink, for the consistency check that the process with the watch runs from time to time. */
  readonly checked?: CheckedCache
}

/** Creates one feed per etcd prefix, not started yet. */
export type OpenFeed = (request: FeedRequest) => ResourceFeed
