/**
 * Keeps a connection to every NATS server, and constantly tracks which servers hear each other: each beat sends a few
 * bytes through every connection, which arrive at the connections to the servers that hear that one.
 */
import { randomUUID } from 'node:crypto'
import { backoffMs } from '../../support/backoff.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { Closable } from '../broker.js'
import { openView, REACH_SUBJECT, type ReachView, ServerReach } from './server-reach.js'

export interface WatchView extends ReachView {
  readonly isConnected: boolean
}

export interface ServerWatchOptions<View extends WatchView> {
  /** Returns the addresses of the servers to watch now; several may belong to the same server. */
  readonly addresses: () => readonly string[]
  /** Connects to one server, once. @throws BrokerError */
  readonly connectTo: (address: string) => Promise<View>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** The interval at which to call `beat`. */
export const BEAT_MS = 250
/** Shorter than servers take to miss each other, and longer than a beat is late on a slow link. */
const HEARD_FOR_MS = 1_250
/** If no connection has heard any of this many beats, this user lacks permission for the subject. */
const FORBIDDEN_BEATS = 40
/** A permission may be granted later. */
const FORBIDDEN_FOR_MS = 5 * 60_000
/** A server that is back must be watched soon, because the next fault may follow. */
const OPEN_AGAIN = { firstMs: 1_000, capMs: 5_000 }

interface Watched<View> {
  readonly view: View
  readonly server: string
  readonly subscription: Closable
  readonly sinceMs: number
  /** When each server was last heard, by name. */
  readonly heardMs: Map<string, number>
  /** The number of beats sent. */
  beats: number
}

interface Address {
  /** The server to which it last led; null if it has led nowhere yet. */
  server: string | null
  failures: number
  nextMs: number
}

export class ServerWatch<View extends WatchView> {
  readonly #options: ServerWatchOptions<View>
  readonly #subject = `${REACH_SUBJECT}.${randomUUID()}`
  readonly #addresses = new Map<string, Address>()
  readonly #watched = new Map<string, Watched<View>>()
  readonly #opening = new Set<Promise<void>>()
  #isForbidden = false
  #pausedUntilMs = 0
  #isOver = false

  constructor(options: ServerWatchOptions<View>) {
    this.#options = options
  }

  /** The connections, one per available server. */
  get views(): readonly View[] {
    return [...this.#watched.values()].map(({ view }) => view)
  }

  /** Sends a beat through every connection. @returns what was heard so far; nothing while a connection is new. */
  beat(): ServerReach {
    const nowMs = this.#options.clock.monotonic()
    if (!this.#isOver) this.#keepOpen(nowMs)
    const watched = [...this.#watched.values()]
    for (const one of watched) {
      one.beats++
      one.view.publish(this.#subject, Buffer.from(one.server, 'utf8'))
    }
    const isKnown = watched.every(({ sinceMs }) => nowMs - sinceMs > HEARD_FOR_MS)
    const heard = watched.map(({ server, heardMs }) => {
      const names = [...heardMs].filter(([, atMs]) => nowMs - atMs <= HEARD_FOR_MS).map(([name]) => name)
      return [server, new Set(names)] as const
    })
    return new ServerReach(new Map(isKnown ? heard : []))
  }

  async close(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#opening)
    await Promise.all([...this.#watched.values()].map((one) => this.#drop(one)))
  }

  #keepOpen(nowMs: number): void {
    const watched = [...this.#watched.values()]
    const isForbidden =
      watched.length > 0 && watched.every(({ beats, heardMs }) => beats >= FORBIDDEN_BEATS && heardMs.size === 0)
    if (isForbidden) this.#forbidden(nowMs)
    for (const one of watched) if (isForbidden || !one.view.isConnected) void this.#drop(one)
    const addresses = this.#options.addresses()
    for (const known of this.#addresses.keys()) if (!addresses.includes(known)) this.#addresses.delete(known)
    for (const address of addresses) {
      const known = this.#addresses.get(address) ?? {
        server: null,
        failures: 0,
        nextMs: Math.max(nowMs, this.#pausedUntilMs),
      }
      this.#addresses.set(address, known)
      if ((known.server !== null && this.#watched.has(known.server)) || nowMs < known.nextMs) continue
      // Until the attempt has ended.
      known.nextMs = Number.POSITIVE_INFINITY
      const opening = this.#open(address, known).finally(() => this.#opening.delete(opening))
      this.#opening.add(opening)
    }
  }

  #forbidden(nowMs: number): void {
    this.#pausedUntilMs = nowMs + FORBIDDEN_FOR_MS
    for (const known of this.#addresses.values()) known.nextMs = this.#pausedUntilMs
    if (this.#isForbidden) return
    this.#isForbidden = true
    this.#options.logger.info(
      { subject: `${REACH_SUBJECT}.*` },
      'this NATS user may not use the subject; servers that lose each other are noticed late',
    )
  }

  async #open(address: string, known: Address): Promise<void> {
    const { connectTo, clock, random } = this.#options
    const view = await openView(address, connectTo, clock)
    const nowMs = clock.monotonic()
    if (view === null) {
      known.nextMs = nowMs + backoffMs(OPEN_AGAIN, ++known.failures, random)
      return
    }
    const server = view.serverName
    known.server = server
    known.failures = 0
    known.nextMs = nowMs + OPEN_AGAIN.firstMs
    if (this.#isOver || this.#watched.has(server)) return await view.close().catch(() => {})
    const heardMs = new Map<string, number>()
    const subscription = view.subscribe(this.#subject, (data) => {
      const from = data.toString('utf8')
      if (this.#watched.has(from)) heardMs.set(from, clock.monotonic())
    })
    this.#watched.set(server, { view, server, subscription, sinceMs: nowMs, heardMs, beats: 0 })
  }

  async #drop({ view, server, subscription }: Watched<View>): Promise<void> {
    this.#watched.delete(server)
    subscription.close()
    await view.close().catch(() => {})
  }
}
