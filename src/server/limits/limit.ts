/**
 * The limits that can reject requests. They are the values of the label `limit` of `distributary_http_rejected_total`.
 */
export const LIMITS = [
  'watchers',
  'watchers-per-client',
  'requests',
  'lists',
  'list-bytes',
  'past-states',
  'initial-states',
  'writes',
  'write-threads',
  'memory',
  'passthrough',
  'passthrough-per-client',
  'etcd-requests',
  'etcd-forwarded',
  'etcd-watches',
  'etcd-streams',
  'status-pages',
  'hosts',
  'resets',
  'pings',
  'pipelined',
  'headers',
  'request-time',
  'handshake-time',
  'connections',
  'descriptors',
] as const

export type Limit = (typeof LIMITS)[number]
