/**
 * Answers everything under `/api`, `/apis`, `/version` and `/openapi`: routes a request to discovery, to a resource or
 * to another server. Each request gets one response; an error before the headers becomes a Status.
 */
import { RefusedReadError, RefusedWatchError, WithheldError } from '../../../engine/model/errors.js'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import {
  checkName,
  decodedPath,
  parseRequestPath,
  type ResourcePath,
  unknownResource,
} from '../../../kubernetes/dialect/request-path.js'
import { STRIPPED_HEADER } from '../../../kubernetes/dialect/stripped-fields.js'
import { checkTimeout } from '../../../kubernetes/dialect/timeout-parameter.js'
import { InternalError, StatusError, UnshowableError } from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import type { RequestKind } from '../../metrics/request-metrics.js'
import type { Exchange } from '../exchange/exchange.js'
import { bodyOf } from '../exchange/request-body.js'
import { failAsEvents } from '../watch/http-watch.js'
import { handleDocument } from './discovery-documents.js'
import { canBeForwarded, forwarderOf, passOn } from './pass-on.js'
import { isRead, type Verb, verbOf } from './request-attributes.js'
import { handleReview, reviewOf } from './review-handler.js'
import type { ApiContext } from './api-context.js'
import { handleResource } from './resource-handler.js'

/** @param refused the reason to reject the request, which is still answered and counted. */
export type ApiHandler = (exchange: Exchange, refused?: StatusError) => Promise<void>

/** The labels under which metrics count a request. */
interface Counted {
  verb: Verb | 'discovery' | 'passed'
  group: string
  resource: string
  /** null for a watch, which is counted separately. */
  kind: RequestKind | null
  reason: string | null
}

export function apiHandler(context: ApiContext): ApiHandler {
  return async (exchange, refused) => {
    const counted: Counted = { verb: 'other', group: '', resource: '', kind: null, reason: null }
    try {
      if (refused !== undefined) throw refused
      await route(context, exchange, counted)
    } catch (error) {
      fail(context, exchange, error, counted)
    } finally {
      count(context, exchange, counted)
    }
  }
}

function count({ metrics }: ApiContext, { statusCode, startedMs }: Exchange, counted: Counted): void {
  const { verb, kind, group, resource, reason } = counted
  if (kind !== null) metrics.inFlight(kind, -1)
  metrics.requestEnded(verb, group, resource, String(statusCode))
  if (verb === 'watch' || verb === 'passed') return
  metrics.requestSeconds(verb, group, resource, (performance.now() - startedMs) / 1000)
  if (kind === 'write') metrics.written(verb, group, resource, reason ?? 'success')
}

async function route(context: ApiContext, exchange: Exchange, counted: Counted): Promise<void> {
  const path = parseRequestPath(exchange.path, (group, version, plural) => context.find(group, version, plural)?.served)
  const pass = forwarderOf(context, exchange, path)
  if (pass !== null) {
    // Proxies on the way might normalize an invalid name, and the server behind them would then see another path.
    if (path.kind === 'resource') checkName(path)
    begin(context, counted, 'passed')
    return await pass()
  }
  if (path.kind !== 'resource' || verbOf(exchange, path) !== 'watch') checkTimeout(exchange.query)
  if (path.kind === 'other') throw unknownResource()
  if (path.kind === 'resource') {
    const review = reviewOf(context, path)
    if (review === undefined) return await handleOrForward(context, exchange, path, counted)
    // A review stores nothing, so it does not count as a write.
    begin(context, counted, 'other')
    return await handleReview(context, exchange, path, review)
  }
  begin(context, counted, 'discovery')
  const attributes = pathAttributes(exchange.request.method ?? '', decodedPath(exchange.path))
  await handleDocument(context, exchange, path, await context.gate.check(exchange, attributes))
}

const UNREADABLE_HERE = [UnshowableError, RefusedReadError, RefusedWatchError, WithheldError]

/**
 * Answers from the resource. What cannot be read here is forwarded to the API server if there is one: an object that
 * cannot be shown, a read or a watch that the source refuses this server, a resource whose first list was refused while
 * the request waited for it.
 */
async function handleOrForward(
  context: ApiContext,
  exchange: Exchange,
  path: ResourcePath,
  counted: Counted,
): Promise<void> {
  const verb = verbOf(exchange, path)
  // Only served resources become labels, because clients may request any path.
  if (path.served !== undefined) {
    counted.group = path.group
    counted.resource = path.plural
  }
  begin(context, counted, verb)
  // An empty namespace in a read may mean all namespaces. In a delete, it is more likely an empty variable in a script.
  if (path.hasEmptyNamespace && verb === 'deletecollection') throw unknownResource()
  try {
    await handleResource(context, { exchange, path, verb })
  } catch (error) {
    const { passthrough } = context
    const isForwarded = UNREADABLE_HERE.some((kind) => error instanceof kind)
    if (!isForwarded || passthrough === null || exchange.response.headersSent) throw error
    if (!canBeForwarded(exchange, path)) throw error
    // The body that these headers describe has been dropped.
    if (bodyOf(exchange.request) !== 'none') throw error
    begin(context, counted, 'passed')
    delete exchange.headers[STRIPPED_HEADER]
    await passOn(context, passthrough, exchange, path)
  }
}

/** Counts a request by its verb. A request that turns out to be for another server is counted as `passed` instead. */
function begin({ metrics }: ApiContext, counted: Counted, verb: Counted['verb']): void {
  if (counted.kind !== null) metrics.inFlight(counted.kind, -1)
  counted.verb = verb
  counted.kind = kindOf(verb)
  if (counted.kind !== null) metrics.inFlight(counted.kind, 1)
}

function kindOf(verb: Counted['verb']): RequestKind | null {
  if (verb === 'watch') return null
  if (verb === 'passed') return 'passed'
  return verb === 'discovery' || verb === 'other' || isRead(verb) ? 'read' : 'write'
}

function fail({ onInternalError }: ApiContext, exchange: Exchange, error: unknown, counted: Counted): void {
  if (exchange.wasLeft(error)) return
  const status = statusOf(error)
  counted.reason = status.reason
  if (status instanceof InternalError) onInternalError(status)
  if (exchange.response.headersSent) exchange.breakOff()
  else if (counted.verb !== 'watch' || !failAsEvents(exchange, status)) exchange.fail(status)
}
