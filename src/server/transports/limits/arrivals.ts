/**
 * Schedules the requests to all ports of this process: before authentication by address, and within an address by
 * connection; after authentication by identity, so that one user with a thousand addresses delays only itself.
 *
 * Node reads some hundred HTTP/2 requests of a connection at once. They wait as streams, which cost a third of a
 * request, and those that the client has reset by then are never begun.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { Arrivals, type ArrivalSource } from '../../../support/turns.js'
import { TooManyRequestsError } from '../../../engine/model/status.js'
import { networkOf } from '../../auth/client-address.js'
import type { Exchange } from '../server/exchange.js'

/** HTTP/2 streams without a body, before there is a request. */
const opening = new Arrivals()
/** Requests before authentication. */
const arriving = new Arrivals()
/** Requests after authentication. */
const identified = new Arrivals()

/** A name for each connection, to distinguish those of one address. */
const connections = new WeakMap<object, string>()
let opened = 0

/** Begins an HTTP/2 request now or later, or never if the client gives it up before. */
export function admitStream(stream: ServerHttp2Stream, session: ServerHttp2Session, begin: () => void): void {
  // The bytes of a body must be gathered from the first one on.
  if (!stream.endAfterHeaders || !opening.isBusy) return begin()
  const source = { client: networkOf(session.socket.remoteAddress ?? ''), connection: nameOf(session) }
  const beginUnlessGone = (): void => {
    if (!stream.destroyed) begin()
  }
  if (!opening.admit(beginUnlessGone, source)) begin()
}

/** Begins a request now or later; rejects it when too many wait. */
export function admitRequest(
  exchange: Exchange,
  address: string,
  begin: (refused?: TooManyRequestsError) => void,
): void {
  const { stream } = exchange.request as { stream?: ServerHttp2Stream }
  const source = { client: networkOf(address), connection: nameOf(stream?.session ?? exchange.request.socket) }
  if (!arriving.admit(begin, source)) begin(tooManyWait())
}

/**
 * Waits for the identity's turn if requests have to wait at all. Little work is done before the identity is known, so a
 * burst waits here.
 * @throws TooManyRequestsError
 */
export async function identityTurn(identity: string, address: string): Promise<void> {
  if (!arriving.isBusy && !identified.isBusy) return
  const source: ArrivalSource = { client: identity, connection: networkOf(address) }
  const turn = identified.turnOf(source)
  if (turn === null) throw tooManyWait()
  await turn
}

function nameOf(carrier: object): string {
  let connection = connections.get(carrier)
  if (connection === undefined) connections.set(carrier, (connection = String(++opened)))
  return connection
}

function tooManyWait(): TooManyRequestsError {
  return new TooManyRequestsError('too many requests from this client are waiting', 1)
}
