/**
 * Lets pages of the configured origins read responses. Origins are compared as a whole, so that none slips through a
 * pattern. Without the option no header is sent, and browsers hide every response from foreign pages.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import type { Exchange } from '../exchange/exchange.js'

/**
 * The methods and headers that a page may use in addition to the ones that browsers always allow. The API server lets
 * pages send most of them; our client and `EventSource` need the rest. As in the API server, `Impersonate-*` is
 * missing, so a page cannot use its visitor's permissions to act as someone else. Browsers cache the response for a
 * day.
 */
const PREFLIGHT: OutgoingHttpHeaders = {
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  'access-control-allow-headers':
    'Authorization, Content-Type, Accept, Last-Event-ID, If-None-Match, If-Modified-Since, X-CSRF-Token, X-Requested-With',
  'access-control-max-age': '86400',
  'content-length': '0',
}

/** Returns the headers that let a page read the response, if the page's origin is allowed. */
export function corsHeaders({ origin }: IncomingHttpHeaders, allowedOrigins: readonly string[]): OutgoingHttpHeaders {
  if (allowedOrigins.length === 0) return {}
  if (origin === undefined || !allowedOrigins.includes(origin)) return { vary: 'Origin' }
  return {
    vary: 'Origin',
    'access-control-allow-origin': origin,
    'access-control-allow-credentials': 'true',
    'access-control-expose-headers':
      'Date, ETag, Retry-After, Warning, X-Distributary-Staleness-Seconds, X-Distributary-On-Gap, X-Distributary-History, X-Distributary-Position, X-Distributary-Stripped',
  }
}

/** @returns true if the request was a preflight, which browsers send without credentials, and has been answered. */
export function handleCors(exchange: Exchange, allowedOrigins: readonly string[]): boolean {
  const { requestHeaders, request, headers } = exchange
  Object.assign(headers, corsHeaders(requestHeaders, allowedOrigins))
  const isAllowed = headers['access-control-allow-origin'] !== undefined
  const isPreflight = request.method === 'OPTIONS' && requestHeaders['access-control-request-method'] !== undefined
  if (!isAllowed || !isPreflight) return false
  exchange.writeHead(204, PREFLIGHT)
  exchange.end()
  return true
}
