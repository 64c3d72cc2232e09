/**
 * The metrics of requests: of requests from clients, and of requests that this server sends on their behalf. Labels are
 * bounded: `group` and `resource` are set for resources served here, and empty for any other path.
 */
import type { Limit } from '../limits/limit.js'
import { announced, counter, inProgress, type Recorders, seconds } from '../../engine/model/metric.js'

export type RequestKind = 'read' | 'write' | 'passed'
export type Webhook = 'token-review' | 'subject-access-review' | 'oidc' | 'service-account-keys'

export const REQUEST_METRICS = {
  requestEnded: counter<[verb: string, group: string, resource: string, code: string]>(
    'http_requests_total',
    'Requests answered.',
    'verb',
    'group',
    'resource',
    'code',
  ),
  requestSeconds: seconds<[verb: string, group: string, resource: string]>(
    'http_request_duration_seconds',
    'Time from the arrival of a request to the end of its response, excluding watches and forwarded requests.',
    'verb',
    'group',
    'resource',
  ),
  inFlight: announced(
    inProgress<[kind: RequestKind]>(
      'http_requests_in_flight',
      'Requests in progress, excluding watches: reads, writes, and forwarded ones.',
      'kind',
    ),
    ['read'],
    ['write'],
    ['passed'],
  ),
  written: counter<[verb: string, group: string, resource: string, outcome: string]>(
    'write_requests_total',
    'Writes, by outcome: success, or the reason in the Status.',
    'verb',
    'group',
    'resource',
    'outcome',
  ),
  rejected: counter<[Limit]>('http_rejected_total', 'Requests refused by a limit, by the name of the limit.', 'limit'),
  authenticated: announced(
    counter<['success' | 'failure' | 'error']>(
      'authentication_attempts_total',
      'Requests whose caller was authenticated (success), refused (failure), or could not be checked (error).',
      'result',
    ),
    ['error'],
  ),
  authenticationSeconds: seconds<['success' | 'failure' | 'error']>(
    'authentication_duration_seconds',
    'Time to authenticate the caller of a request.',
    'result',
  ),
  authorized: announced(
    counter<['allowed' | 'denied' | 'error']>(
      'authorization_attempts_total',
      'Requests that were allowed, denied, or could not be decided (error).',
      'result',
    ),
    ['error'],
  ),
  authorizationSeconds: seconds<['allowed' | 'denied' | 'error']>(
    'authorization_duration_seconds',
    'Time to authorize a request.',
    'result',
  ),
  webhookRequestEnded: seconds<[Webhook, code: string]>(
    'webhook_request_duration_seconds',
    'Time until a review server (authentication, authorization) answered; code 0 means that it did not.',
    'webhook',
    'code',
  ),
  /** The server is a name from the configuration: `passthrough`, or the group version of an aggregated API. */
  passed: counter<[server: string, code: string]>(
    'passthrough_requests_total',
    'Requests forwarded to another server (--passthrough, --apiservice), by the status code of its response.',
    'server',
    'code',
  ),
  passedSeconds: seconds<[server: string]>(
    'passthrough_request_duration_seconds',
    'Time until a server to which requests are forwarded began its response.',
    'server',
  ),
}
export type RequestMetrics = Recorders<typeof REQUEST_METRICS>
export type AccessMetrics = Pick<
  RequestMetrics,
  'authenticated' | 'authenticationSeconds' | 'authorized' | 'authorizationSeconds'
>
export type WebhookMetrics = Pick<RequestMetrics, 'webhookRequestEnded'>
