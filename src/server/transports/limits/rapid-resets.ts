/**
 * Limits the HTTP/2 requests that a client opens and resets at once ("rapid reset"), over all of its connections. Such
 * a request costs the server work and the client nothing, and a per-connection limit starts over with every new
 * connection.
 *
 * Resets are counted for the identity that the connection has authenticated as, and for the address before that. Beyond
 * the limit the client is suspect for a while: each of its connections may reset a few requests, and is ended at the
 * next. Nobody is rejected for what others have done: thousands may share an address, and those who finish their
 * requests notice nothing. Only young, unanswered requests count: ending a watch, or giving up on a slow list, is
 * normal.
 */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'
import { recentEntries } from '../../../support/recent-entries.js'
import { TokenBuckets } from '../../../support/token-buckets.js'

export interface RapidResetsOptions {
  readonly clock: Clock
  /** Addresses of proxies, which carry the requests of many clients: nothing is counted for them. */
  readonly proxies: { has(address: string): boolean }
  /** Called for each connection that is ended. */
  readonly onRejected: () => void
  /** Called with resets counted here, so that another process can also count them. */
  readonly onCounted?: (client: string, resets: number) => void
  /** Called when a client becomes suspect. */
  readonly onSuspected?: (client: string) => void
}

/** Longer-lived requests are limited by the number of streams per connection. */
export const RAPID_MS = 1_000
/** The burst of resets, and the sustained rate: well-behaved clients have a few in an hour. */
const RESETS_BURST = 200
const RESETS_PER_SECOND = 20
/** How long a client is suspect after exceeding that. */
const SUSPECT_MS = 10_000
/**
 * The resets allowed for each connection of a suspect client: enough for a page that is closed, or a program that ends.
 */
const SUSPECT_RESETS = 4
const MAX_CLIENTS = 16_384

export class RapidResets {
  readonly #options: RapidResetsOptions
  readonly #allowances: TokenBuckets
  /** The time until which each client is suspect. */
  readonly #suspects = recentEntries<string, number>(MAX_CLIENTS)

  constructor(options: RapidResetsOptions) {
    this.#options = options
    this.#allowances = new TokenBuckets(options.clock, MAX_CLIENTS)
  }

  /**
   * Counts a reset request.
   *
   * @param identity the identity of the connection; null before authentication.
   * @param ofConnection the number of requests that the connection has reset, including this one. @returns whether the
   * connection must end.
   */
  count(address: string, identity: string | null, ofConnection: number): boolean {
    if (this.#options.proxies.has(address)) return false
    const client = identity === null ? networkOf(address) : `user ${identity}`
    this.countOf(client, 1)
    this.#options.onCounted?.(client, 1)
    if (ofConnection <= SUSPECT_RESETS || !this.#isSuspect(client)) return false
    this.#options.onRejected()
    return true
  }

  /** Counts resets seen by another process. @param client a network, or an identity. */
  countOf(client: string, resets: number): void {
    const allowance = this.#allowances.filled(client, { perSecond: RESETS_PER_SECOND, burst: RESETS_BURST })
    allowance.tokens = Math.max(0, allowance.tokens - resets)
    if (allowance.tokens >= 1 || this.#isSuspect(client)) return
    this.suspect(client)
    this.#options.onSuspected?.(client)
  }

  /** Makes a client suspect from now on. */
  suspect(client: string): void {
    this.#suspects.set(client, this.#options.clock.monotonic() + SUSPECT_MS)
  }

  #isSuspect(client: string): boolean {
    const untilMs = this.#suspects.get(client)
    if (untilMs === undefined) return false
    if (untilMs > this.#options.clock.monotonic()) return true
    this.#suspects.delete(client)
    return false
  }
}

/** The identity with which each HTTP/2 connection first authenticated; a connection shared by several keeps it. */
const identities = new WeakMap<object, string>()

/** Records the owner of a connection, so that it is not counted against its neighbours. */
export function noteIdentity(request: IncomingMessage, identity: string): void {
  const { stream } = request as { stream?: ServerHttp2Stream }
  const session = stream?.session
  if (session !== undefined && !identities.has(session)) identities.set(session, identity)
}

export function identityOfSession(session: object): string | null {
  return identities.get(session) ?? null
}
