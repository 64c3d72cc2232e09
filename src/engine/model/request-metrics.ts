/** Request metrics counted by the stages; `src/server/metrics` implements these interfaces. */

export type RequestKind = 'read' | 'write' | 'passed'

export interface AnsweredRequest {
  readonly verb: string
  /** Empty, like `resource`, for what is not served here. */
  readonly group: string
  readonly resource: string
  readonly code: number
  /** null for a watch, and for what another server answered. */
  readonly seconds: number | null
  /** Whether the verb is a write that was performed or refused here. */
  readonly isWrite: boolean
  /** The reason in the Status returned; null for a success. */
  readonly reason: string | null
}

/** Metrics of the authenticators and authorizers that every request passes. Times are in seconds. */
export interface AccessMetrics {
  authenticated(result: 'success' | 'failure' | 'error', seconds: number): void
  authorized(result: 'allowed' | 'denied' | 'error', seconds: number): void
  /** Counts a request to a webhook. @param code its HTTP status; 0 without an answer. */
  asked(webhook: Webhook, code: number, seconds: number): void
}

export type Webhook = 'token-review' | 'subject-access-review' | 'oidc' | 'service-account-keys'

export interface EtcdRequestMetrics {
  /** @param outcome `ok`, or the code of the error. */
  etcdAnswered(operation: string, outcome: string, seconds: number): void
}
