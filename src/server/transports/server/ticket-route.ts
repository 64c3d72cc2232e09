/**
 * `POST /tickets` gives an authenticated caller a ticket for one path (`auth/authn/ticket.ts`). The request needs no
 * permission, because the ticket reads only what the caller may read.
 */
import { pathAttributes } from '../../auth/authz/authorizer.js'
import { BadRequestError, type StatusError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { readBody } from '../exchange/read-body.js'
import type { RequestGate } from '../gate/request-gate.js'
import type { Exchange } from '../exchange/exchange.js'
import { handleOrFail, requirePost } from './gated-route.js'

export interface TicketRouteOptions {
  readonly gate: Pick<RequestGate, 'issueTicket'>
  readonly clock: Clock
  readonly onInternalError: (error: StatusError) => void
}

export const TICKET_PATH = '/tickets'

const MAX_BODY_BYTES = 8 * 1024
const BODY_MS = 20_000
/** A URL with a ticket in it must fit in the headers of any proxy. */
const MAX_PATH_CHARACTERS = 2_048

export async function handleTicket(
  { gate, clock, onInternalError }: TicketRouteOptions,
  exchange: Exchange,
): Promise<void> {
  const { method = '' } = exchange.request
  exchange.headers['cache-control'] = 'private, no-store'
  await handleOrFail(exchange, onInternalError, async () => {
    const attributes = pathAttributes(method, TICKET_PATH)
    const made = await gate.issueTicket(exchange, attributes, async () => {
      requirePost(exchange, 'a ticket')
      return pathOf(await readBody(exchange, clock, BODY_MS, MAX_BODY_BYTES))
    })
    const body = { ...made, expiresAt: new Date(made.expiresAt).toISOString() }
    exchange.send(201, 'application/json', Buffer.from(`${JSON.stringify(body)}\n`))
  })
}

/** @throws BadRequestError */
function pathOf(body: Buffer): string {
  let path: unknown
  try {
    path = (JSON.parse(body.toString('utf8')) as { readonly path?: unknown } | null)?.path
  } catch {
    // Treat unreadable JSON like a body that names no path.
  }
  if (
    typeof path !== 'string' ||
    path.length > MAX_PATH_CHARACTERS ||
    !/^\/apis?\/[!-~]+$/.test(path) ||
    /[?#]/.test(path)
  ) {
    throw new BadRequestError('a ticket is for one API path, as in the URL: {"path":"/api/v1/pods"}')
  }
  return path
}
