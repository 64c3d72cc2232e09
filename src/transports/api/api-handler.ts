/**
 * Everything under `/api`, `/apis`, `/version` and `/openapi`: routes a request to discovery, to a resource or to another
 * server. Each request has one answer; an error before the headers is a Status.
 */
import { pathAttributes } from '../../auth/authz/authorizer.js'
import { parseRequestPath, type ResourcePath, unknownResource } from '../../dialect/request-path.js'
import { InternalError, StatusError, UnshowableError } from '../../model/status.js'
import type { Exchange } from '../server/exchange.js'
import { failAsEvents } from '../watch/http-watch.js'
import { answerDocument } from './discovery-documents.js'
import { type PassOnOptions, passOn, whoElseAnswers } from './pass-on.js'
import { type Verb, verbOf } from './request-attributes.js'
import { handleReview, reviewOf, type ReviewOptions } from './review-handler.js'
import type { ApiContext } from './api-context.js'
import { answerResource, type ResourceHandlerOptions } from './resource-handler.js'

export interface ApiOptions extends ResourceHandlerOptions, PassOnOptions, ReviewOptions {
  readonly context: ApiContext
  /** @param seconds null for a watch, and for what another server answered. */
  readonly onAnswered: (verb: string, code: number, seconds: number | null) => void
  readonly onInternalError: (error: StatusError) => void
}

export type ApiHandler = (exchange: Exchange) => Promise<void>

/** How a request counts in metrics. */
interface Counted {
  verb: Verb | 'discovery' | 'passed'
}

export function apiHandler(options: ApiOptions): ApiHandler {
  return async (exchange) => {
    const counted: Counted = { verb: 'other' }
    try {
      await route(options, exchange, counted)
    } catch (error) {
      fail(options, exchange, error, counted)
    } finally {
      const isTimed = counted.verb !== 'watch' && counted.verb !== 'passed'
      const seconds = isTimed ? (performance.now() - exchange.startedMs) / 1000 : null
      options.onAnswered(counted.verb, exchange.statusCode, seconds)
    }
  }
}

async function route(options: ApiOptions, exchange: Exchange, counted: Counted): Promise<void> {
  const path = parseRequestPath(
    exchange.path,
    (group, version, plural) => options.context.find(group, version, plural)?.served,
  )
  const pass = whoElseAnswers(options, exchange, path)
  if (pass !== null) {
    counted.verb = 'passed'
    return await pass()
  }
  if (path.kind === 'other') throw unknownResource()
  if (path.kind === 'resource') {
    const review = reviewOf(path)
    if (review === undefined) return await answer(options, exchange, path, counted)
    counted.verb = verbOf(exchange, path)
    return await handleReview(options, exchange, path, review)
  }
  counted.verb = 'discovery'
  const checking = options.gate.check(exchange, pathAttributes(exchange.request.method ?? '', exchange.path))
  if (checking instanceof Promise) await checking
  answerDocument(options, exchange, path)
}

/** A request that meets an object which cannot be shown here is passed on where there is an API server. */
async function answer(options: ApiOptions, exchange: Exchange, path: ResourcePath, counted: Counted): Promise<void> {
  const verb = verbOf(exchange, path)
  counted.verb = verb
  try {
    await answerResource(options, { exchange, path, verb })
  } catch (error) {
    const { passthrough } = options
    if (!(error instanceof UnshowableError) || passthrough === null || exchange.response.headersSent) throw error
    counted.verb = 'passed'
    await passOn(options, passthrough, exchange, path)
  }
}

function fail({ onInternalError }: ApiOptions, exchange: Exchange, error: unknown, { verb }: Counted): void {
  // A client that left while something was waited for needs no answer.
  if (exchange.isGone && error instanceof Error && error.name === 'AbortError') return
  const status = StatusError.from(error)
  if (status instanceof InternalError) onInternalError(status)
  if (exchange.response.headersSent) exchange.response.destroy()
  else if (verb !== 'watch' || !failAsEvents(exchange, status)) exchange.fail(status)
}
