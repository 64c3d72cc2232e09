/** The metrics of requests that the stages count; `src/server/metrics` implements these interfaces. */

export type RequestKind = 'read' | 'write' | 'passed'

export interface AnsweredRequest {
  readonly verb: string
  /** Empty, as `resource`, for what is not served here. */
  readonly group: string
  readonly resource: string
  readonly code: number
  /** null for a watch, and for what another server answered. */
  readonly seconds: number | null
  /** Whether the verb changes something, and was performed or refused here. */
  readonly isWrite: boolean
  /** The reason of the Status that was the answer; null for a success. */
  readonly reason: string | null
}

/** The metrics of the authenticators and authorizers in front of every request. Times are in seconds. */
export interface AccessMetrics {
  authenticated(result: 'success' | 'failure' | 'error', seconds: number): void
  authorized(result: 'allowed' | 'denied' | 'error', seconds: number): void
  /** A server that decides for this one was asked. @param code its HTTP status; 0: it did not answer. */
  asked(webhook: Webhook, code: number, seconds: number): void
}

export type Webhook = 'token-review' | 'subject-access-review' | 'oidc'

export interface EtcdRequestMetrics {
  /** @param outcome `ok`, or the code of the error. */
  etcdAnswered(operation: string, outcome: string, seconds: number): void
}
