/** Routes outside the API: each request passes the gate first, and failures are answered with a Status. */
import type { Attributes } from '../../auth/authz/authorizer.js'
import { InternalError, MethodNotAllowedError, StatusError } from '../../../engine/model/status.js'
import { systemClock } from '../../../support/clock.js'
import { dropBody } from '../api/read-body.js'
import type { Confirmable } from '../limits/request-gate.js'
import { handleCors } from './cors.js'
import { Exchange } from './exchange.js'

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

/** The time limit for receiving a body, which these routes drop. */
const BODY_MS = 20_000

interface Incoming {
  readonly raw: Exchange['request']
}

interface Reply {
  readonly raw: Exchange['response']
  hijack(): unknown
}

/** Returns a Fastify handler that answers with `send` if the caller has the permission that `attributes` describes. */
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
      const caller = await gate.check(exchange, attributes(raw))
      await dropBody(exchange, systemClock, BODY_MS)
      await caller?.confirm()
      await send(exchange, caller)
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
    const status = StatusError.from(error)
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
