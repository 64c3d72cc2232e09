/**
 * Schedules the requests to all ports of this process: before authentication by address, and within an address by
 * connection; after authentication by identity, so that one user with a thousand addresses delays only itself.
 */
import type { ServerHttp2Stream } from 'node:http2'
import { Arrivals, type ArrivalSource } from '../../../support/turns.js'
import { TooManyRequestsError } from '../../../engine/model/status.js'
import { networkOf } from '../../auth/client-address.js'
import type { Exchange } from '../server/exchange.js'

/** Requests before authentication. */
const arriving = new Arrivals()
/** Requests after authentication. */
const identified = new Arrivals()

/** A name for each connection, to distinguish those of one address. */
const connections = new WeakMap<object, string>()
let opened = 0

/** Begins a request now or later; rejects it when too many wait. */
export function admitRequest(
  exchange: Exchange,
  address: string,
  begin: (refused?: TooManyRequestsError) => void,
): void {
  const source = { client: networkOf(address), connection: connectionOf(exchange.request) }
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

function connectionOf(request: Exchange['request']): string {
  const { stream } = request as { stream?: ServerHttp2Stream }
  const carrier: object = stream?.session ?? request.socket
  let connection = connections.get(carrier)
  if (connection === undefined) connections.set(carrier, (connection = String(++opened)))
  return connection
}

function tooManyWait(): TooManyRequestsError {
  return new TooManyRequestsError('too many requests from this client are waiting', 1)
}
