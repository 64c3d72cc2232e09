/**
 * Protects requests that change something from foreign pages. A browser sends the form or fetch of any page to a server on
 * loopback without asking, and though the page cannot read the answer, the change would have been made.
 */
import { ForbiddenError } from '../../../engine/model/status.js'
import type { Exchange } from './exchange.js'

/** @param what names the refused action in the message. @throws ForbiddenError for a page of another origin that the operator has not named. */
export function requireOwnOrigin(exchange: Exchange, what: string): void {
  const { origin } = exchange.requestHeaders
  if (origin === undefined || exchange.headers['access-control-allow-origin'] === origin) return
  if (!isOwnOrigin(exchange, origin))
    throw new ForbiddenError(`${what} by pages of other origins (--cors-allowed-origins)`)
}

/** Whether a page came from this server. */
export function isOwnOrigin({ requestHeaders }: Exchange, origin: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === (requestHeaders.host ?? requestHeaders[':authority'])
}
