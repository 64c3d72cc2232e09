/**
 * Answers a request for a resource. `serve` lists the steps in order: identify and authorize the caller, find the
 * resource, understand the request, answer. Each step throws a StatusError when the request ends there.
 */
import { methodNotAllowed, type ResourcePath, unknownResource } from '../../../kubernetes/dialect/request-path.js'
import { canReadSubresource, EVICTION_NAME, hasSubresource } from '../../../kubernetes/dialect/resource-registry.js'
import { STRIPPED_HEADER } from '../../../kubernetes/dialect/stripped-fields.js'
import { keyOfName, listedPrefix } from '../../../kubernetes/model/api-resource.js'
import { objectNotFoundError } from '../../../kubernetes/dialect/status-body.js'
import { unservedSubresourceError } from '../../../kubernetes/dialect/unserved-subresources.js'
import { BadRequestError, StatusError, TooManyRequestsError } from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import type { LiveResource, UncachedResource } from '../../../kubernetes/dialect/served-live-resource.js'
import type { UncachedRequest } from '../../../engine/pipeline/live-resource.js'
import { inSpan, type Span } from '../../../support/tracing.js'
import { afterWait } from '../gate/after-wait.js'
import type { Exchange } from '../exchange/exchange.js'
import { httpWatch, sendWatchHead } from '../watch/http-watch.js'
import { checkHandshake, isWebSocket } from '../websocket/upgrade.js'
import { webSocketWatch } from '../websocket/websocket-watch.js'
import { answerAfter } from './answer-after.js'
import type { ApiContext } from './api-context.js'
import { handleGet } from './get-handler.js'
import { handleList } from './list-handler.js'
import { readAndDropBody } from '../exchange/read-body.js'
import { untilLoaded } from './read-state.js'
import { encoderOf, type Request, understandGet, understandList, understandWatch } from './request.js'
import { attributesOf, isRead } from './request-attributes.js'
import { handlePoll, HISTORY_HEADER, waitMsOf } from './poll-handler.js'
import { compressionOf, handleWatch } from './watch-handler.js'
import { handleWrite } from './write-handler.js'

const nothing = (): void => {}

type UncheckedRequest = Omit<Request, 'caller' | 'span' | 'exchange'> & { readonly exchange: Exchange }

/** @throws StatusError before the head of the response. */
export async function handleResource(context: ApiContext, unchecked: UncheckedRequest): Promise<void> {
  await (unchecked.verb === 'list' ? tracedList(context, unchecked) : serve(context, unchecked, null))
}

/** Answers a list in a span, which continues the client's trace if the client sent its `traceparent`. */
function tracedList(context: ApiContext, unchecked: UncheckedRequest): Promise<void> {
  const { exchange, path } = unchecked
  const { request, requestHeaders } = exchange
  const name = path.served === undefined ? 'list' : `list ${path.plural}`
  const attributes = {
    'http.request.method': request.method ?? '',
    'url.path': exchange.path,
    'user_agent.original': requestHeaders['user-agent'] ?? '',
  }
  return inSpan(name, { kind: 'server', attributes, carrier: requestHeaders }, async (span) => {
    try {
      await serve(context, unchecked, span)
      span.setAttributes({ 'http.response.status_code': exchange.statusCode })
    } catch (error) {
      span.setAttributes({ 'http.response.status_code': statusOf(error).code })
      throw error
    }
  })
}

async function serve(context: ApiContext, unchecked: UncheckedRequest, span: Span | null): Promise<void> {
  const { exchange, path, verb } = unchecked

  // Decide this now, in the same state in which the path was parsed, because the remaining definitions may be read
  // while the caller is identified.
  const unknown = path.served === undefined ? context.whyUnknown(path.group) : null

  // Identify and authorize. Stay synchronous if possible.
  const checking = context.gate.check(exchange, attributesOf(exchange, path, verb))
  const caller = checking instanceof Promise ? await checking : checking
  const request: Request = { ...unchecked, caller, span }

  // Find.
  const found = find(context, request, unknown)
  const { stripped } = found.served.resource
  if (stripped !== undefined) exchange.headers[STRIPPED_HEADER] = stripped.join(',')
  if (!isRead(verb)) return await handleWrite(context, request, found.served)
  const dropping = readAndDropBody(exchange, context.clock, context.requestTimeoutMs)
  if (dropping !== null) await afterWait(caller, () => dropping)
  if (found.kind === 'live' && found.cache.readiness.isLoading) await untilLoaded(context, found.cache, request)
  if (verb === 'watch' && exchange.isHead) return await handleHead(context, request, exchange, found)
  if (found.kind === 'live') return await answer(context, exchange, request, found, true)
  const opened = await openUncached(context, request, found)
  if (opened === null) return
  try {
    await answer(context, exchange, request, opened.live, false)
  } catch (error) {
    // Another server may answer this exchange now, for a long time.
    opened.close()
    throw error
  }
}

async function answer(
  context: ApiContext,
  exchange: Exchange,
  request: Request,
  live: LiveResource,
  isCached: boolean,
): Promise<void> {
  const { verb } = request
  exposeStaleness(exchange, live)
  if (verb === 'get') return await handleGet(context, { ...request, live, ...understandGet(context, request, live) })
  if (verb === 'list') {
    const list = { ...request, live, isCached, ...understandList(context, request, live) }
    return await withinRequestTimeout(context, exchange, () => handleList(context, list))
  }
  checkWebSocket(exchange)
  const waitMs = isWebSocket(exchange) ? null : waitMsOf(exchange.query)
  const understood = understandWatch(context, request, live, waitMs === null ? 'watch' : 'poll')
  const watch = { ...request, live, ...understood, encoder: encoderOf(context, understood) }
  if (waitMs !== null) {
    // An uncached resource has no history beyond this one request.
    if (!isCached) throw new BadRequestError('wait: the resource is not cached here')
    return await handlePoll(context, watch, waitMs)
  }
  if (isCached) exchange.headers[HISTORY_HEADER] = live.cache.history.name
  await handleWatch(context, watch, isWebSocket(exchange) ? webSocketWatch : httpWatch)
}

/**
 * Returns the resource of the path, after checking that its subresource, if any, is served.
 * @param unknown why the server did not know whether the resource is served; null if it knew.
 *
 * @throws StatusError if the resource or its subresource is not served.
 */
function find(context: ApiContext, request: Request, unknown: StatusError | null): LiveResource | UncachedResource {
  const { exchange, path } = request
  const found = path.served === undefined ? undefined : context.find(path.group, path.version, path.plural)
  if (found === undefined) {
    if (request.verb !== 'create' && isOnlyCreated(context, path)) throw methodNotAllowed()
    throw unknown ?? context.whyUnknown(path.group) ?? unknownResource()
  }
  const { deprecation, origin } = found.served
  // For Kubernetes' own kinds, the warning depends on the route: an unknown subresource has no route, and a scale is an
  // object of another kind, so neither gets the warning.
  const warn = (): void => void (deprecation !== null && exchange.warn(deprecation))
  if (origin === 'custom') warn()
  if (path.subresource !== '') checkSubresource(request, found)
  if (origin !== 'custom' && path.subresource !== 'scale') warn()
  return found
}

/**
 * Whether this is a resource that only the API server serves, and only for create. The API server answers other methods
 * with 405.
 */
function isOnlyCreated(
  context: ApiContext,
  { group, version, plural, namespace, name, subresource }: ResourcePath,
): boolean {
  if (name !== '' || subresource !== '' || !context.hasGroup(group, version)) return false
  return namespace === ''
    ? plural === 'tokenreviews' && group === 'authentication.k8s.io'
    : plural === 'bindings' && group === ''
}

/** @throws StatusError if the subresource is not served, or not for this verb. */
function checkSubresource(request: Request, found: LiveResource | UncachedResource): void {
  const { path, verb } = request
  const has = verb === 'get' ? canReadSubresource : hasSubresource
  if (!has(found.served, path.subresource)) throw unservedError(request, found)
  if (path.subresource === EVICTION_NAME && verb !== 'create') throw methodNotAllowed()
  if (isRead(verb) && verb !== 'get') throw unknownResource()
}

/**
 * Opens a cache for this request alone. For a list or a watch, the cache holds a whole state, so the request needs a
 * slot. A list keeps its slot until it has been sent, and a watch until the state has been read.
 * @returns null if the client has left in the meantime.
 */
async function openUncached(
  context: ApiContext,
  request: Request,
  resource: UncachedResource,
): Promise<{ readonly live: LiveResource; readonly close: () => void } | null> {
  const { exchange, caller, verb } = request
  const uncached = uncachedRequest(context, request, resource)
  const { memory, initialStates, pastStates } = context
  memory.admit()
  const slots = verb === 'get' ? null : verb === 'list' ? initialStates : pastStates
  const release = await slots?.acquire(caller.identity, exchange.signal)
  const open = async (): ReturnType<UncachedResource['open']> => {
    // Requests that held slots before this one may have filled the memory.
    memory.admit()
    assertStillServed(context, request, resource)
    return await resource.open(uncached, exchange.signal)
  }
  const opened = await open().catch((error: unknown) => {
    release?.()
    throw error
  })
  if (verb === 'watch') release?.()
  const close = (): void => {
    opened.close()
    release?.()
  }
  exchange.onClose(close)
  if (!exchange.isGone) return { live: opened.live, close }
  close()
  return null
}

/**
 * @throws TooManyRequestsError when the resource has been removed, or is served differently, since the request began to
 * wait.
 */
function assertStillServed(context: ApiContext, { path }: Request, { served }: UncachedResource): void {
  if (context.find(path.group, path.version, path.plural)?.served === served) return
  throw new TooManyRequestsError('the resource has changed while the request was waiting', 1)
}

/** A client that never finishes reading its list would hold the list's bytes forever. */
async function withinRequestTimeout(
  { clock, requestTimeoutMs }: ApiContext,
  exchange: Exchange,
  handle: () => Promise<void>,
): Promise<void> {
  const timer = clock.setTimer(requestTimeoutMs, () => exchange.breakOff())
  try {
    await handle()
  } finally {
    timer.cancel()
  }
}

function unservedError({ path }: Request, { served }: LiveResource | UncachedResource): StatusError {
  const { name, subresource } = path
  if (served.origin === 'custom') return objectNotFoundError(served.resource, name)
  const known = served.origin === 'well-known' ? unservedSubresourceError(path, name, subresource) : undefined
  return known ?? unknownResource()
}

/** HEAD of a watch opens no watch, neither here nor upstream. */
async function handleHead(
  context: ApiContext,
  request: Request,
  exchange: Exchange,
  resource: LiveResource | UncachedResource,
): Promise<void> {
  checkWebSocket(exchange)
  const live = resource.kind === 'live' ? resource : null
  const understood = understandWatch(context, request, { served: resource.served, cache: live?.cache ?? null })
  encoderOf(context, understood)
  if (live !== null) exposeStaleness(exchange, live)
  await answerAfter({ ...request, ...(live === null ? {} : { live }) }, nothing, (answering) => {
    if (live !== null) answering.headers[HISTORY_HEADER] = live.cache.history.name
    sendWatchHead(answering, understood.form, compressionOf(context, understood.options))
  })
}

/** @throws BadRequestError, UnauthorizedError for a rejected handshake. */
function checkWebSocket(exchange: Exchange): void {
  if (isWebSocket(exchange)) checkHandshake(exchange)
}

/** @throws StatusError when the request is invalid. */
function uncachedRequest(context: ApiContext, request: Request, { served }: UncachedResource): UncachedRequest {
  const { namespace, name } = request.path
  const resource = { served, cache: null }
  const prefix = listedPrefix(served.resource, namespace)
  if (request.verb !== 'watch') {
    // Reject an invalid request before it reads from the upstream, because that read may fail.
    if (request.verb === 'get') understandGet(context, request, resource)
    else understandList(context, request, resource)
    const key = name === '' ? null : keyOfName(served.resource, request.path)
    return { prefix, key, isWatch: false, afterRevision: null }
  }
  const { start } = understandWatch(context, request, resource).options
  return { prefix, key: null, isWatch: true, afterRevision: start.kind === 'after' ? start.revision : null }
}

/**
 * Adds headers with the possible age of the response while the upstream is unreachable, and with the policy for gaps if
 * it is not the API server's.
 */
export function exposeStaleness(exchange: Exchange, { cache }: LiveResource): void {
  const { ageMs } = cache.source
  // A distributary that is about to use this server as its upstream must know whether it can ask for bookmarks.
  if (exchange.requestHeaders['x-distributary-ask'] === 'progress') {
    exchange.headers['x-distributary-trusts-progress'] = String(cache.reads.trustsProgress)
  }
  const { onGap } = cache.history
  if (onGap === 'coalesce') exchange.headers['x-distributary-on-gap'] = onGap
  if (ageMs > 0) exchange.headers['x-distributary-staleness-seconds'] = String(Math.ceil(ageMs / 1000))
}
