/** Leads a request for a resource through the gate, to the resource, and on to the handler of its verb. */
import { unknownResource } from '../../../kubernetes/dialect/request-path.js'
import { EVICTION_NAME, hasSubresource } from '../../../kubernetes/dialect/resource-registry.js'
import { objectNotFoundError } from '../../../kubernetes/dialect/status-body.js'
import { unservedSubresourceError } from '../../../kubernetes/dialect/unserved-subresources.js'
import { MethodNotAllowedError, StatusError } from '../../../engine/model/status.js'
import type { LiveResource, UncachedResource } from '../../../kubernetes/dialect/live-resource.js'
import type { UncachedRequest } from '../../../engine/pipeline/live-resource.js'
import { inSpan } from '../../../support/tracing.js'
import type { RequestGate } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { answerHeadOfWatch, httpWatch } from '../watch/http-watch.js'
import { checkHandshake, checkOrigin, isWebSocket } from '../websocket/upgrade.js'
import { webSocketWatch } from '../websocket/websocket-watch.js'
import type { ApiContext } from './api-context.js'
import { handleGet } from './get-handler.js'
import { handleList } from './list-handler.js'
import { type Request, understandGet, understandList, understandWatch } from './request.js'
import { attributesOf, isRead } from './request-attributes.js'
import { handleWatch } from './watch-handler.js'
import { handleWrite, type Writes } from './write-handler.js'

export interface ResourceHandlerOptions {
  readonly context: ApiContext
  readonly gate: RequestGate
  /** Origins whose pages may open a WebSocket, besides the server's own. */
  readonly webSocketAllowedOrigins: readonly string[]
  /** null: this server does not write. */
  readonly writes: Writes | null
}

type Asked = Omit<Request, 'caller' | 'span'>

/** @throws StatusError before the head of the answer. */
export async function answerResource(options: ResourceHandlerOptions, asked: Asked): Promise<void> {
  await (asked.verb === 'list' ? tracedList(options, asked) : passGate(options, { ...asked, span: null }))
}

/** Answers a list in a span, which continues the client's trace if the client sent its `traceparent`. */
function tracedList(options: ResourceHandlerOptions, asked: Asked): Promise<void> {
  const { exchange, path } = asked
  const { request, requestHeaders } = exchange
  const name = path.served === undefined ? 'list' : `list ${path.plural}`
  const attributes = {
    'http.request.method': request.method ?? '',
    'url.path': exchange.path,
    'user_agent.original': requestHeaders['user-agent'] ?? '',
  }
  return inSpan(name, { kind: 'server', attributes, carrier: requestHeaders }, async (span) => {
    try {
      await passGate(options, { ...asked, span })
      span.note({ 'http.response.status_code': exchange.statusCode })
    } catch (error) {
      span.note({ 'http.response.status_code': StatusError.from(error).code })
      throw error
    }
  })
}

async function passGate(options: ResourceHandlerOptions, asked: Omit<Request, 'caller'>): Promise<void> {
  const { exchange, path, verb, span } = asked
  const checking = options.gate.check(exchange, attributesOf(exchange, path, verb))
  const caller = checking instanceof Promise ? await checking : checking
  await findResource(options, { exchange, path, verb, span, caller })
}

async function findResource(options: ResourceHandlerOptions, request: Request): Promise<void> {
  const { context, writes } = options
  const { exchange, path, verb } = request
  const found = path.served === undefined ? undefined : context.find(path.group, path.version, path.plural)
  if (found === undefined) throw context.whyUnknown(path.group) ?? unknownResource()
  const { deprecation } = found.served
  if (deprecation !== null) exchange.warn(deprecation)
  if (path.subresource !== '' && !hasSubresource(found.served, path.subresource)) throw unservedError(request, found)
  if (path.subresource === EVICTION_NAME && verb !== 'create') {
    throw new MethodNotAllowedError('the server does not allow this method on the requested resource')
  }
  if (!isRead(verb)) return await handleWrite(context, writes, request, found.served)
  if (path.subresource !== '' && verb !== 'get') throw unknownResource()
  if (verb === 'watch' && exchange.isHead) return answerHead(options, request, found)
  if (found.kind === 'live') return await read(options, request, found)
  const opened = await found.open(uncachedRequest(context, request, found), exchange.signal)
  exchange.response.once('close', () => opened.close())
  if (exchange.isGone) return opened.close()
  await read(options, request, opened.live)
}

async function read(options: ResourceHandlerOptions, request: Request, live: LiveResource): Promise<void> {
  const { context } = options
  const { exchange, verb } = request
  exposeStaleness(exchange, live)
  if (verb === 'get') {
    const understood = understandGet(context, request, live)
    return await handleGet({ ...request, live, ...understood })
  }
  if (verb === 'list') {
    const understood = understandList(context, request, live)
    // A client that reads its list for ever would hold the list's bytes for ever.
    const timer = context.clock.setTimer(context.requestTimeoutMs, () => exchange.breakOff())
    try {
      return await handleList(context, { ...request, live, ...understood })
    } finally {
      timer.cancel()
    }
  }
  checkWebSocket(options, exchange)
  const understood = understandWatch(context, request, live)
  const open = isWebSocket(exchange) ? webSocketWatch : httpWatch
  const watch = { ...request, live, ...understood, encoder: understood.encoder() }
  await handleWatch(context, watch, open(exchange, understood.form))
}

function unservedError({ path }: Request, { served }: LiveResource | UncachedResource): StatusError {
  const { name, subresource } = path
  if (served.origin === 'custom') return objectNotFoundError(served.resource, name)
  const known = served.origin === 'well-known' ? unservedSubresourceError(path, name, subresource) : undefined
  return known ?? unknownResource()
}

/** HEAD of a watch opens none: not here, and not upstream. */
function answerHead(
  options: ResourceHandlerOptions,
  request: Request,
  resource: LiveResource | UncachedResource,
): void {
  const { context } = options
  const { exchange } = request
  checkWebSocket(options, exchange)
  const cache = resource.kind === 'live' ? resource.cache : null
  const understood = understandWatch(context, request, { served: resource.served, cache })
  understood.encoder()
  if (resource.kind === 'live') {
    exposeStaleness(exchange, resource)
    resource.cache.assertReadable()
  }
  answerHeadOfWatch(exchange, understood.form, understood.options.compress || context.compressesWatches)
}

/** @throws ForbiddenError, BadRequestError, UnauthorizedError for a handshake that is refused. */
function checkWebSocket({ webSocketAllowedOrigins }: ResourceHandlerOptions, exchange: Exchange): void {
  if (!isWebSocket(exchange)) return
  checkOrigin(exchange, webSocketAllowedOrigins)
  checkHandshake(exchange)
}

/** @throws StatusError when the request would be refused as it stands. */
function uncachedRequest(context: ApiContext, request: Request, { served }: UncachedResource): UncachedRequest {
  const { namespace } = request.path
  if (request.verb !== 'watch') return { namespace, isWatch: false, afterRevision: null }
  const { start } = understandWatch(context, request, { served, cache: null }).options
  return { namespace, isWatch: true, afterRevision: start.kind === 'after' ? start.revision : null }
}

/** Adds a header that says how old the answer may be, while the upstream is away. */
function exposeStaleness(exchange: Exchange, { cache }: LiveResource): void {
  const { stalenessMs } = cache
  // Another distributary that is about to feed itself from here has to know whether it can ask for bookmarks.
  if (exchange.requestHeaders['x-distributary-ask'] === 'progress') {
    exchange.headers['x-distributary-trusts-progress'] = String(cache.trustsProgress)
  }
  if (stalenessMs > 0) exchange.headers['x-distributary-staleness-seconds'] = String(Math.ceil(stalenessMs / 1000))
}
