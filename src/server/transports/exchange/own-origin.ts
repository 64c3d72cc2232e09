/**
 * Protects requests that change something, and upgraded connections, from foreign pages. A browser sends any page's form
 * or fetch to any server without a preflight, with cookies and client certificates, and although the page cannot read the
 * response, the change would happen. A browser also opens a WebSocket for any page, without a CORS check. So a foreign
 * page is refused unless more than the browser identifies the caller.
 *
 * A bearer token does: browsers never add one by themselves, and a page adds one only after a preflight. The backends of
 * consoles send one, with the Origin of the console's page and a Host of their own. They also do so behind an
 * authenticated front proxy, which takes care of foreign pages itself. A token in a WebSocket's subprotocol does not
 * count, because any page may choose subprotocols, and a certificate would count if that token were wrong. Neither does
 * the Basic scheme, which browsers add.
 */
import { ForbiddenError } from '../../../kubernetes/model/status.js'
import type { Exchange } from './exchange.js'

/** A scheme, a host name and a port are shorter. Reading a longer one as a URL can take a while. */
const MAX_ORIGIN_LENGTH = 300
const READS: ReadonlySet<string> = new Set(['get', 'list', 'watch', 'head', 'options'])

/**
 * @param verb the verb for which the request is authorized.
 * @param byProxy whether an authenticated front proxy names the caller.
 * @throws ForbiddenError for a page from another origin that is not configured.
 */
export function refuseForeignPage(exchange: Exchange, verb: string, byProxy: boolean): void {
  const { origin, upgrade, authorization = '' } = exchange.requestHeaders
  if (origin === undefined || (READS.has(verb) && upgrade === undefined)) return
  if (byProxy || /^\s*bearer\s+\S/i.test(authorization)) return
  if (exchange.headers['access-control-allow-origin'] === origin || isOwnOrigin(exchange, origin)) return
  const what = upgrade === undefined ? 'write here' : 'open a WebSocket or upgrade a connection'
  throw new ForbiddenError(`pages from other origins cannot ${what} (--cors-allowed-origins)`)
}

/** Whether a page came from this server. */
function isOwnOrigin({ requestHeaders }: Exchange, origin: string): boolean {
  return (
    origin.length <= MAX_ORIGIN_LENGTH &&
    URL.canParse(origin) &&
    new URL(origin).host === (requestHeaders.host ?? requestHeaders[':authority'])
  )
}
