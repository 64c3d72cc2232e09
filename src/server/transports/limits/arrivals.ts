/**
 * Lets clients take turns with new connections and requests, over all ports of this process: before authentication by
 * address, and within an address by connection; after authentication by identity, so that one user with a thousand
 * addresses delays only itself.
 *
 * A new connection waits when its first bytes have arrived: after them comes the work of a handshake, and an HTTP/2
 * connection may bring hundreds of requests. From an open HTTP/2 connection Node reads some hundred requests at once.
 * They wait as streams, which cost a third of a request; a stream that the client resets while it waits is never
 * started; and the client's other connections are read in turns.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { ArrivalLine, Arrivals, type ArrivalSource } from '../../../support/turns.js'
import { TooManyRequestsError } from '../../../engine/model/status.js'
import { networkOf } from '../../auth/client-address.js'
import type { Exchange } from '../server/exchange.js'
import { handleUse } from '../watch/stream-handle.js'
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
/** Requests that have waited for something: thousands may wait for one answer, and would all continue at once. */
const goingOn = new Arrivals({ line })
const reads = new SessionReads()

/** A name for each connection, to distinguish those of one address. */
const connections = new WeakMap<object, string>()
let opened = 0
/**
 * Where the streams of each HTTP/2 session come from: finding out takes as long as a tenth of Node's work on a stream.
 */
const sources = new WeakMap<ServerHttp2Session, ArrivalSource>()

/** Begins a connection now or later, or never if the client closes it first. */
export function admitConnection(socket: Socket, begin: () => void): void {
  const source = { client: networkOf(socket.remoteAddress ?? ''), connection: '' }
  const beginUnlessGone = (): void => {
    if (!socket.destroyed) begin()
  }
  if (!connecting.admit(beginUnlessGone, source)) socket.destroy()
}

/** Begins an HTTP/2 request now or later, or never if the client gives it up first. */
export function admitStream(stream: ServerHttp2Stream, session: ServerHttp2Session, begin: () => void): void {
  const source = sourceOf(session)
  if (!opening.isBusyFor(source)) return begin()
  reads.streamWaits(session)
  // The bytes of a body must be gathered from the first one on.
  if (!stream.endAfterHeaders) return begin()
  const beginUnlessGone = (): void => {
    if (!stream.destroyed) begin()
  }
  if (!opening.admit(beginUnlessGone, source)) begin()
}

/** Call it for each HTTP/2 session, before its streams. */
export function followReads(session: ServerHttp2Session): void {
  if (handleUse().http2) reads.follow(session, sourceOf(session).client)
}

function sourceOf(session: ServerHttp2Session): ArrivalSource {
  let source = sources.get(session)
  if (source === undefined) {
    source = { client: networkOf(session.socket.remoteAddress ?? ''), connection: nameOf(session) }
    sources.set(session, source)
  }
  return source
}

/** Begins a request now or later, or never if the client gives it up first; rejects it when too many wait. */
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
 * Waits for the identity's turn if requests have to wait at all. Little work is done before the identity is known, so a
 * burst waits here.
 * @throws TooManyRequestsError
 */
export async function identityTurn(identity: string, address: string): Promise<void> {
  const source: ArrivalSource = { client: identity, connection: networkOf(address) }
  if (!identified.isBusyFor(source)) return
  const turn = identified.turnOf(source)
  if (turn === null) throw tooManyWait()
  await turn
}

/** Waits for the identity's turn to go on with what it has waited for. */
export function turnToGoOn(identity: string): Promise<void> {
  return goingOn.turn({ client: identity, connection: '' })
}

function nameOf(carrier: object): string {
  let connection = connections.get(carrier)
  if (connection === undefined) connections.set(carrier, (connection = String(++opened)))
  return connection
}

function tooManyWait(): TooManyRequestsError {
  return new TooManyRequestsError('too many requests from this client are waiting', 1)
}
