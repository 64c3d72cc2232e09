/** Reads from a request who claims to send it: its address, its certificate, its headers and its ticket. */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { TLSSocket } from 'node:tls'
import { type AuthenticationRequest, headerValues } from '../../auth/authn/authenticator.js'
import { type TrustedProxies, clientAddress } from '../../auth/client-address.js'
import { type PeerCertificate, peerCertificateOf } from '../../auth/peer-certificate.js'
import type { Exchange } from '../exchange/exchange.js'

export type Credentials = AuthenticationRequest & { readonly address: string }

/**
 * Collects the caller's credentials. No cache may keep a response to a request with a ticket.
 * @param nowMs null if there are no tickets.
 */
export function credentialsOf(exchange: Exchange, proxies: TrustedProxies, nowMs: number | null): Credentials {
  const { request, path, query } = exchange
  const address = addressOf(exchange, proxies)
  const credentials = { rawHeaders: request.rawHeaders, tlsPeerCertificate: certificateOf(request), address }
  const shown = nowMs === null ? [] : query.getAll('ticket')
  if (nowMs === null || shown.length === 0) return credentials
  exchange.headers['cache-control'] = 'private, no-store'
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  // Two tickets count as none.
  const text = shown.length > 1 ? '' : shown[0]!
  return { ...credentials, ticket: { text, path, isRead, atMs: nowMs } }
}

/** Returns the client's address: the peer's, or the one that a trusted proxy reports. */
export function addressOf(exchange: Pick<Exchange, 'request' | 'address'>, proxies: TrustedProxies): string {
  return (exchange.address ??= findAddress(exchange.request, proxies))
}

function findAddress({ socket, rawHeaders }: IncomingMessage, proxies: TrustedProxies): string {
  const peer = socket.remoteAddress ?? ''
  return proxies.has(peer) ? clientAddress(peer, headerValues({ rawHeaders }, 'x-forwarded-for'), proxies) : peer
}

function certificateOf(request: IncomingMessage): PeerCertificate | null {
  const socket = tlsSocketOf(request)
  return socket === null ? null : peerCertificateOf(socket)
}

/** The socket of an HTTP/2 request is a proxy object; the session of its stream has the real socket. */
function tlsSocketOf(request: IncomingMessage): TLSSocket | null {
  const { stream } = request as { stream?: ServerHttp2Stream }
  const socket = stream === undefined ? request.socket : stream.session?.socket
  if (stream === undefined) return socket instanceof TLSSocket ? socket : null
  return stream.session?.encrypted === true ? (socket as TLSSocket) : null
}
