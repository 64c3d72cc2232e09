/**
 * Lets clients take turns with new connections and requests, across all ports of this process. Before authentication,
 * addresses take turns, and within an address connections do. After authentication, identities take turns, so that one
 * user with a thousand addresses delays only itself.
 *
 * A new connection waits once its first bytes have arrived, because the work comes after them: a TLS handshake, and
 * with HTTP/2 perhaps hundreds of requests. Node reads a hundred or more requests at once from an open HTTP/2
 * connection. These requests wait as streams, because a stream costs a third of what a request costs. A stream that the
 * client resets while it waits is never started. Meanwhile, the client's other connections are read in turns.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { oncePer } from '../../../support/memo.js'
import { TooManyRequestsError } from '../../../kubernetes/model/status.js'
import { networkOf } from '../../auth/client-address.js'
import type { Exchange } from '../exchange/exchange.js'
import { handleUse } from '../exchange/stream-handle.js'
import { ArrivalLine, Arrivals, type ArrivalSource } from './arrival-line.js'
import { SessionReads } from './session-reads.js'

const line = new ArrivalLine()
/** Connections whose first bytes have arrived, before the TLS handshake or the HTTP/2 session. */
const connecting = new Arrivals({ line })
/** HTTP/2 streams without a body, before there is a request. */
const opening = new Arrivals({ line })
/** Requests before authentication. */
const arriving = new Arrivals({ line })
/** Requests after authentication. */
const identified = new Arrivals({ line })
/**
 * Requests that have finished waiting for something. Thousands may have waited for the same result, and would otherwise
 * all continue at once.
 */
const goingOn = new Arrivals({ line })
const reads = new SessionReads()

let opened = 0
/** A name for each connection, to distinguish connections from the same address. */
const nameOf = oncePer((_carrier: object) => String(++opened))
/** The source of each HTTP/2 session's streams, kept because finding it costs a tenth of Node's work on a stream. */
const sourceOf = oncePer((session: ServerHttp2Session): ArrivalSource => ({
  client: networkOf(session.socket.remoteAddress ?? ''),
  connection: nameOf(session),
}))

/** Begins a connection now or later, or never if the client closes it first. */
export function admitConnection(socket: Socket, begin: () => void): void {
  const source = { client: networkOf(socket.remoteAddress ?? ''), connection: '' }
  const beginUnlessGone = (): void => {
    if (!socket.destroyed) begin()
  }
  if (!connecting.admit(beginUnlessGone, source)) socket.destroy()
}

/** Begins an HTTP/2 request now or later, or never if the client cancels it first. */
export function admitStream(stream: ServerHttp2Stream, session: ServerHttp2Session, begin: () => void): void {
  const source = sourceOf(session)
  if (!opening.isBusyFor(source)) return begin()
  reads.streamWaits(session)
  // A request with a body begins at once, because its body must be gathered from the first byte.
  if (!stream.endAfterHeaders) return begin()
  const beginUnlessGone = (): void => {
    if (!stream.destroyed) begin()
  }
  if (!opening.admit(beginUnlessGone, source)) begin()
}

/** Call this for each HTTP/2 session, before its first stream. */
export function followReads(session: ServerHttp2Session): void {
  if (handleUse().http2) reads.follow(session, sourceOf(session).client)
}

/**
 * Begins a request now or later, or never if the client cancels it first. Rejects the request when too many are
 * waiting.
 */
export function admitRequest(
  exchange: Exchange,
  address: string,
  begin: (refused?: TooManyRequestsError) => void,
): void {
  const { stream } = exchange.request as { stream?: ServerHttp2Stream }
  const source = { client: networkOf(address), connection: nameOf(stream?.session ?? exchange.request.socket) }
  const beginUnlessGone = (): void => {
    if (!exchange.isGone) begin()
  }
  if (!arriving.admit(beginUnlessGone, source)) begin(tooManyWait())
}

/**
 * Waits for the identity's turn if requests have to wait at all. Little work is done before the identity is known, so
 * this is where a burst of requests waits.
 * @throws TooManyRequestsError
 */
export async function identityTurn(identity: string, address: string): Promise<void> {
  const source: ArrivalSource = { client: identity, connection: networkOf(address) }
  if (!identified.isBusyFor(source)) return
  const turn = identified.turnOf(source)
  if (turn === null) throw tooManyWait()
  await turn
}

/** Waits for the identity's turn to continue a request that has finished waiting for something else. */
export function turnToGoOn(identity: string): Promise<void> {
  return goingOn.turn({ client: identity, connection: '' })
}

function tooManyWait(): TooManyRequestsError {
  return new TooManyRequestsError('too many requests from this client are waiting', 1)
}
