/**
 * The metrics of one resource that are not recorded as events happen. Their values are read when the metrics are
 * scraped.
 */
import { counter, gauge, type Metric } from '../model/metric.js'
import type { Resource } from '../model/resource.js'

export const RESOURCE_GAUGES = {
  objects: gauge('max', 'cache_objects', 'Objects in the cache.'),
  unservable: gauge('max', 'cache_unservable_values', 'Values in etcd that cannot be served.'),
  rawBytes: gauge(
    'max',
    'cache_raw_bytes',
    'Bytes of values that the cache keeps exactly as stored, beside the form in which they are served (--etcd-api).',
  ),
  encrypted: gauge<[key: string]>(
    'max',
    'cache_encrypted_values',
    'Values encrypted at rest that cannot be read here, by the name of their key. While there are any, watches of the resource are refused.',
    'key',
  ),
  revision: gauge('min', 'cache_resource_version', 'Revision up to which the cache is complete.'),
  floor: gauge(
    'max',
    'cache_floor_resource_version',
    'Revision from which the history in the cache reaches to the present: a watch resumes from it or any later one.',
  ),
  ringBatches: gauge('min', 'cache_ring_batches', 'Revisions of history in the cache.'),
  ringBytes: gauge('sum', 'cache_ring_bytes', 'Bytes of history in the cache.'),
  ringAgeSeconds: gauge(
    'min',
    'cache_ring_age_seconds',
    'How long a client may have been away and still resume; 0 before the first list.',
  ),
  waiting: gauge('sum', 'cache_waiting_reads', 'Reads waiting for a revision.'),
  stalenessSeconds: gauge(
    'max',
    'cache_staleness_seconds',
    'Time since the upstream last confirmed the cache; 0 while connected.',
  ),
  ready: gauge('min', 'cache_ready', '1 if lists and watches of the resource are answered, otherwise 0.'),
  sentEvents: counter('broadcast_events_sent_total', 'Events written to the connections of watchers.'),
  sentBytes: counter('broadcast_bytes_sent_total', 'Bytes written to the connections of watchers.'),
  watchers: gauge<[transport: string, state: string]>(
    'sum',
    'broadcast_watchers',
    'Running watches, by transport and state.',
    'transport',
    'state',
  ),
  groups: gauge('sum', 'broadcast_groups', 'Groups of watchers that share their bytes.'),
  logBytes: gauge('sum', 'broadcast_log_bytes', 'Bytes of encoded events kept for groups of watchers.'),
  blockedBytes: gauge('sum', 'broadcast_socket_bytes', 'Bytes written to sockets that clients have not read yet.'),
}

type Rows = typeof RESOURCE_GAUGES

/**
 * For a counter, the value is its total since the start. For a metric with labels, it is a map from the label values,
 * joined by a space, to the value of each series.
 */
export type ResourceGauges<R extends Resource = Resource> = { readonly resource: R } & {
  readonly [Name in keyof Rows]: Rows[Name] extends Metric<'gauge' | 'counter', []>
    ? number
    : ReadonlyMap<string, number>
}
