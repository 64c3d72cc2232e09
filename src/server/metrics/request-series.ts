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

export function requestSeries(set: MetricSet) {
  const inFlight: Record<RequestKind, number> = { read: 0, write: 0, passed: 0 }
  const resource = ['verb', 'group', 'resource'] as const
  const requests = set.counter('http_requests_total', 'Requests answered.', [...resource, 'code'])
  const requestSeconds = set.histogram(
    'http_request_duration_seconds',
    'Time from the arrival of a request to the end of its response, without watches and forwarded requests.',
    resource,
  )
  const inFlightGauge = set.gauge(
    'http_requests_in_flight',
    'Requests in progress, without watches: reads, writes, and forwarded ones.',
    ['kind'],
  )
  const writes = set.counter('write_requests_total', 'Writes, by outcome: success, or the reason in the Status.', [
    ...resource,
    'outcome',
  ])
  const authentications = set.counter(
    'authentication_attempts_total',
    'Requests whose caller was authenticated (success), refused (failure), or could not be checked (error).',
    ['result'],
  )
  announce(authentications, { result: 'error' })
  const authenticationSeconds = set.histogram(
    'authentication_duration_seconds',
    'Time to authenticate the caller of a request.',
    ['result'],
  )
  const authorizations = set.counter(
    'authorization_attempts_total',
    'Requests that were allowed, denied, or could not be decided (error).',
    ['result'],
  )
  announce(authorizations, { result: 'error' })
  const authorizationSeconds = set.histogram('authorization_duration_seconds', 'Time to authorize a request.', [
    'result',
  ])
  const webhookSeconds = set.histogram(
    'webhook_request_duration_seconds',
    'Time until a review server (authentication, authorization) answered; code 0 means that it did not.',
    ['webhook', 'code'],
  )
  const passedRequests = set.counter('passthrough_requests_total', 'Requests that another server answered.', [
    'server',
    'code',
  ])
  const passedSeconds = set.histogram(
    'passthrough_request_duration_seconds',
    'Time until another server began its response.',
    ['server'],
  )
  const etcdSeconds = set.histogram(
    'etcd_request_duration_seconds',
    'Time until etcd answered a request, without watches, by outcome: ok, or the error.',
    ['operation', 'outcome'],
  )

  const access: AccessMetrics & EtcdRequestMetrics = {
    authenticated: (result, seconds) => {
      authentications.inc({ result })
      authenticationSeconds.observe({ result }, seconds)
    },
    authorized: (result, seconds) => {
      authorizations.inc({ result })
      authorizationSeconds.observe({ result }, seconds)
    },
    asked: (webhook, code, seconds) => webhookSeconds.observe({ webhook, code: String(code) }, seconds),
    etcdAnswered: (operation, outcome, seconds) => etcdSeconds.observe({ operation, outcome }, seconds),
  }
  return {
    ...access,
    begun: (kind: RequestKind): void => void inFlight[kind]++,
    ended: (kind: RequestKind): void => void inFlight[kind]--,
    answered: ({ verb, group, resource, code, seconds, isWrite, reason }: AnsweredRequest): void => {
      requests.inc({ verb, group, resource, code: String(code) })
      if (seconds === null) return
      requestSeconds.observe({ verb, group, resource }, seconds)
      if (isWrite) writes.inc({ verb, group, resource, outcome: reason ?? 'success' })
    },
    /** @param server a name from the configuration: `passthrough`, or the group version of an aggregated API. */
    passed: (server: string, code: number, seconds: number): void => {
      passedRequests.inc({ server, code: String(code) })
      passedSeconds.observe({ server }, seconds)
    },
    /** Sets the gauges before a scrape. */
    readGauges: (): void => {
      for (const [kind, count] of Object.entries(inFlight)) inFlightGauge.set({ kind }, count)
    },
  }
}
