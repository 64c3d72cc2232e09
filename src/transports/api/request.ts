/**
 * Describes a request for a resource as the API handlers pass it down. `Request` holds what is known once the request has passed
 * the gate; `ReadRequest` adds the live resource and everything that was negotiated and parsed, so that a handler looks
 * nothing up.
 */
import { type Negotiated, negotiate } from '../../dialect/accept.js'
import type { ObjectEncoder } from '../../dialect/encoding/object-encoder.js'
import {
  type GetParameters,
  type ListParameters,
  type WatchParameters,
  parseGetParameters,
  parseListParameters,
  parseWatchParameters,
} from '../../dialect/list-options.js'
import type { ResourcePath } from '../../dialect/request-path.js'
import { ServiceUnavailableError } from '../../model/status.js'
import type { LiveResource } from '../../pipeline/live-resource.js'
import type { Span } from '../../support/tracing.js'
import type { Caller } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { isWebSocket } from '../websocket/upgrade.js'
import type { ApiContext } from './api-context.js'
import type { Verb } from './request-attributes.js'
import type { FormOptions, FormedResource } from './resource-forms.js'

export interface Request {
  readonly exchange: Exchange
  readonly path: ResourcePath
  readonly verb: Verb
  readonly caller: Caller
  /** The span of a traced list; null for all other requests. */
  readonly span: Span | null
}

/** The parsed options of a read, and the negotiated form. */
export interface Understood<Options> {
  readonly form: Negotiated
  readonly options: Options
  readonly encoder: ObjectEncoder
}

export interface ReadRequest<Options> extends Request, Understood<Options> {
  readonly live: LiveResource
}

/** @throws StatusError when the request would be refused as it stands. */
export function understandGet(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<GetParameters> {
  const shown = request.path.subresource === 'scale' ? context.forms.scalesOf(resource) : resource
  const form = negotiateForm(context, request, shown, 'get')
  // `fields=` is for lists and watches.
  return withEncoder(context, shown, form, { ...parseGetParameters(request.exchange.query), projection: null })
}

/** @throws StatusError when the request would be refused as it stands. */
export function understandList(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<ListParameters> {
  const form = negotiateForm(context, request, resource, 'list')
  const name = nameOf(request)
  const options = parseListParameters(request.exchange.query, {
    resource: resource.served.resource,
    ...(name === undefined ? {} : { name }),
  })
  return withEncoder(context, resource, form, options)
}

/** @throws StatusError when the request would be refused as it stands. */
export function understandWatch(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<WatchParameters> {
  const form = negotiateForm(context, request, resource, 'watch')
  if (context.isDraining()) {
    throw new ServiceUnavailableError('the server is shutting down', { details: { retryAfterSeconds: 1 } })
  }
  const name = nameOf(request)
  const lastEventId = form.stream === 'sse' ? lastEventIdOf(request.exchange) : undefined
  const options = parseWatchParameters(request.exchange.query, {
    resource: resource.served.resource,
    ...(name === undefined ? {} : { name }),
    ...(lastEventId === undefined ? {} : { lastEventId }),
  })
  return withEncoder(context, resource, form, options)
}

function negotiateForm(
  { forms }: ApiContext,
  { exchange }: Request,
  resource: FormedResource,
  verb: 'get' | 'list' | 'watch',
): Negotiated {
  return negotiate(exchange.requestHeaders.accept, verb, forms.servable(resource))
}

function withEncoder<Options extends FormOptions>(
  { forms }: ApiContext,
  resource: FormedResource,
  form: Negotiated,
  options: Options,
): Understood<Options> {
  return { form, options, encoder: forms.encoder(resource, form, options) }
}

/** The name in the path of a list or watch of one object. */
function nameOf({ path }: Request): string | undefined {
  return path.name === '' ? undefined : path.name
}

function lastEventIdOf(exchange: Exchange): string | undefined {
  if (isWebSocket(exchange)) return undefined
  const value = exchange.requestHeaders['last-event-id']
  return Array.isArray(value) ? value[0] : value
}
