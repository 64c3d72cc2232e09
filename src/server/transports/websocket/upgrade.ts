/**
 * Checks a request with `Upgrade: websocket` on the URL of a watch. Every rejection comes before the upgrade, as an
 * ordinary response.
 */
import { BadRequestError, UnauthorizedError } from '../../../kubernetes/model/status.js'
import { BEARER_PROTOCOL_PREFIX } from '../../auth/authn/bearer-token.js'
import type { Exchange } from '../exchange/exchange.js'
import { upgradeHead } from '../exchange/upgrade-head.js'

export function isWebSocket({ request, requestHeaders }: Pick<Exchange, 'request' | 'requestHeaders'>): boolean {
  return upgradeHead(request) !== undefined && requestHeaders.upgrade?.toLowerCase() === 'websocket'
}

/** @throws BadRequestError, UnauthorizedError when the handshake would fail. */
export function checkHandshake({ request, requestHeaders }: Pick<Exchange, 'request' | 'requestHeaders'>): void {
  const key = requestHeaders['sec-websocket-key']
  if (request.method !== 'GET') throw new BadRequestError('open a WebSocket with GET')
  if (key === undefined || !/^[+/0-9A-Za-z]{22}==$/.test(key)) {
    throw new BadRequestError('Sec-WebSocket-Key is missing or not 16 bytes in base64')
  }
  if (requestHeaders['sec-websocket-version'] !== '13') {
    throw new BadRequestError('Sec-WebSocket-Version must be 13')
  }
  const protocols = protocolsOf(requestHeaders['sec-websocket-protocol'])
  const others = protocols.filter((protocol) => !protocol.startsWith(BEARER_PROTOCOL_PREFIX))
  // As in the API server: a browser that offers protocols accepts no response without one of them, and the token is
  // never echoed.
  if (others.length < protocols.length && others.length === 0) {
    throw new UnauthorizedError('a bearer token as a subprotocol needs another subprotocol for the server to echo')
  }
  if (others.length > 1) throw new BadRequestError(`send at most one subprotocol, not ${others.length}`)
}

/** The library rejects the same values. */
function protocolsOf(header: string | undefined): readonly string[] {
  const protocols =
    header === undefined ? [] : header.split(',').map((text) => /^[ \t]*([^ \t]+)[ \t]*$/.exec(text)?.[1] ?? '')
  if (
    protocols.some((protocol) => !/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(protocol)) ||
    new Set(protocols).size < protocols.length
  ) {
    throw new BadRequestError('Sec-WebSocket-Protocol cannot be read')
  }
  return protocols
}
