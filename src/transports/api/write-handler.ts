/** POST, PUT, PATCH and DELETE, and the subresources: the body in, one verb, the answer out. */
import { type Negotiated, isPretty, negotiate } from '../../dialect/accept.js'
import type { FairGate } from '../../auth/fair-gate.js'
import { parseGetOptions } from '../../dialect/list-options.js'
import { NotAcceptableError } from '../../model/status.js'
import type { WriteAnswer, WriteRequest } from '../../writes/write-context.js'
import type { WriteVerb } from '../../writes/writer.js'
import type { Caller } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { layOut } from '../bodies/layout.js'
import { requireOwnOrigin } from '../server/own-origin.js'
import { readBody } from './read-body.js'
import type { LiveResource, ResourceContext } from './resource-context.js'

export interface Writes {
  perform(verb: WriteVerb, request: WriteRequest): Promise<WriteAnswer>
  /** Writes under way: each holds its body. */
  readonly gate: Pick<FairGate, 'enter'>
}

export interface WritePath {
  readonly namespace: string
  readonly name: string
  readonly subresource: string
}

/** What is written is JSON: nothing of it can be had as protobuf. */
const AS_JSON = { protobufObjects: false, protobufPartial: false } as const

/** @throws StatusError */
export async function handleWrite(
  context: ResourceContext,
  writes: Writes,
  exchange: Exchange,
  { served }: LiveResource,
  path: WritePath,
  verb: WriteVerb,
  caller: Caller,
  mayCreate: () => Promise<void>,
): Promise<void> {
  if (verb !== 'get') requireOwnOrigin(exchange, 'nothing is written')
  // What cannot be answered is not done.
  const form = negotiate(exchange.requestHeaders.accept, 'get', AS_JSON)
  context.memory.admit()
  const release = await writes.gate.enter(caller.identity, exchange.signal)
  try {
    const body = verb === 'get' ? Buffer.alloc(0) : await readBody(exchange, context.clock, context.requestTimeoutMs)
    const answer = await writes.perform(verb, {
      served,
      ...path,
      query: exchange.query,
      userAgent: exchange.requestHeaders['user-agent'] ?? '',
      contentType: exchange.requestHeaders['content-type'],
      body,
      mayCreate,
    })
    send(context, exchange, { served }, answer, form)
  } finally {
    release()
  }
}

function send(
  context: ResourceContext,
  exchange: Exchange,
  { served }: Pick<LiveResource, 'served'>,
  answer: WriteAnswer,
  form: Negotiated,
): void {
  if (answer.warnings.length > 0) exchange.headers['warning'] = answer.warnings.map(warning).join(', ')
  const pretty = isPretty(form, exchange.query, exchange.requestHeaders['user-agent'])
  if (answer.kind === 'document') {
    const contentType = form.encoding === 'yaml' ? 'application/yaml' : 'application/json'
    return exchange.send(answer.code, contentType, layOut(form, pretty).whole(answer.json))
  }
  const encoder = context.encoder(served, form, parseGetOptions(exchange.query).includeObject, null)
  const body = encoder.single(answer.stored)
  if (body === null) throw new NotAcceptableError('what was written cannot be shown in that form')
  exchange.send(answer.code, form.contentType, layOut(form, pretty).whole(body))
}

/** RFC 9110's warn-text: quoted, printable. */
function warning(text: string): string {
  const printable = text.replaceAll(/[^\u0020-\u007e]/g, '?').slice(0, 256)
  return `299 - ${JSON.stringify(printable)}`
}
