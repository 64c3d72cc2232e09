/**
 * A resource request as the API handlers pass it down. `Request` holds what is known after the gate; `ReadRequest` adds
 * the live resource and everything negotiated and parsed, so that a handler looks nothing up.
 */
import { type Negotiated, negotiate } from '../../../kubernetes/dialect/accept.js'
import type { ObjectEncoder } from '../../../kubernetes/dialect/encoding/object-encoder.js'
import { fieldLabelsOf } from '../../../kubernetes/dialect/field-labels.js'
import {
  type GetParameters,
  type ListParameters,
  type WatchParameters,
  parseGetParameters,
  parseListParameters,
  parseWatchParameters,
} from '../../../kubernetes/dialect/list-options.js'
import { checkName, type ResourcePath } from '../../../kubernetes/dialect/request-path.js'
import { NotAcceptableError, ServiceUnavailableError } from '../../../engine/model/status.js'
import type { LiveResource } from '../../../kubernetes/dialect/live-resource.js'
import type { Span } from '../../../support/tracing.js'
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
  /**
   * As in the API server, the form is checked after the read, so that errors of the read are reported first. @throws
   * StatusError
   */
  readonly encoder: () => ObjectEncoder
}

export interface ReadRequest<Options> extends Request, Understood<Options> {
  readonly live: LiveResource
}

/** @throws StatusError when the request is invalid. */
export function understandGet(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<GetParameters> {
  const shown = request.path.subresource === 'scale' ? context.forms.scalesOf(resource) : resource
  const form = negotiateRead(context, request, shown, 'get')
  // The API server checks the name before the options of the read.
  checkName(request.path)
  // `fields=` is only for lists and watches.
  return withEncoder(context, shown, form, { ...parseGetParameters(request.exchange.query), projection: null })
}

/** @throws StatusError when the request is invalid. */
export function understandList(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<ListParameters> {
  const form = negotiateRead(context, request, resource, 'list')
  const name = nameOf(request)
  const options = parseListParameters(request.exchange.query, {
    resource: resource.served.resource,
    fieldLabels: fieldLabelsOf(resource.served, context.isAnyFieldSelectable),
    namespace: request.path.namespace,
    ...(name === undefined ? {} : { name }),
  })
  return withEncoder(context, resource, form, options)
}

/** @throws StatusError when the request is invalid. */
export function understandWatch(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<WatchParameters> {
  const form = negotiateWatch(context, request, resource)
  if (context.isDraining()) {
    throw new ServiceUnavailableError('the server is shutting down', { details: { retryAfterSeconds: 1 } })
  }
  const name = nameOf(request)
  const lastEventId =
    !(form instanceof NotAcceptableError) && form.stream === 'sse' ? lastEventIdOf(request.exchange) : undefined
  const options = parseWatchParameters(request.exchange.query, {
    resource: resource.served.resource,
    namespace: request.path.namespace,
    fieldLabels: fieldLabelsOf(resource.served, context.isAnyFieldSelectable),
    ...(name === undefined ? {} : { name }),
    ...(lastEventId === undefined ? {} : { lastEventId }),
    legacyWatch: request.path.legacyWatch,
  })
  if (form instanceof NotAcceptableError) throw form
  return withEncoder(context, resource, form, options)
}

/**
 * A form that only lists have is rejected after every other error, as in the API server. @throws NotAcceptableError,
 * BadRequestError
 */
function negotiateWatch(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Negotiated | NotAcceptableError {
  try {
    return negotiateForm(context, request, resource, 'watch')
  } catch (error) {
    if (!(error instanceof NotAcceptableError)) throw error
    negotiateForm(context, request, resource, 'get')
    return error
  }
}

/** A form that is unavailable for what is read, and the error for it. */
interface Misfit {
  readonly form: Negotiated
  readonly refusal: NotAcceptableError
}

/**
 * The metadata form of a list for one object, or the other way round, is rejected after the read, as in the API server.
 * @throws NotAcceptableError, BadRequestError
 */
function negotiateRead(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
  verb: 'get' | 'list',
): Negotiated | Misfit {
  try {
    return negotiateForm(context, request, resource, verb)
  } catch (error) {
    if (!(error instanceof NotAcceptableError)) throw error
    return { form: negotiateForm(context, request, resource, verb === 'get' ? 'list' : 'get'), refusal: error }
  }
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
  found: Negotiated | Misfit,
  options: Options,
): Understood<Options> {
  if ('refusal' in found) {
    const { form, refusal } = found
    const refuse = (): never => {
      throw refusal
    }
    return { form, options, encoder: refuse }
  }
  const form = found
  return { form, options, encoder: () => forms.encoder(resource, form, options) }
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
