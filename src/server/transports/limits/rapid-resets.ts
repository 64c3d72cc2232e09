/**
 * Limits the HTTP/2 requests that a client opens and immediately resets ("rapid reset"), across all of its connections.
 * Such a request costs the server work and the client nothing. A limit per connection would not help, because it starts
 * over with every new connection.
 *
 * Resets count against the identity under which the connection has authenticated, or against its address before that. A
 * client that exceeds the limit is suspect for a while: each of its connections may reset a few more requests, and is
 * closed at the next reset. Thousands of clients may share an address, so no client is rejected for the resets of
 * others: those that finish their requests are not affected. Only young, unanswered requests count, because it is
 * normal to end a watch or to give up on a slow list.
 */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'
import { recentEntries } from '../../../support/recent-entries.js'
import { TokenBuckets } from '../../limits/token-buckets.js'
import { MAX_RESETTING_CLIENTS, RESETS_BURST, RESETS_PER_SECOND } from '../../limits/fixed-limits.js'

export interface RapidResetsOptions {
  readonly clock: Clock
  /** Addresses of proxies. Nothing is counted for them, because they carry the requests of many clients. */
  readonly proxies: { has(address: string): boolean }
  /** Called for each connection that is ended. */
  readonly onRejected: () => void
  /** Called with resets counted here, so that another process can also count them. */
  readonly onCounted?: (client: string, resets: number) => void
  /** Called when a client becomes suspect. */
  readonly onSuspected?: (client: string) => void
}

/** Requests that are reset later do not count, because the number of streams per connection limits them. */
export const RAPID_MS = 1_000
/** How long a client is suspect after exceeding that rate. */
const SUSPECT_MS = 10_000
/**
 * The resets allowed for each connection of a suspect client: enough for a page that is closed, or a program that ends.
 */
const SUSPECT_RESETS = 4

export class RapidResets {
  readonly #allowances: TokenBuckets
  /** The time until which each client is suspect. */
  readonly #suspects = recentEntries<string, number>(MAX_RESETTING_CLIENTS)

  constructor(private readonly options: RapidResetsOptions) {
    this.#allowances = new TokenBuckets(options.clock, MAX_RESETTING_CLIENTS)
  }

  /**
   * Counts a reset request.
   *
   * @param identity the identity of the connection; null before authentication.
   * @param ofConnection the number of requests that the connection has reset, including this one.
   * @returns whether the connection must end.
   */
  count(address: string, identity: string | null, ofConnection: number): boolean {
    if (this.options.proxies.has(address)) return false
    const client = identity === null ? networkOf(address) : `user ${identity}`
    this.countOf(client, 1)
    this.options.onCounted?.(client, 1)
    if (ofConnection <= SUSPECT_RESETS || !this.#isSuspect(client)) return false
    this.options.onRejected()
    return true
  }

  /** Counts resets seen by another process. @param client a network, or an identity. */
  countOf(client: string, resets: number): void {
    const allowance = this.#allowances.filled(client, { perSecond: RESETS_PER_SECOND, burst: RESETS_BURST })
    allowance.tokens = Math.max(0, allowance.tokens - resets)
    if (allowance.tokens >= 1 || this.#isSuspect(client)) return
    this.suspect(client)
    this.options.onSuspected?.(client)
  }

  /** Makes a client suspect from now on. */
  suspect(client: string): void {
    this.#suspects.set(client, this.options.clock.monotonic() + SUSPECT_MS)
  }

  #isSuspect(client: string): boolean {
    const untilMs = this.#suspects.get(client)
    if (untilMs === undefined) return false
    if (untilMs > this.options.clock.monotonic()) return true
    this.#suspects.delete(client)
    return false
  }
}

/**
 * The identity with which each HTTP/2 connection first authenticated; a connection shared by several identities keeps
 * the first.
 */
const identities = new WeakMap<object, string>()

/**
 * Records the identity that owns a connection, so that its resets do not count against other clients at the same
 * address.
 */
export function noteIdentity(request: IncomingMessage, identity: string): void {
  const { stream } = request as { stream?: ServerHttp2Stream }
  const session = stream?.session
  if (session !== undefined && !identities.has(session)) identities.set(session, identity)
}

export function identityOfSession(session: object): string | null {
  return identities.get(session) ?? null
}
