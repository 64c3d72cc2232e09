/**
 * Bounds the HTTP/2 requests that a client opens and gives up at once ("rapid reset"), over all of its connections. Such a
 * request costs the server its work and the client nothing, and the bound of a connection starts afresh with every new one.
 *
 * They are counted for the identity that its connection has authenticated as, and for the address before that. Beyond the bound the
 * client is suspect for a while: each of its connections may give up a few requests, and is ended at the next. Nobody is refused for
 * what others have done: thousands may share an address, and those who finish their requests notice nothing. Only requests count that
 * were given up young and unanswered: ending a watch, or giving up on a slow list, is normal.
 *
 * Clients are kept in bounded tables. When there are more, the one that was silent longest starts with a full allowance again.
 */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'
import { recentEntries } from '../../../support/recent-entries.js'

export interface RapidResetsOptions {
  readonly clock: Clock
  /** Addresses of proxies, which carry the requests of many clients: nothing is counted for them. */
  readonly proxies: { has(address: string): boolean }
  /** Called for each connection that is ended. */
  readonly onRejected: () => void
  /** Called with resets that were counted here, so that another process may count them as well. */
  readonly onCounted?: (client: string, resets: number) => void
  /** Called when a client is suspect from now on. */
  readonly onSuspected?: (client: string) => void
}

/** A request that lives longer is bounded by the number of streams of a connection. */
export const RAPID_MS = 1_000
/** The resets that may come at once, and the sustained rate: clients that behave have a few in an hour. */
const RESETS_BURST = 200
const RESETS_PER_SECOND = 20
/** How long a client is suspect after it has exceeded that. */
const SUSPECT_MS = 10_000
/** The requests that each connection of a suspect client may give up: those of a page that is left, or of a program that ends. */
const SUSPECT_RESETS = 4
const MAX_CLIENTS = 16_384

interface Bucket {
  tokens: number
  atMs: number
}

export class RapidResets {
  readonly #options: RapidResetsOptions
  readonly #buckets = recentEntries<string, Bucket>(MAX_CLIENTS)
  /** The time until which each client is suspect. */
  readonly #suspects = recentEntries<string, number>(MAX_CLIENTS)

  constructor(options: RapidResetsOptions) {
    this.#options = options
  }

  /**
   * Counts a request that was given up.
   *
   * @param identity whom its connection has authenticated as; null before that.
   * @param ofConnection the number of requests that its connection has given up, this one included.
   * @returns whether that connection has to end.
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

  /** Counts resets that another process saw. @param client a network, or an identity. */
  countOf(client: string, resets: number): void {
    const nowMs = this.#options.clock.monotonic()
    const bucket = this.#buckets.get(client) ?? { tokens: RESETS_BURST, atMs: nowMs }
    const refilled = bucket.tokens + ((nowMs - bucket.atMs) / 1_000) * RESETS_PER_SECOND
    bucket.tokens = Math.max(0, Math.min(RESETS_BURST, refilled) - resets)
    bucket.atMs = nowMs
    this.#buckets.set(client, bucket)
    if (bucket.tokens >= 1 || this.#isSuspect(client)) return
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

/** Whom HTTP/2 connections have authenticated as at first; those that carry the requests of several stay with it. */
const identities = new WeakMap<object, string>()

/** Notes whom a connection belongs to, so that it is not counted against its neighbours. */
export function noteIdentity(request: IncomingMessage, identity: string): void {
  const { stream } = request as { stream?: ServerHttp2Stream }
  const session = stream?.session
  if (session !== undefined && !identities.has(session)) identities.set(session, identity)
}

export function identityOfSession(session: object): string | null {
  return identities.get(session) ?? null
}
