/**
 * Requests that change something, and the pages that browsers let send them. A form or a fetch of a foreign page reaches a
 * server on loopback without asking, and though the page reads nothing of the answer, the change would have been made.
 */
import { ForbiddenError } from '../../model/status.js'
import type { Exchange } from './exchange.js'

/** @throws ForbiddenError for a page of another origin that the operator has not named. */
export function requireOwnOrigin({ requestHeaders, headers }: Exchange, what: string): void {
  const { origin, host } = requestHeaders
  if (origin === undefined || headers['access-control-allow-origin'] === origin) return
  const isOwn = URL.canParse(origin) && new URL(origin).host === (host ?? requestHeaders[':authority'])
  if (!isOwn) throw new ForbiddenError(`${what} by pages of other origins (--cors-allowed-origins)`)
}
