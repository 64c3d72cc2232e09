/**
 * Everything under `/api`, `/apis`, `/version` and `/openapi`: from the path to discovery, a get, a list or a watch. One
 * request, one answer; an error before the headers is a Status.
 */
import {
  JSON_MEDIA_TYPE,
  type Negotiated,
  isPretty,
  negotiate,
  negotiateDiscovery,
  negotiateOpenApiV2,
} from '../../dialect/accept.js'
import type { Discovery, Document } from '../../dialect/discovery.js'
import type { OpenApi } from '../../dialect/openapi.js'
import { type ResourcePath, parseRequestPath, unknownResource } from '../../dialect/request-path.js'
import { unservedSubresourceError } from '../../dialect/unserved-subresources.js'
import {
  BadGatewayError,
  MethodNotAllowedError,
  ServiceUnavailableError,
  StatusError,
  TimeoutError,
  UnshowableError,
} from '../../model/status.js'
import { type Attributes, pathAttributes } from '../../auth/authz/authorizer.js'
import type { Revision } from '../../model/revision.js'
import { inSpan, type Span } from '../../support/tracing.js'
import type { RequestGate, Admitted } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { handleGet } from './get-handler.js'
import { answerHeadOfWatch, failAsEvents, httpWatch } from '../watch/http-watch.js'
import { layOut } from '../bodies/layout.js'
import { type Collection, handleList } from './list-handler.js'
import { attributesOf, isRead, type Verb, verbOf } from './request-attributes.js'
import type { UncachedRequest, LiveResource, ResourceContext } from './resource-context.js'
import { handleWatch, readWatch, type WatchTransport } from './watch-handler.js'
import type { ApiService, ApiServices } from '../passthrough/api-services.js'
import type { Passthrough } from '../passthrough/passthrough.js'
import { checkOrigin, isWebSocket, webSocketWatch } from '../websocket/websocket-watch.js'
import { handleWrite, type Writes } from './write-handler.js'

export interface ApiOptions {
  /** Whose pages may open a WebSocket, besides the server's own. */
  readonly webSocketAllowedOrigins: readonly string[]
  readonly context: ResourceContext
  readonly discovery: Discovery
  readonly openApi: OpenApi
  readonly admission: RequestGate
  /** Answers what is not answered here; null: nobody does. */
  readonly passthrough?: Passthrough | null
  /** Group versions of other servers, where nobody answers all that is not answered here; null: there are none. */
  readonly apiServices?: ApiServices | null
  /** null: this server does not write. */
  readonly writes: Writes | null
  readonly onAnswered: (verb: string, code: number, seconds: number | null) => void
  readonly onInternalError: (error: StatusError) => void
}

export type ApiHandler = (exchange: Exchange) => Promise<void>

export function apiHandler(options: ApiOptions): ApiHandler {
  return async (exchange) => {
    let verb: Verb | 'discovery' | 'passed' = 'other'
    try {
      const find = (group: string, version: string, plural: string) =>
        options.context.find(group, version, plural)?.served
      const path = parseRequestPath(exchange.path, find)
      const passthrough = options.passthrough ?? null
      if (passthrough !== null && !isAnsweredHere(options, exchange, path)) {
        verb = 'passed'
        return await passOn(options, passthrough, exchange, path)
      }
      const service = apiServiceOf(options, path)
      if (service !== undefined) {
        verb = 'passed'
        return await passToService(options, service, exchange, path)
      }
      if (path.kind === 'other') throw unknownResource()
      if (path.kind === 'resource') {
        const asked = verbOf(exchange, path)
        verb = asked
        try {
          await (asked === 'list'
            ? tracedList(options, exchange, path)
            : admitAndAnswer(options, exchange, path, asked))
        } catch (error) {
          if (!(error instanceof UnshowableError) || passthrough === null || exchange.response.headersSent) throw error
          verb = 'passed'
          return await passOn(options, passthrough, exchange, path)
        }
      } else {
        verb = 'discovery'
        const admitting = options.admission.admit(
          exchange,
          pathAttributes(exchange.request.method ?? '', exchange.path),
        )
        if (admitting instanceof Promise) await admitting
        requireRead(exchange)
        answerDocument(options, exchange, path)
      }
    } catch (error) {
      // Who left while something was waited for needs no answer.
      if (exchange.isGone && error instanceof Error && error.name === 'AbortError') return
      const status = StatusError.from(error)
      if (status.code === 500) options.onInternalError(status)
      if (exchange.response.headersSent) exchange.response.destroy()
      else if (verb !== 'watch' || !failAsEvents(exchange, status)) exchange.fail(status)
    } finally {
      const seconds = verb === 'watch' || verb === 'passed' ? null : (performance.now() - exchange.startedMs) / 1000
      options.onAnswered(verb, exchange.statusCode, seconds)
    }
  }
}

/** Gets, lists and watches of what is cached; one that cannot be cached (encrypted at rest) is not. */
function isAnsweredHere(
  { context }: ApiOptions,
  exchange: Exchange,
  path: ReturnType<typeof parseRequestPath>,
): boolean {
  if (path.kind !== 'resource' || path.subresource !== '' || path.served === undefined) return false
  if (!isRead(verbOf(exchange, path))) return false
  const live = context.find(path.group, path.version, path.plural)
  return live !== undefined && live.cache.readiness.kind !== 'refused'
}

/**
 * Discovery among it: what can be written, and groups that are not cached, the API server alone knows. While that is away
 * what is served here is told instead, so that readers live on.
 */
async function passOn(
  options: ApiOptions,
  passthrough: Passthrough,
  exchange: Exchange,
  path: ReturnType<typeof parseRequestPath>,
): Promise<void> {
  const attributes = passedAttributes(exchange, path)
  if (exchange.requestHeaders.upgrade !== undefined) checkOrigin(exchange, options.webSocketAllowedOrigins)
  const caller = await options.admission.admitForwarded(exchange, attributes)
  try {
    await passthrough.pass(exchange, caller)
  } catch (error) {
    const isAway = error instanceof BadGatewayError || error instanceof TimeoutError
    if (!isAway || path.kind === 'resource' || path.kind === 'other' || exchange.request.method !== 'GET') throw error
    const admitting = options.admission.admit(exchange, attributes)
    if (admitting instanceof Promise) await admitting
    answerDocument(options, exchange, path)
  }
}

function passedAttributes(exchange: Exchange, path: ReturnType<typeof parseRequestPath>): Attributes {
  return path.kind === 'resource'
    ? attributesOf(exchange, path, verbOf(exchange, path))
    : pathAttributes(exchange.request.method ?? '', exchange.path)
}

/** undefined: nobody else has it. What is served here is never another's, whatever is said of it. */
function apiServiceOf(
  { apiServices = null, context }: ApiOptions,
  path: ReturnType<typeof parseRequestPath>,
): ApiService | ServiceUnavailableError | undefined {
  if (apiServices === null || (path.kind !== 'resource' && path.kind !== 'api-resources')) return undefined
  const { group, version } = path
  const found = apiServices.find(group, version) ?? apiServices.missing(group, version) ?? undefined
  return found === undefined || context.hasGroup(group, version) ? undefined : found
}

/** What the caller may do is that server's to say, as with an API server behind; that it is not to be had is ours. */
async function passToService(
  options: ApiOptions,
  service: ApiService | ServiceUnavailableError,
  exchange: Exchange,
  path: ReturnType<typeof parseRequestPath>,
): Promise<void> {
  const attributes = passedAttributes(exchange, path)
  if (service instanceof ServiceUnavailableError) {
    const admitting = options.admission.admit(exchange, attributes)
    if (admitting instanceof Promise) await admitting
    throw service
  }
  if (exchange.requestHeaders.upgrade !== undefined) checkOrigin(exchange, options.webSocketAllowedOrigins)
  await service.pass(exchange, await options.admission.admitForwarded(exchange, attributes))
}

async function admitAndAnswer(
  options: ApiOptions,
  exchange: Exchange,
  path: ResourcePath,
  verb: Verb,
  span: Span | null = null,
): Promise<void> {
  const admitting = options.admission.admit(exchange, attributesOf(exchange, path, verb))
  const admitted = admitting instanceof Promise ? await admitting : admitting
  await answerResource(options, exchange, path, verb, admitted, span)
}

/** A caller that traces sends its `traceparent`. */
function tracedList(options: ApiOptions, exchange: Exchange, path: ResourcePath): Promise<void> {
  const { request, requestHeaders } = exchange
  const name = path.served === undefined ? 'list' : `list ${path.plural}`
  const attributes = {
    'http.request.method': request.method ?? '',
    'url.path': exchange.path,
    'user_agent.original': requestHeaders['user-agent'] ?? '',
  }
  return inSpan(name, { kind: 'server', attributes, carrier: requestHeaders }, async (span) => {
    try {
      await admitAndAnswer(options, exchange, path, 'list', span)
      span.note({ 'http.response.status_code': exchange.statusCode })
    } catch (error) {
      span.note({ 'http.response.status_code': StatusError.from(error).code })
      throw error
    }
  })
}

async function answerResource(
  options: ApiOptions,
  exchange: Exchange,
  path: ResourcePath,
  verb: Verb,
  admitted: Admitted,
  span: Span | null,
): Promise<void> {
  const { context } = options
  const live = path.served === undefined ? undefined : context.find(path.group, path.version, path.plural)
  if (live === undefined) throw context.whyUnknown(path.group) ?? unknownResource()
  if (!isRead(verb) || path.subresource !== '') return await write(options, exchange, path, verb, live, admitted)
  if (verb === 'watch' && exchange.isHead) return headOfWatch(options, exchange, path, admitted, live)
  if (live.direct === undefined) return await answerLive(options, exchange, path, verb, admitted, span, live)
  const opened = await live.direct(directAsk(exchange, path, verb), exchange.signal)
  exchange.response.once('close', () => opened.close())
  if (exchange.isGone) return opened.close()
  await answerLive(options, exchange, path, verb, admitted, span, opened)
}

/** No watch is opened: not here, and not upstream. */
function headOfWatch(
  { context, webSocketAllowedOrigins }: ApiOptions,
  exchange: Exchange,
  path: ResourcePath,
  admitted: Admitted,
  live: LiveResource,
): void {
  const form = negotiate(exchange.requestHeaders.accept, 'watch', context.servable(live.served))
  const transport = watchTransport(exchange, form, admitted, webSocketAllowedOrigins)
  const { options } = readWatch(context, transport, live, collectionOf(path), form)
  if (live.direct === undefined) {
    exposeStaleness(exchange, live)
    live.cache.assertReadable()
  }
  answerHeadOfWatch(exchange, form, options.compress || context.compressesWatches)
}

function watchTransport(
  exchange: Exchange,
  form: Negotiated,
  admitted: Admitted,
  webSocketAllowedOrigins: readonly string[],
): WatchTransport {
  return isWebSocket(exchange)
    ? webSocketWatch(exchange, form, admitted, webSocketAllowedOrigins)
    : httpWatch(exchange, form, admitted)
}

function collectionOf(path: ResourcePath): Collection {
  return { namespace: path.namespace, name: path.name === '' ? null : path.name }
}

/** A watch begins with what was there at its revision; what its parameters mean is said, and refused, where they are read. */
function directAsk(exchange: Exchange, path: ResourcePath, verb: Verb): UncachedRequest {
  const { query, requestHeaders } = exchange
  const last = requestHeaders['last-event-id']
  const after = typeof last === 'string' && last !== '' ? last : (query.get('resourceVersion') ?? '')
  const hasInitialState = query.get('sendInitialEvents') === 'true' || !/^[1-9]\d{0,15}$/.test(after)
  return {
    namespace: path.namespace,
    isWatch: verb === 'watch',
    afterRevision: verb === 'watch' && !hasInitialState ? (Number(after) as Revision) : null,
  }
}

async function answerLive(
  options: ApiOptions,
  exchange: Exchange,
  path: ResourcePath,
  verb: 'get' | 'list' | 'watch',
  admitted: Admitted,
  span: Span | null,
  live: LiveResource,
): Promise<void> {
  const { context } = options
  exposeStaleness(exchange, live)
  const { accept } = exchange.requestHeaders
  const servable = context.servable(live.served)
  if (verb === 'get') {
    const name = { namespace: path.namespace, name: path.name }
    return await handleGet(context, exchange, live, name, negotiate(accept, 'get', servable))
  }
  const collection = collectionOf(path)
  const form = negotiate(accept, verb, servable)
  if (verb === 'list') {
    // A client that reads its list for ever holds the list's bytes for ever.
    const timer = context.clock.setTimer(context.requestTimeoutMs, () => exchange.response.destroy())
    try {
      return await handleList(context, exchange, live, collection, form, admitted, span)
    } finally {
      timer.cancel()
    }
  }
  const transport = watchTransport(exchange, form, admitted, options.webSocketAllowedOrigins)
  await handleWatch(context, transport, live, collection, form)
}

async function write(
  { context, writes }: ApiOptions,
  exchange: Exchange,
  path: ResourcePath,
  verb: Verb,
  live: LiveResource,
  admitted: Admitted,
): Promise<void> {
  const unserved = unservedSubresourceError(path, path.name, path.subresource)
  if (unserved !== undefined && live.served.origin === 'well-known') throw unserved
  if (writes === null && isRead(verb)) throw unknownResource()
  if (writes === null || verb === 'other' || path.legacyWatch) {
    throw new MethodNotAllowedError(
      `the server does not allow this method on the requested resource` +
        (writes === null ? `: ${exchange.request.method} needs --enable-writes` : ''),
    )
  }
  if (verb === 'list' || verb === 'watch') throw unknownResource()
  const mayCreate = (): Promise<void> => admitted.authorize(attributesOf(exchange, path, 'create'))
  await handleWrite(context, writes, exchange, live, path, verb, admitted, mayCreate)
}

/** While the upstream is away, how old the answer may be. */
function exposeStaleness(exchange: Exchange, { cache }: LiveResource): void {
  const { stalenessMs } = cache
  // Another distributary, about to feed from here: it must know whether a bookmark can be had for the asking.
  if (exchange.requestHeaders['x-distributary-ask'] === 'progress') {
    exchange.headers['x-distributary-trusts-progress'] = String(cache.trustsProgress)
  }
  if (stalenessMs > 0) exchange.headers['x-distributary-staleness-seconds'] = String(Math.ceil(stalenessMs / 1000))
}

function answerDocument(
  options: ApiOptions,
  exchange: Exchange,
  path: Exclude<ReturnType<typeof parseRequestPath>, ResourcePath | { kind: 'other' }>,
): void {
  const { discovery, openApi } = options
  const why = path.kind === 'version' ? null : whyIncomplete(options, path)
  if (why !== null) throw why
  switch (path.kind) {
    case 'version':
      return sendDocument(exchange, discovery.version())
    case 'api-versions':
    case 'api-groups': {
      const root = path.kind === 'api-versions' ? 'api' : 'apis'
      const form = negotiateDiscovery(exchange.requestHeaders.accept)
      if (!form.aggregated)
        return sendDocument(exchange, root === 'api' ? discovery.apiVersions() : discovery.apiGroups())
      const { body, etag } = discovery.aggregated(root)
      return exchange.sendTagged(form.contentType, body, etag)
    }
    case 'api-group':
      return sendDocument(exchange, discovery.apiGroup(path.group))
    case 'api-resources':
      return sendDocument(exchange, discovery.apiResources(path.group, path.version))
    case 'openapi-v2': {
      const { encoding, contentType } = negotiateOpenApiV2(exchange.requestHeaders.accept)
      const { body, etag } = openApi.v2(encoding)
      return exchange.sendTagged(contentType, body, etag)
    }
    case 'openapi-v3-index':
      return sendDocument(exchange, openApi.index())
    case 'openapi-v3':
      return sendOpenApi(exchange, openApi, path)
  }
}

/** A document without what is still to be read would say that it does not exist. */
function whyIncomplete(
  { context }: ApiOptions,
  path: Exclude<ReturnType<typeof parseRequestPath>, ResourcePath | { kind: 'other' | 'version' }>,
): StatusError | null {
  switch (path.kind) {
    case 'api-versions':
      return context.whyUnknown('')
    case 'api-groups':
    case 'openapi-v2':
    case 'openapi-v3-index':
      return context.whyUnknown(null)
    case 'api-group':
      return context.whyUnknown(path.group)
    case 'api-resources':
    case 'openapi-v3':
      return context.hasGroup(path.group, path.version) ? null : context.whyUnknown(path.group)
  }
}

/** What is asked for by its hash never changes, and is kept for as long as that; an old hash leads to the present one. */
function sendOpenApi(
  exchange: Exchange,
  openApi: OpenApi,
  path: { readonly group: string; readonly version: string },
): void {
  const document = openApi.groupVersion(path.group, path.version)
  if (document === null) throw unknownResource()
  const hash = exchange.query.get('hash')
  if (hash === null) return exchange.sendTagged(JSON_MEDIA_TYPE, document.body, document.etag)
  const current = openApi.hash(path.group, path.version)
  if (hash === current) {
    const expires = new Date(Date.now() + YEAR_MS).toUTCString()
    const forEver = { 'cache-control': 'public, immutable', expires }
    return exchange.sendTagged(JSON_MEDIA_TYPE, document.body, document.etag, forEver)
  }
  exchange.send(301, 'text/plain; charset=utf-8', Buffer.alloc(0), { location: `${exchange.path}?hash=${current}` })
}

const YEAR_MS = 365 * 24 * 3_600_000

function sendDocument(exchange: Exchange, document: Document | null): void {
  if (document === null) throw unknownResource()
  const form = negotiate(exchange.requestHeaders.accept, 'get', { protobufObjects: false })
  const layout = layOut(form, isPretty(form, exchange.query, exchange.requestHeaders['user-agent']))
  exchange.send(200, form.contentType, layout.whole(document.body), { vary: 'Accept' })
}

function requireRead({ request }: Exchange): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    throw new MethodNotAllowedError('the server does not allow this method on the requested resource')
  }
}
