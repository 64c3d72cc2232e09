/**
 * The metrics of requests: those from clients, and those that this server sends on their behalf to authenticators,
 * authorizers, API servers and etcd.
 *
 * Labels are bounded: `group` and `resource` are set for resources served here, and empty for any other path.
 */
import type {
  AccessMetrics,
  AnsweredRequest,
  EtcdRequestMetrics,
  RequestKind,
} from '../../engine/model/request-metrics.js'
import { announce, type MetricSet } from './metric-set.js'

export class RequestMetrics implements AccessMetrics, EtcdRequestMetrics {
  readonly #inFlight: Record<RequestKind, number> = { read: 0, write: 0, passed: 0 }
  readonly #requests
  readonly #requestSeconds
  readonly #inFlightGauge
  readonly #writes
  readonly #authentications
  readonly #authenticationSeconds
  readonly #authorizations
  readonly #authorizationSeconds
  readonly #webhookSeconds
  readonly #passed
  readonly #passedSeconds
  readonly #etcdSeconds

  constructor(set: MetricSet) {
    const resource = ['verb', 'group', 'resource'] as const
    this.#requests = set.counter('http_requests_total', 'Requests answered.', [...resource, 'code'])
    this.#requestSeconds = set.histogram(
      'http_request_duration_seconds',
      'Time from the arrival of a request to the end of its response, without watches and forwarded requests.',
      resource,
    )
    this.#inFlightGauge = set.gauge(
      'http_requests_in_flight',
      'Requests in progress, without watches: reads, writes, and forwarded ones.',
      ['kind'],
    )
    this.#writes = set.counter('write_requests_total', 'Writes, by outcome: success, or the reason in the Status.', [
      ...resource,
      'outcome',
    ])
    this.#authentications = set.counter(
      'authentication_attempts_total',
      'Requests whose caller was authenticated (success), refused (failure), or could not be checked (error).',
      ['result'],
    )
    announce(this.#authentications, { result: 'error' })
    this.#authenticationSeconds = set.histogram(
      'authentication_duration_seconds',
      'Time to authenticate the caller of a request.',
      ['result'],
    )
    this.#authorizations = set.counter(
      'authorization_attempts_total',
      'Requests that were allowed, denied, or could not be decided (error).',
      ['result'],
    )
    announce(this.#authorizations, { result: 'error' })
    this.#authorizationSeconds = set.histogram('authorization_duration_seconds', 'Time to authorize a request.', [
      'result',
    ])
    this.#webhookSeconds = set.histogram(
      'webhook_request_duration_seconds',
      'Time until a review server (authentication, authorization) answered; code 0 means that it did not.',
      ['webhook', 'code'],
    )
    this.#passed = set.counter('passthrough_requests_total', 'Requests that another server answered.', [
      'server',
      'code',
    ])
    this.#passedSeconds = set.histogram(
      'passthrough_request_duration_seconds',
      'Time until another server began its response.',
      ['server'],
    )
    this.#etcdSeconds = set.histogram(
      'etcd_request_duration_seconds',
      'Time until etcd answered a request, without watches, by outcome: ok, or the error.',
      ['operation', 'outcome'],
    )
  }

  /** Sets the gauges before a scrape. */
  readGauges(): void {
    for (const [kind, count] of Object.entries(this.#inFlight)) this.#inFlightGauge.set({ kind }, count)
  }

  begun(kind: RequestKind): void {
    this.#inFlight[kind]++
  }

  ended(kind: RequestKind): void {
    this.#inFlight[kind]--
  }

  answered({ verb, group, resource, code, seconds, isWrite, reason }: AnsweredRequest): void {
    this.#requests.inc({ verb, group, resource, code: String(code) })
    if (seconds === null) return
    this.#requestSeconds.observe({ verb, group, resource }, seconds)
    if (isWrite) this.#writes.inc({ verb, group, resource, outcome: reason ?? 'success' })
  }

  authenticated(result: 'success' | 'failure' | 'error', seconds: number): void {
    this.#authentications.inc({ result })
    this.#authenticationSeconds.observe({ result }, seconds)
  }

  authorized(result: 'allowed' | 'denied' | 'error', seconds: number): void {
    this.#authorizations.inc({ result })
    this.#authorizationSeconds.observe({ result }, seconds)
  }

  asked(webhook: string, code: number, seconds: number): void {
    this.#webhookSeconds.observe({ webhook, code: String(code) }, seconds)
  }

  /** @param server a name from the configuration: `passthrough`, or the group version of an aggregated API. */
  passed(server: string, code: number, seconds: number): void {
    this.#passed.inc({ server, code: String(code) })
    this.#passedSeconds.observe({ server }, seconds)
  }

  etcdAnswered(operation: string, outcome: string, seconds: number): void {
    this.#etcdSeconds.observe({ operation, outcome }, seconds)
  }
}
