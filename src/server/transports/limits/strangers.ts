/**
 * Limits the connections of unknown clients ("strangers"), over all ports of this process: each costs memory (15 KB, or
 * some 90 KB over TLS) before there is any request that another limit could refuse. A connection is a stranger until
 * one of its requests is authenticated. After an anonymous request was allowed, the connection counts as a stranger
 * only while no request is in progress.
 *
 * When the limit is exceeded, a network that holds the most of that memory (within a factor of two) loses its oldest
 * stranger, so attackers lose their own connections. Connections whose requests have all been answered go first; there
 * may be thousands that were refused and stay open. If even the oldest of the others is young, the newest one is closed
 * instead: when all clients reconnect at once, the first ones are served first, and the others try again.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'

export interface StrangersOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  /** The limit on the estimated memory of all strangers. */
  readonly maxBytes: number
  /** Called for each connection that is closed. */
  readonly onRejected: () => void
}

/** The estimated memory of a connection from which nothing has been read, as when thousands reconnect at once. */
const WAITING_BYTES = 24 * 1024
/** The estimated memory of any other connection: over TLS, with HTTP/2 or with half of its headers (docs/limits.md). */
const CONNECTION_BYTES = 96 * 1024
/** The estimated memory of an open HTTP/2 stream, such as one whose response is not read. */
const STREAM_BYTES = 16 * 1024
/** Below this age, a connection may still be in the process of being opened, on a busy server. */
const YOUNG_MS = 5_000

/** The strangers of one network; each set has the oldest first. */
interface Group {
  readonly network: string
  /** Strangers without an answered request. */
  readonly fresh: Set<Stranger>
  /** Strangers whose requests have all been answered. */
  readonly answered: Set<Stranger>
  bytes: number
}

interface Stranger {
  readonly socket: Socket
  readonly address: string
  readonly network: string
  /** When it began to wait for a request. */
  sinceMs: number
  hasBegun: boolean
  /** One of its requests was allowed and answered, if only to say that the server is at capacity. */
  isAnswered: boolean
  streams: number
  /** The number of its allowed requests in progress. */
  requests: number
  /** The group in which it counts now; null while it does not count. */
  group: Group | null
  isForgotten: boolean
}

/** Keyed by what carries requests: a socket, or an HTTP/2 session. */
const carriers = new WeakMap<object, { readonly strangers: Strangers; readonly stranger: Stranger }>()

export class Strangers {
  readonly #options: StrangersOptions
  readonly #groups = new Map<string, Group>()
  /** The groups by the logarithm of their bytes. */
  readonly #bySize: Set<Group>[] = []
  readonly #byAddress = new Map<string, Stranger>()
  #maxBytes: number
  #bytes = 0

  constructor(options: StrangersOptions) {
    this.#options = options
    this.#maxBytes = options.maxBytes
  }

  setMaxBytes(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.#makeRoom(null)
  }

  /** Counts an accepted connection. */
  add(socket: Socket): void {
    const { remoteAddress } = socket
    // The client has already left.
    if (remoteAddress === undefined) return
    const stranger: Stranger = {
      socket,
      address: addressOf(socket),
      network: networkOf(remoteAddress),
      sinceMs: 0,
      hasBegun: false,
      isAnswered: false,
      streams: 0,
      requests: 0,
      group: null,
      isForgotten: false,
    }
    this.#byAddress.set(stranger.address, stranger)
    carriers.set(socket, { strangers: this, stranger })
    socket.once('close', () => this.forget(stranger))
    this.#enter(stranger)
  }

  /** Counts the connection in full from now on, because it is about to be read. */
  begin(socket: Socket): void {
    const stranger = carriers.get(socket)?.stranger
    if (stranger === undefined || stranger.hasBegun) return
    stranger.hasBegun = true
    if (stranger.group === null) return
    this.#weigh(stranger.group, CONNECTION_BYTES - WAITING_BYTES)
    this.#makeRoom(stranger)
  }

  /** Links a TLS socket or HTTP/2 session, over which requests arrive, to the connection of `socket`. */
  carry(carrier: object, socket: Socket): void {
    const stranger = this.#byAddress.get(addressOf(socket))
    if (stranger !== undefined) carriers.set(carrier, { strangers: this, stranger })
  }

  /** Counts streams of a session that were opened, or closed if negative. */
  countStreams(session: object, count: number): void {
    const stranger = carriers.get(session)?.stranger
    if (stranger === undefined) return
    stranger.streams += count
    if (stranger.group === null) return
    this.#weigh(stranger.group, count * STREAM_BYTES)
    if (count > 0) this.#makeRoom(stranger)
  }

  /** Closes strangers that have waited for longer than this, because memory is running out. */
  closeOlderThan(ms: number): void {
    const nowMs = this.#options.clock.monotonic()
    for (const { fresh, answered } of this.#groups.values()) {
      for (const members of [fresh, answered]) {
        for (const stranger of members) {
          if (nowMs - stranger.sinceMs < ms) break
          this.#close(stranger)
        }
      }
    }
  }

  /** The connection is no longer a stranger. */
  forget(stranger: Stranger): void {
    stranger.isForgotten = true
    if (this.#byAddress.get(stranger.address) === stranger) this.#byAddress.delete(stranger.address)
    carriers.delete(stranger.socket)
    this.#leave(stranger)
  }

  /** The connection does not count while this request is answered. */
  suspend(stranger: Stranger, response: ServerResponse): void {
    stranger.requests++
    this.#leave(stranger)
    response.once('close', () => {
      stranger.isAnswered = true
      if (--stranger.requests === 0 && !stranger.isForgotten) this.#enter(stranger)
    })
  }

  #enter(stranger: Stranger): void {
    const { network } = stranger
    let group = this.#groups.get(network)
    if (group === undefined) this.#groups.set(network, (group = newGroup(network)))
    stranger.sinceMs = this.#options.clock.monotonic()
    stranger.group = group
    membersOf(group, stranger).add(stranger)
    this.#weigh(group, bytesOf(stranger))
    this.#makeRoom(stranger)
  }

  #leave(stranger: Stranger): void {
    const { group } = stranger
    if (group === null) return
    stranger.group = null
    membersOf(group, stranger).delete(stranger)
    this.#weigh(group, -bytesOf(stranger))
    if (group.fresh.size + group.answered.size === 0) this.#groups.delete(group.network)
  }

  #weigh(group: Group, bytes: number): void {
    this.#bySize[sizeOf(group)]?.delete(group)
    group.bytes += bytes
    this.#bytes += bytes
    if (group.bytes > 0) (this.#bySize[sizeOf(group)] ??= new Set()).add(group)
  }

  /** @param last the stranger that has just arrived or grown. */
  #makeRoom(last: Stranger | null): void {
    while (this.#bytes > this.#maxBytes) {
      const group = this.#largest()
      this.#close(this.#leastMissed(group, last))
    }
  }

  #leastMissed({ fresh, answered }: Group, last: Stranger | null): Stranger {
    for (const stranger of answered) return stranger
    const [oldest] = fresh
    const isYoung = this.#options.clock.monotonic() - oldest!.sinceMs < YOUNG_MS
    return isYoung && last !== null && fresh.has(last) ? last : oldest!
  }

  /** Returns one of the largest groups: none has more than twice its bytes. */
  #largest(): Group {
    let size = this.#bySize.length - 1
    while ((this.#bySize[size]?.size ?? 0) === 0) size--
    return this.#bySize[size]!.values().next().value!
  }

  #close(stranger: Stranger): void {
    this.forget(stranger)
    stranger.socket.destroy()
    this.#options.onRejected()
  }
}

function newGroup(network: string): Group {
  return { network, fresh: new Set(), answered: new Set(), bytes: 0 }
}

function membersOf({ fresh, answered }: Group, { isAnswered }: Stranger): Set<Stranger> {
  return isAnswered ? answered : fresh
}

function sizeOf({ bytes }: Group): number {
  return bytes === 0 ? 0 : Math.floor(Math.log2(bytes))
}

function bytesOf({ hasBegun, streams }: Stranger): number {
  return (hasBegun ? CONNECTION_BYTES : WAITING_BYTES) + streams * STREAM_BYTES
}

/** The same for the TCP socket and the TLS socket of one connection. */
function addressOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}

/** Notes that a request was authenticated: its connection has an owner, whose other limits count. */
export function noteKnown(request: IncomingMessage): void {
  const carrier = carrierOf(request)
  const found = carriers.get(carrier)
  if (found === undefined) return
  found.strangers.forget(found.stranger)
  carriers.delete(carrier)
}

/** Notes that the request of an anonymous client was allowed. */
export function noteAllowed(request: IncomingMessage, response: ServerResponse): void {
  // The connection of a WebSocket outlives its response, and takes no other request.
  if (request.headers.upgrade !== undefined) return noteKnown(request)
  const found = carriers.get(carrierOf(request))
  found?.strangers.suspend(found.stranger, response)
}

function carrierOf(request: IncomingMessage): object {
  const { stream } = request as { stream?: ServerHttp2Stream }
  return stream?.session ?? request.socket
}
