/**
 * Finds the bearer token of a request: in the Authorization header, or in a subprotocol
 * `base64url.bearer.authorization.k8s.io.TOKEN`, since a browser's WebSocket cannot set a header.
 */
import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import { type AuthenticationRequest, headerValues } from './authenticator.js'

export const BEARER_PROTOCOL_PREFIX = 'base64url.bearer.authorization.k8s.io.'

/**
 * @returns null when the request has no token, or only a credential of another scheme.
 * @throws UnauthorizedError for a malformed token, and for several tokens, because the server does not guess which one is
 * meant.
 */
export function bearerToken(request: AuthenticationRequest): string | null {
  const found = [...headerTokens(request), ...protocolTokens(request)]
  if (found.length > 1) throw new UnauthorizedError('Unauthorized', { cause: 'more than one bearer token' })
  return found[0] ?? null
}

function headerTokens(request: AuthenticationRequest): string[] {
  return headerValues(request, 'authorization').flatMap((value) => {
    const parts = value.trim().split(' ')
    // As in the API server, the scheme is case-insensitive, and an empty token is not a credential.
    return parts[0]?.toLowerCase() === 'bearer' && parts[1] !== undefined && parts[1] !== '' ? [parts[1]] : []
  })
}

function protocolTokens(request: AuthenticationRequest): string[] {
  if (!isWebSocketUpgrade(request)) return []
  return webSocketProtocols(request)
    .filter((protocol) => protocol.startsWith(BEARER_PROTOCOL_PREFIX))
    .map((protocol) => {
      const encoded = protocol.slice(BEARER_PROTOCOL_PREFIX.length)
      const token = /^[A-Za-z0-9_-]+$/.test(encoded) ? Buffer.from(encoded, 'base64url').toString('utf8') : ''
      if (token === '' || token.includes('\ufffd')) {
        throw new UnauthorizedError('Unauthorized', { cause: 'malformed bearer subprotocol' })
      }
      return token
    })
}

/** As in the API server, the subprotocols of a request are ignored if it does not request an upgrade. */
function isWebSocketUpgrade(request: AuthenticationRequest): boolean {
  const protocols = headerValues(request, 'upgrade')
  if (protocols.length !== 1 || protocols[0]!.toLowerCase() !== 'websocket') return false
  const listed = headerValues(request, 'connection').flatMap((value) => value.split(','))
  return listed.some((name) => name.trim().toLowerCase() === 'upgrade')
}

function webSocketProtocols(request: AuthenticationRequest): readonly string[] {
  return headerValues(request, 'sec-websocket-protocol').flatMap((value) =>
    value
      .split(',')
      .map((protocol) => protocol.trim())
      .filter((protocol) => protocol !== ''),
  )
}
