/**
 * Forwards requests to the server that answers them. With `--passthrough`, these are all requests for anything that is
 * not cached; with `--apiservice`, they are requests for the group versions of aggregated APIs. The other server
 * decides what the client may do.
 */
import { type Attributes, pathAttributes } from '../../auth/authz/authorizer.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import { decodedPath, type RequestPath } from '../../../kubernetes/dialect/request-path.js'
import { BadGatewayError, ServiceUnavailableError, TimeoutError } from '../../../kubernetes/model/status.js'
import type { ApiService } from '../passthrough/api-services.js'
import type { Passthrough } from '../passthrough/passthrough.js'
import type { Exchange } from '../exchange/exchange.js'
import { acceptsEvents } from '../watch/http-watch.js'
import type { ApiContext } from './api-context.js'
import { handleDocument } from './discovery-documents.js'
import { attributesOf, isRead, verbOf } from './request-attributes.js'

/** @returns a function that forwards the request; null when it is answered here. */
export function forwarderOf(context: ApiContext, exchange: Exchange, path: RequestPath): (() => Promise<void>) | null {
  const { passthrough } = context
  if (passthrough !== null && !isServedHere(context, exchange, path)) {
    // After a restart every watch of a custom resource would otherwise be forwarded, and stay on the other server for
    // minutes.
    if (mayBeWatchedHere(context, exchange, path)) return null
    return () => passOn(context, passthrough, exchange, path)
  }
  const service = apiServiceOf(context, path)
  return service === undefined ? null : () => passToService(context, service, exchange, path)
}

/**
 * Forwards a request to the API server. Discovery is forwarded too, because only the API server knows what can be
 * written and which groups are not cached. While it is unreachable, this server answers with its own documents, so that
 * readers can continue.
 */
export async function passOn(
  context: ApiContext,
  passthrough: Passthrough,
  exchange: Exchange,
  path: RequestPath,
): Promise<void> {
  const attributes = attributesOfPassed(exchange, path)
  const caller = await context.gate.checkForwarded(exchange, attributes)
  try {
    await passthrough.pass(exchange, caller)
  } catch (error) {
    const isUnreachable = error instanceof BadGatewayError || error instanceof TimeoutError
    if (!isUnreachable || path.kind === 'resource' || path.kind === 'other' || exchange.request.method !== 'GET')
      throw error
    await handleDocument(context, exchange, path, await context.gate.check(exchange, attributes))
  }
}

async function passToService(
  context: ApiContext,
  service: ApiService | ServiceUnavailableError,
  exchange: Exchange,
  path: RequestPath,
): Promise<void> {
  const attributes = attributesOfPassed(exchange, path)
  if (service instanceof ServiceUnavailableError) {
    await context.gate.check(exchange, attributes)
    throw service
  }
  await service.pass(exchange, await context.gate.checkForwarded(exchange, attributes))
}

/**
 * Whether this server answers the request. It answers gets, lists and watches, unless the resource cannot be cached
 * (encrypted at rest), or its source refuses it.
 */
function isServedHere(context: ApiContext, exchange: Exchange, path: RequestPath): boolean {
  if (path.kind !== 'resource' || path.subresource !== '' || path.served === undefined) return false
  if (!isRead(verbOf(exchange, path))) return false
  const { convertsByWebhook, storageVersion, resource } = path.served
  // The API server knows nothing of other prefixes.
  if (resource.holds !== 'kubernetes') return true
  // Only the API server can ask the webhook to convert objects to another version.
  if (convertsByWebhook && path.version !== storageVersion) return false
  const found = context.find(path.group, path.version, path.plural)
  if (found === undefined || found.kind === 'uncached') return found !== undefined
  const { readiness, source } = found.cache
  // The API server has what the cache no longer gets.
  if (source.isRefusing && canBeForwarded(exchange, path)) return false
  return readiness.kind !== 'refused'
}

/** Whether the API server can answer this read of a resource in place of this server. */
export function canBeForwarded(exchange: Exchange, path: RequestPath): boolean {
  // The API server knows nothing of other prefixes, and a 404 would say that the object does not exist.
  if (path.kind !== 'resource' || path.served?.resource.holds !== 'kubernetes') return false
  const verb = verbOf(exchange, path)
  if (verb === 'get') return true
  // An API server that ignores these parameters would list or watch everything, or never end a poll.
  const isOurs = ['shardSelector', 'wait'].some((name) => (parameter(exchange.query, name) ?? '') !== '')
  // It would refuse an EventSource for good.
  return !isOurs && !(verb === 'watch' && acceptsEvents(exchange))
}

/** Whether the request is a watch of something that this server, which is still starting, may turn out to serve. */
function mayBeWatchedHere(context: ApiContext, exchange: Exchange, path: RequestPath): boolean {
  if (path.kind !== 'resource' || path.subresource !== '' || path.served !== undefined) return false
  return verbOf(exchange, path) === 'watch' && context.whyUnknown(path.group) !== null
}

/**
 * Returns the server of an aggregated API; undefined if there is none. A group version that is served here never
 * belongs to another server, whatever an APIService says. Definitions cannot serve a group version whose server is
 * configured.
 */
function apiServiceOf(context: ApiContext, path: RequestPath): ApiService | ServiceUnavailableError | undefined {
  const { apiServices } = context
  if (apiServices === null || (path.kind !== 'resource' && path.kind !== 'api-resources')) return undefined
  const { group, version } = path
  const found = apiServices.find(group, version) ?? apiServices.missing(group, version) ?? undefined
  return found === undefined || context.hasGroup(group, version) ? undefined : found
}

function attributesOfPassed(exchange: Exchange, path: RequestPath): Attributes {
  return path.kind === 'resource'
    ? attributesOf(exchange, path, verbOf(exchange, path))
    : pathAttributes(exchange.request.method ?? '', decodedPath(exchange.path))
}
