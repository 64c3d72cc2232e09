/**
 * Bounds the HTTP/2 requests that one address opens and gives up at once ("rapid reset"), over all of its connections. Such a
 * request costs the server its work and the client nothing, and the bound of a connection starts afresh with every new one.
 *
 * An address beyond the bound loses the connection on which it resets, and for a while its new connections are refused. Only
 * requests count that were given up young and unanswered: ending a watch, or giving up on a slow list, is normal.
 *
 * Addresses are kept in bounded tables. When there are more, the one that was silent longest starts with a full allowance again.
 */
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'
import { recentEntries } from '../../../support/recent-entries.js'

export interface RapidResetsOptions {
  readonly clock: Clock
  /** Addresses of proxies, which carry the requests of many clients: nothing is counted for them. */
  readonly proxies: { has(address: string): boolean }
  /** Called for each connection that is ended or refused. */
  readonly onRejected: () => void
  /** Called with resets that were counted here, so that another process may count them as well. */
  readonly onCounted?: (network: string, resets: number) => void
  /** Called when a network is refused from now on. */
  readonly onRefused?: (network: string) => void
}

/** A request that lives longer is bounded by the number of streams of a connection. */
export const RAPID_MS = 1_000
/** The resets that may come at once, and the sustained rate: clients that behave have a few in an hour. */
const RESETS_BURST = 200
const RESETS_PER_SECOND = 20
/** How long an address is refused: a well-behaved client behind the same address waits no longer. */
const REFUSED_MS = 10_000
const MAX_ADDRESSES = 16_384

interface Bucket {
  tokens: number
  atMs: number
}

export class RapidResets {
  readonly #options: RapidResetsOptions
  readonly #buckets = recentEntries<string, Bucket>(MAX_ADDRESSES)
  /** The time until which each network is refused. */
  readonly #refused = recentEntries<string, number>(MAX_ADDRESSES)

  constructor(options: RapidResetsOptions) {
    this.#options = options
  }

  /** Counts a request that was given up. @returns whether the address is refused, so that its connection has to end. */
  count(address: string): boolean {
    if (this.#options.proxies.has(address)) return false
    const network = networkOf(address)
    this.countOf(network, 1)
    this.#options.onCounted?.(network, 1)
    return this.#isRefused(network)
  }

  /** Counts resets that another process saw. */
  countOf(network: string, resets: number): void {
    const nowMs = this.#options.clock.monotonic()
    const bucket = this.#buckets.get(network) ?? { tokens: RESETS_BURST, atMs: nowMs }
    const refilled = bucket.tokens + ((nowMs - bucket.atMs) / 1_000) * RESETS_PER_SECOND
    bucket.tokens = Math.max(0, Math.min(RESETS_BURST, refilled) - resets)
    bucket.atMs = nowMs
    this.#buckets.set(network, bucket)
    if (bucket.tokens >= 1 || this.#isRefused(network)) return
    this.refuse(network)
    this.#options.onRefused?.(network)
  }

  /** Refuses the connections of a network from now on. */
  refuse(network: string): void {
    this.#refused.set(network, this.#options.clock.monotonic() + REFUSED_MS)
  }

  /** Whether a new connection has to be closed; counted as refused if so. */
  refuses(address: string): boolean {
    if (this.#refused.size === 0 || this.#options.proxies.has(address)) return false
    if (!this.#isRefused(networkOf(address))) return false
    this.#options.onRejected()
    return true
  }

  #isRefused(network: string): boolean {
    const untilMs = this.#refused.get(network)
    if (untilMs === undefined) return false
    if (untilMs > this.#options.clock.monotonic()) return true
    this.#refused.delete(network)
    return false
  }
}
