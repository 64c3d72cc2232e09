/**
 * The source behind one cache. It writes to a `FeedSink` and proves how fresh the delivered content is. The source is
 * an upstream (`upstream-feed.ts`), a NATS stream or a worker's primary process, and the wiring of a resource does not
 * know which.
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
  /** The sink is not called after this call. Resolves when nothing runs any more. */
  stop(): Promise<void>
  /** Compares the sink's contents with etcd now. Absent in a worker, because the primary process does this. */
  checkConsistency?(): Promise<CheckOutcome>
}

export interface FeedRequest {
  /** One of the resources served from the prefix. It provides the prefix, and names for logs and metrics. */
  readonly resource: Resource
  readonly sink: FeedSink
  readonly metrics: FeedMetrics
  /**
   * The contents of the sink, for the consistency check that the process with the upstream watch runs from time to
   * time.
   */
  readonly checked?: CheckedCache
}

/** Creates the feed of one etcd prefix, without starting it. */
export type OpenFeed = (request: FeedRequest) => ResourceFeed
