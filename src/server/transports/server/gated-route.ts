/** Routes outside the API: each request passes the gate first, and failures are answered with a Status. */
import type { Attributes } from '../../auth/authz/authorizer.js'
import { InternalError, MethodNotAllowedError, StatusError } from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import type { Confirmable } from '../gate/caller.js'
import { handleCors } from './cors.js'
import { Exchange } from '../exchange/exchange.js'
import { dropBody } from '../exchange/request-body.js'

/** @typeParam Caller null if the route authenticates no one. */
export interface GatedRouteOptions<Caller extends Confirmable | null> {
  readonly gate: {
    /** @throws StatusError for a caller who is not admitted. */
    check(exchange: Exchange, attributes: Attributes): Caller | Promise<Caller>
  }
  /** Default: none. */
  readonly corsAllowedOrigins?: readonly string[]
  readonly onInternalError: (error: StatusError) => void
}

interface Incoming {
  readonly raw: Exchange['request']
}

interface Reply {
  readonly raw: Exchange['response']
  hijack(): unknown
}

/**
 * Returns a Fastify handler that answers with `send` if the caller has the permission that `attributes` describes. It
 * waits for no body, because none has a meaning here.
 */
export function gated<Caller extends Confirmable | null>(
  { gate, corsAllowedOrigins = [], onInternalError }: GatedRouteOptions<Caller>,
  attributes: (request: Exchange['request']) => Attributes,
  send: (exchange: Exchange, caller: Caller) => void | Promise<void>,
): (request: Incoming, reply: Reply) => Promise<void> {
  return async ({ raw }, reply) => {
    reply.hijack()
    const exchange = new Exchange(raw, reply.raw)
    if (handleCors(exchange, corsAllowedOrigins)) return
    await handleOrFail(exchange, onInternalError, async () => {
      dropBody(raw)
      await send(exchange, await gate.check(exchange, attributes(raw)))
    })
  }
}

/** Never rejects: if `handle` fails before the head is sent, the response is a Status. */
export async function handleOrFail(
  exchange: Exchange,
  onInternalError: (error: StatusError) => void,
  handle: () => Promise<void>,
): Promise<void> {
  try {
    await handle()
  } catch (error) {
    if (exchange.wasLeft(error)) return
    const status = statusOf(error)
    if (status instanceof InternalError) onInternalError(status)
    if (!exchange.response.headersSent) exchange.fail(status)
  }
}

/** @param what names the requested thing in the message. @throws MethodNotAllowedError */
export function requirePost(exchange: Exchange, what: string): void {
  const { method = '' } = exchange.request
  if (method === 'POST') return
  exchange.headers['allow'] = 'POST'
  throw new MethodNotAllowedError(`request ${what} with POST, not ${method}`)
}
