/** Answers POST of an access review from this server's own authorizer, without storing anything. */
import { completeReview, findReview, type ReviewKind } from '../../auth/authz/reviews.js'
import { negotiate } from '../../../kubernetes/dialect/accept.js'
import { methodNotAllowed, type ResourcePath, unknownResource } from '../../../kubernetes/dialect/request-path.js'
import { parseReviewBody } from '../../../kubernetes/writes/object-body.js'
import { layOut } from '../bodies/layout.js'
import { afterWait } from '../gate/after-wait.js'
import type { Exchange } from '../exchange/exchange.js'
import type { ApiContext } from './api-context.js'
import { readBody } from '../exchange/read-body.js'
import { attributesOf, fieldRequirements, verbOf } from './request-attributes.js'

/** A review contains a few names; the largest list of groups is far below this. */
const MAX_REVIEW_BYTES = 64 * 1024
/** YAML takes forty times as long to read as JSON does, and anyone may review their own rights. */
const MAX_YAML_BYTES = 4 * 1024

/**
 * Returns the kind of review that the path names. A server that accepts writes has no API server next to it, so it also
 * reviews tokens.
 */
export function reviewOf({ writer }: ApiContext, path: ResourcePath): ReviewKind | undefined {
  return findReview(path, writer !== null)
}

/** @throws StatusError before the response. */
export async function handleReview(
  context: ApiContext,
  exchange: Exchange,
  path: ResourcePath,
  kind: ReviewKind,
): Promise<void> {
  const verb = verbOf(exchange, path)
  const reviewer = await context.gate.checkReview(
    exchange,
    attributesOf(exchange, path, verb),
    kind.isSelf && verb === 'create',
  )
  if (path.name !== '' || (path.namespace !== '') !== kind.namespaced) throw unknownResource()
  if (verb !== 'create') throw methodNotAllowed()
  const form = negotiate(exchange.requestHeaders.accept, 'get', {
    protobufObjects: false,
    hasObjects: false,
  })
  const contentType = exchange.requestHeaders['content-type']
  const most = /yaml/i.test(contentType ?? '') ? MAX_YAML_BYTES : MAX_REVIEW_BYTES
  const bytes = await afterWait(reviewer, () => readBody(exchange, context.clock, context.requestTimeoutMs, most))
  const body = parseReviewBody(contentType, bytes, context.schema, kind)
  const response = await completeReview(reviewer.judge, kind, {
    caller: reviewer.user,
    address: reviewer.address,
    namespace: path.namespace,
    body,
    nowMs: context.clock.now(),
    fieldRequirements,
  })
  const layout = layOut(exchange, form)
  exchange.send(201, form.contentType, await layout.whole(Buffer.from(JSON.stringify(response))))
}
