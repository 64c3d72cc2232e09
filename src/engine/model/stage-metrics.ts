/** The metrics of the stages. Each belongs to one resource, except the metrics of the pump and the upstream. */
import type { EndReason } from './end-reason.js'
import type { ReplaceReason } from './feed-sink.js'
import { announced, counter, gauge, only, type Recorders, seconds } from './metric.js'

/** @param operation etcd's operation. @param outcome `ok`, or the code of the error. */
export const UPSTREAM_METRICS = {
  etcdRequestEnded: seconds<[operation: string, outcome: string]>(
    'etcd_request_duration_seconds',
    'Time until etcd answered a request, excluding watches, by outcome: ok, or the error.',
    'operation',
    'outcome',
  ),
}
export type UpstreamMetrics = Recorders<typeof UPSTREAM_METRICS>

export const FEED_METRICS = {
  received: counter('feed_events_received_total', 'Events received from the upstream.'),
  dropped: counter('feed_events_dropped_total', 'Events dropped because the upstream sent them twice.'),
  reconnected: counter('feed_reconnects_total', 'Upstream watches reopened without a gap after a connection broke.'),
  relisted: announced(
    counter<[ReplaceReason]>(
      'feed_relists_total',
      'Relists of a resource that replaced the cache, by reason.',
      'reason',
    ),
    ['history-changed'],
  ),
  compacted: counter(
    'feed_compactions_total',
    'Lists and watches that etcd refused because it had compacted their revision.',
  ),
  initialised: counter(
    'feed_initializations_total',
    'Initializations of a resource, each a list and the history after it.',
  ),
  initialisationFailed: counter<[code: string]>(
    'feed_initialization_errors_total',
    'Lists of a resource that failed, by the code of the error.',
    'code',
  ),
  initialisationSeconds: gauge(
    'max',
    'feed_initialization_duration_seconds',
    'Time that the last initialization of a resource took.',
  ),
  checked: announced(
    counter<['equal' | 'different' | 'skipped']>(
      'consistency_checks_total',
      'Comparisons of a cache with etcd, by outcome; after `different` the cache was rebuilt.',
      'outcome',
    ),
    ['different'],
  ),
}
export type FeedMetrics = Recorders<typeof FEED_METRICS>

/** A segment of an event's path. */
type Segment = 'upstream-to-cache' | 'cache-to-socket' | 'publisher-to-replica'

/**
 * The delay of an event from its arrival until it is dispatched, or until it is written. In a fleet, also from the
 * publisher's write to this replica.
 */
export const DELAY = seconds<[Segment]>(
  'broadcast_delay_seconds',
  'Delay of events, by segment of their path.',
  'segment',
)

export const CACHE_METRICS = {
  entered: counter('cache_events_total', 'Events that entered the cache.'),
  delay: only(DELAY, 'upstream-to-cache'),
  coalesced: counter(
    'cache_events_coalesced_total',
    'Events made from the difference between two lists, after a gap (--on-gap=coalesce).',
  ),
  readWait: seconds(
    'cache_read_wait_duration_seconds',
    'Time that reads waited for the first state, or for the cache to reach their revision.',
  ),
  historyCut: counter(
    'cache_history_cut_total',
    'Revisions of history dropped before they were 75 s old, because --watch-cache-bytes was reached.',
  ),
}
export type CacheMetrics = Recorders<typeof CACHE_METRICS>

export const BROADCAST_METRICS = {
  ended: announced(
    counter<[EndReason]>('broadcast_watchers_ended_total', 'Watches that ended, by reason.', 'reason'),
    ['expired'],
    ['stuck'],
    ['slow'],
    ['error'],
  ),
  delay: only(DELAY, 'cache-to-socket'),
}
export type BroadcastMetrics = Recorders<typeof BROADCAST_METRICS>

export const PUMP_METRICS = {
  slice: seconds(
    'broadcast_pass_slice_duration_seconds',
    'Duration of one slice of fan-out work between two turns of the event loop.',
  ),
}
export type PumpMetrics = Recorders<typeof PUMP_METRICS>

export const READ_METRICS = {
  resumeExpired: announced(
    counter(
      'watch_resumes_expired_total',
      'Watches answered with 410 because the history no longer has their revision; their clients list again.',
    ),
    [],
  ),
  listBytes: { ...seconds('list_bytes', 'Size of list responses.'), buckets: [1e3, 1e4, 1e5, 1e6, 1e7, 1e8] },
}

export interface ResourceMetrics extends Recorders<typeof READ_METRICS> {
  readonly feed: FeedMetrics
  readonly cache: CacheMetrics
  readonly broadcast: BroadcastMetrics
}
