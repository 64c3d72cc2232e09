/** The limits by which requests are refused: values of the label `limit` of `distributary_http_rejected_total`. */
export const LIMITS = [
  'watchers',
  'watchers-per-client',
  'requests',
  'lists',
  'past-states',
  'initial-states',
  'writes',
  'write-threads',
  'memory',
  'passthrough',
  'selectors',
  'status-pages',
  'hosts',
  'headers',
  'request-time',
  'handshake-time',
] as const

export type Limit = (typeof LIMITS)[number]
