/**
 * What stands behind one cache: something that writes to its `FeedSink` and answers for its freshness. An upstream
 * (`upstream-feed.ts`), a NATS stream and a worker's primary are such sources, and whoever wires a resource does not know
 * which one it has.
 */
import type { Key, KeyValue } from '../model/event.js'
import type { Resource } from '../model/resource.js'
import type { AuditedCache, AuditOutcome } from './consistency-check.js'
import type { FeedMetrics, FeedStatus } from './feed-options.js'
import type { FeedSink } from './feed-sink.js'
import type { FreshnessSource } from './freshness.js'

export interface FeedFreshness extends FreshnessSource {
  /** One key, linearizable; null when it is not there. @throws UpstreamError */
  readKey(key: Key, signal?: AbortSignal): Promise<KeyValue | null>
}

export interface ResourceFeed {
  readonly freshness: FeedFreshness
  readonly status: FeedStatus
  start(): void
  /** Resolves when nothing of it runs any more; the sink hears nothing after the call. */
  stop(): Promise<void>
  /** Compares what the sink holds with etcd, now. Not in a worker, whose primary does. */
  audit?(): Promise<AuditOutcome>
}

export interface FeedRequest {
  /** One of those served from the prefix: it gives the prefix, and names to logs and metrics. */
  readonly resource: Resource
  readonly sink: FeedSink
  readonly metrics: FeedMetrics
  /** What the sink holds, for the audit; the process that owns the watch looks at it now and then. */
  readonly audited?: AuditedCache
}

/** One per etcd prefix, not started yet. */
export type OpenFeed = (request: FeedRequest) => ResourceFeed
