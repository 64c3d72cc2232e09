/** The reasons why watchers end, for the metric and the log. */
export type EndReason =
  | 'timeout'
  | 'expired'
  | 'too-large'
  | 'drain'
  | 'rebalance'
  | 'closed'
  | 'stuck'
  | 'slow'
  | 'revoked'
  | 'refused'
  | 'removed'
  | 'error'
