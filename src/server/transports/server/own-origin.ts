/**
 * Protects requests that change something, and WebSockets, from foreign pages. A browser sends any page's form or fetch
 * to a server on loopback without a preflight, and although the page cannot read the response, the change would happen.
 * A browser also opens a WebSocket for any page, with cookies and client certificates and without a CORS check.
 */
import { ForbiddenError } from '../../../engine/model/status.js'
import type { Exchange } from './exchange.js'

/**
 * @param what the rejected action, as a verb with its object, for the message.
 * @throws ForbiddenError for a page from another origin that is not configured.
 */
export function requireOwnOrigin(exchange: Exchange, what: string): void {
  const { origin } = exchange.requestHeaders
  if (origin === undefined || exchange.headers['access-control-allow-origin'] === origin) return
  if (!isOwnOrigin(exchange, origin))
    throw new ForbiddenError(`pages from other origins cannot ${what} (--cors-allowed-origins)`)
}

/** Whether a page came from this server. */
function isOwnOrigin({ requestHeaders }: Exchange, origin: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === (requestHeaders.host ?? requestHeaders[':authority'])
}
