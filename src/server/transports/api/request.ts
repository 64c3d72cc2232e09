/**
 * A resource request as the API handlers pass it down. `Request` holds what is known after the gate; `ReadRequest` adds
 * the live resource and everything negotiated and parsed, so that handlers have nothing left to look up.
 */
import { type FormVerb, type Negotiated, negotiate } from '../../../kubernetes/dialect/accept.js'
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
import { NotAcceptableError, ServiceUnavailableError } from '../../../kubernetes/model/status.js'
import type { LiveResource } from '../../../kubernetes/dialect/served-live-resource.js'
import type { Span } from '../../../support/tracing.js'
import type { Caller } from '../gate/caller.js'
import { isWebSocket } from '../websocket/upgrade.js'
import type { PendingExchange } from './answer-after.js'
import type { ApiContext } from './api-context.js'
import type { Verb } from './request-attributes.js'
import type { FormOptions, FormedResource } from './resource-forms.js'

export interface Request {
  readonly exchange: PendingExchange
  readonly path: ResourcePath
  readonly verb: Verb
  readonly caller: Caller
  /** The span of a traced list; null for all other requests. */
  readonly span: Span | null
}

/** The parsed options of a read, and the negotiated form. */
export interface Understood<Options> extends NegotiatedForm {
  readonly options: Options
  /** The resource itself, or its scale. */
  readonly shown: FormedResource
}

interface NegotiatedForm {
  readonly form: Negotiated
  /**
   * The error if only another verb offers the form; null otherwise. As in the API server, errors in the read's options
   * are reported first.
   */
  readonly refusal: NotAcceptableError | null
}

export interface ReadRequest<Options> extends Request, Understood<Options> {
  readonly live: LiveResource
}

export interface WatchRequest extends ReadRequest<WatchParameters> {
  readonly encoder: ObjectEncoder
}

/** @throws StatusError when the request is invalid. */
export function understandGet(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<GetParameters & FormOptions> {
  const shown = request.path.subresource === 'scale' ? context.forms.scalesOf(resource) : resource
  const negotiated = negotiateForm(context, request, shown, 'get')
  // The API server checks the name before the options of the read.
  checkName(request.path)
  // `fields=` is only for lists and watches.
  const options = { ...parseGetParameters(request.exchange.query), projection: null }
  return { ...negotiated, shown, options }
}

/** @throws StatusError when the request is invalid. */
export function understandList(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
): Understood<ListParameters> {
  const negotiated = negotiateForm(context, request, resource, 'list')
  const name = nameOf(request)
  const options = parseListParameters(request.exchange.query, {
    resource: resource.served.resource,
    fieldLabels: fieldLabelsOf(resource.served, context.isAnyFieldSelectable),
    namespace: request.path.namespace,
    ...(name === undefined ? {} : { name }),
  })
  return { ...negotiated, shown: resource, options }
}

/** @throws ServiceUnavailableError */
export function assertNotDraining(context: Pick<ApiContext, 'isDraining'>): void {
  if (!context.isDraining()) return
  throw new ServiceUnavailableError('the server is shutting down', { details: { retryAfterSeconds: 1 } })
}

/** @throws StatusError when the request is invalid. */
export function understandWatch(
  context: ApiContext,
  request: Request,
  resource: FormedResource,
  verb: 'watch' | 'poll' = 'watch',
): Understood<WatchParameters> {
  const { form, refusal } = negotiateForm(context, request, resource, verb)
  if (verb === 'watch') assertNotDraining(context)
  const name = nameOf(request)
  const lastEventId = refusal === null && form.stream === 'sse' ? lastEventIdOf(request.exchange) : undefined
  const options = parseWatchParameters(request.exchange.query, {
    resource: resource.served.resource,
    namespace: request.path.namespace,
    fieldLabels: fieldLabelsOf(resource.served, context.isAnyFieldSelectable),
    ...(name === undefined ? {} : { name }),
    ...(lastEventId === undefined ? {} : { lastEventId }),
    legacyWatch: request.path.legacyWatch,
  })
  if (refusal !== null) throw refusal
  return { form, refusal, shown: resource, options }
}

/** Chooses how objects are encoded. @throws NotAcceptableError when that form is unavailable; BadRequestError */
export function encoderOf(
  { forms }: ApiContext,
  { refusal, shown, form, options }: Understood<FormOptions>,
): ObjectEncoder {
  if (refusal !== null) throw refusal
  return forms.encoder(shown, form, options)
}

/** @throws NotAcceptableError when no verb has the form; BadRequestError */
function negotiateForm(
  { forms }: ApiContext,
  { exchange }: Request,
  resource: FormedResource,
  verb: FormVerb,
): NegotiatedForm {
  const { accept } = exchange.requestHeaders
  const servable = forms.servable(resource)
  try {
    return { form: negotiate(accept, verb, servable), refusal: null }
  } catch (error) {
    if (!(error instanceof NotAcceptableError)) throw error
    return { form: negotiate(accept, verb === 'get' ? 'list' : 'get', servable), refusal: error }
  }
}

/** The name in the path of a list or watch of one object. */
function nameOf({ path }: Request): string | undefined {
  return path.name === '' ? undefined : path.name
}

function lastEventIdOf(exchange: PendingExchange): string | undefined {
  if (isWebSocket(exchange)) return undefined
  const value = exchange.requestHeaders['last-event-id']
  return Array.isArray(value) ? value[0] : value
}
