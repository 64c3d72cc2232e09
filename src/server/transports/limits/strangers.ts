/**
 * Limits the connections that wait for a request, across all ports of this process. Each of them costs memory (15 KB,
 * or about 90 KB over TLS) and has sent no request that another limit could reject.
 *
 * The connections of unknown clients ("strangers") have one share of the memory. A connection is a stranger until one
 * of its requests is authenticated. It then counts in the share of known clients. After a request was allowed, a
 * connection counts only while no request is in progress.
 *
 * When a share is exceeded, the network or user that holds the most of its memory (within a factor of two) loses its
 * oldest connection, so attackers lose their own connections. Connections whose requests have all been answered are
 * closed first, because thousands of rejected clients may keep theirs open. If even the oldest of the remaining
 * connections is young, the newest one is closed instead. So when all clients reconnect at once, the first ones are
 * served first, and the others try again.
 *
 * While memory is full, no connection waits for another request: each one ends with its response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'
import { getOrMake } from '../../../support/memo.js'
import { upgradeHead } from '../server/upgrade-head.js'

export interface StrangersOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  /** The limit on the estimated memory of each share. */
  readonly maxBytes: number
  /** Whether connections end with their responses. Default: never. */
  readonly isFull?: () => boolean
  /** Called for each connection that is closed. */
  readonly onRejected: () => void
}

/** The estimated memory of a connection from which nothing has been read, as when thousands reconnect at once. */
const WAITING_BYTES = 24 * 1024
/** The estimated memory of any other connection: over TLS, with HTTP/2 or with half of its headers (docs/limits.md). */
const CONNECTION_BYTES = 96 * 1024
/** The estimated memory of a known client's connection that waits for a request: over TLS, or with HTTP/2. */
const KNOWN_BYTES = 48 * 1024
/** The estimated memory of an open HTTP/2 stream, such as one whose response is not read. */
const STREAM_BYTES = 16 * 1024
/** On a busy server, a connection younger than this may still be opening. */
const YOUNG_MS = 5_000

/** The connections of one network or user. Each set is ordered from the oldest to the newest. */
interface Group {
  readonly owner: string
  /** Connections without an answered request. */
  readonly fresh: Set<Stranger>
  /** Connections whose requests have all been answered. */
  readonly served: Set<Stranger>
  bytes: number
}

interface Stranger {
  readonly socket: Socket
  readonly address: string
  /** The connection's network, or its user once the user is known. */
  owner: string
  isKnown: boolean
  /** When the connection began to wait for a request. */
  sinceMs: number
  hasStarted: boolean
  /**
   * Whether a request on the connection was allowed and answered, even if only with the error that the server is at
   * capacity.
   */
  isServed: boolean
  streams: number
  /** The number of the connection's allowed requests in progress. */
  requests: number
  /** The group in which the connection counts now; null while it does not count. */
  group: Group | null
  isForgotten: boolean
}

/** Keyed by the carrier of the requests: a socket or an HTTP/2 session. */
const carriers = new WeakMap<object, { readonly strangers: Strangers; readonly stranger: Stranger }>()

export class Strangers {
  readonly #options: StrangersOptions
  readonly #unknown: Share
  readonly #known: Share
  readonly #byAddress = new Map<string, Stranger>()

  constructor(options: StrangersOptions) {
    const { clock, maxBytes } = options
    const close = (stranger: Stranger): void => this.#close(stranger)
    this.#options = options
    this.#unknown = new Share(clock, maxBytes, close)
    this.#known = new Share(clock, maxBytes, close)
  }

  setMaxBytes(maxBytes: number): void {
    this.#unknown.setMaxBytes(maxBytes)
    this.#known.setMaxBytes(maxBytes)
  }

  /** Counts an accepted connection. */
  add(socket: Socket): void {
    const { remoteAddress } = socket
    // The client has already left.
    if (remoteAddress === undefined) return
    const stranger: Stranger = {
      socket,
      address: addressOf(socket),
      owner: networkOf(remoteAddress),
      isKnown: false,
      sinceMs: 0,
      hasStarted: false,
      isServed: false,
      streams: 0,
      requests: 0,
      group: null,
      isForgotten: false,
    }
    this.#byAddress.set(stranger.address, stranger)
    carriers.set(socket, { strangers: this, stranger })
    socket.once('close', () => this.forget(stranger))
    this.#unknown.enter(stranger)
  }

  /** Counts the connection in full from now on, because it is about to be read. */
  begin(socket: Socket): void {
    const stranger = carriers.get(socket)?.stranger
    if (stranger === undefined || stranger.hasStarted) return
    stranger.hasStarted = true
    if (stranger.group === null) return
    this.#unknown.grow(stranger, CONNECTION_BYTES - WAITING_BYTES)
  }

  /** Links a TLS socket or HTTP/2 session, over which requests arrive, to the connection of `socket`. */
  carry(carrier: object, socket: Socket): void {
    const stranger = this.#byAddress.get(addressOf(socket))
    if (stranger !== undefined) carriers.set(carrier, { strangers: this, stranger })
  }

  /** Counts streams that a session has opened. A negative count means closed streams. */
  countStreams(session: Http2Session, count: number): void {
    const stranger = carriers.get(session)?.stranger
    if (stranger === undefined) return
    stranger.streams += count
    if (!stranger.isKnown) {
      if (stranger.group !== null) this.#unknown.grow(stranger, count * STREAM_BYTES)
    } else if (count > 0) this.#known.leave(stranger)
    else this.#wait(stranger, session)
  }

  /** Closes strangers that have waited for longer than `ms`, because memory is running out. */
  closeOlderThan(ms: number): void {
    this.#unknown.closeOlderThan(ms)
  }

  /** Stops counting the connection. */
  forget(stranger: Stranger): void {
    stranger.isForgotten = true
    if (this.#byAddress.get(stranger.address) === stranger) this.#byAddress.delete(stranger.address)
    carriers.delete(stranger.socket)
    this.#shareOf(stranger).leave(stranger)
  }

  /** Counts the connection for this user from now on. */
  know(stranger: Stranger, user: string): void {
    this.#shareOf(stranger).leave(stranger)
    stranger.isKnown = true
    stranger.owner = user
  }

  /** Does not count the connection while this request is being answered. */
  suspend(stranger: Stranger, request: IncomingMessage, response: ServerResponse): void {
    // Find the carrier now, because a stream that has ended no longer knows its session.
    const carrier = carrierOf(request)
    stranger.requests++
    this.#shareOf(stranger).leave(stranger)
    if (this.#isFull) response.shouldKeepAlive = false
    response.once('close', () => {
      stranger.isServed = true
      stranger.requests--
      this.#wait(stranger, carrier)
    })
  }

  get #isFull(): boolean {
    return this.#options.isFull?.() === true
  }

  /** Counts the connection again if nothing is in progress. */
  #wait(stranger: Stranger, carrier: Http2Session | Socket): void {
    const { isForgotten, isKnown, requests, streams, group } = stranger
    if (isForgotten || requests > 0 || group !== null || (isKnown && streams > 0)) return
    if (this.#isFull) end(carrier)
    else this.#shareOf(stranger).enter(stranger)
  }

  #shareOf({ isKnown }: Stranger): Share {
    return isKnown ? this.#known : this.#unknown
  }

  #close(stranger: Stranger): void {
    this.forget(stranger)
    stranger.socket.destroy()
    this.#options.onRejected()
  }
}

/** Connections that share an amount of memory. */
class Share {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #close: (stranger: Stranger) => void
  readonly #groups = new Map<string, Group>()
  /** The groups by the logarithm of their bytes. */
  readonly #bySize: Set<Group>[] = []
  #maxBytes: number
  #bytes = 0

  /** @param close closes a connection and removes it from the share. */
  constructor(clock: Pick<Clock, 'monotonic'>, maxBytes: number, close: (stranger: Stranger) => void) {
    this.#clock = clock
    this.#maxBytes = maxBytes
    this.#close = close
  }

  setMaxBytes(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.#makeRoom(null)
  }

  enter(stranger: Stranger): void {
    const { owner } = stranger
    const group = getOrMake(this.#groups, owner, newGroup)
    stranger.sinceMs = this.#clock.monotonic()
    stranger.group = group
    membersOf(group, stranger).add(stranger)
    this.#weigh(group, bytesOf(stranger))
    this.#makeRoom(stranger)
  }

  leave(stranger: Stranger): void {
    const { group } = stranger
    if (group === null) return
    stranger.group = null
    membersOf(group, stranger).delete(stranger)
    this.#weigh(group, -bytesOf(stranger))
    if (group.fresh.size + group.served.size === 0) this.#groups.delete(group.owner)
  }

  /** Counts more bytes, or fewer if negative, for a connection in the share. */
  grow(stranger: Stranger, bytes: number): void {
    this.#weigh(stranger.group!, bytes)
    if (bytes > 0) this.#makeRoom(stranger)
  }

  closeOlderThan(ms: number): void {
    const nowMs = this.#clock.monotonic()
    for (const { fresh, served } of this.#groups.values()) {
      for (const members of [fresh, served]) {
        for (const stranger of members) {
          if (nowMs - stranger.sinceMs < ms) break
          this.#close(stranger)
        }
      }
    }
  }

  #weigh(group: Group, bytes: number): void {
    this.#bySize[sizeOf(group)]?.delete(group)
    group.bytes += bytes
    this.#bytes += bytes
    if (group.bytes > 0) (this.#bySize[sizeOf(group)] ??= new Set()).add(group)
  }

  /** @param last the connection that has just arrived or grown. */
  #makeRoom(last: Stranger | null): void {
    while (this.#bytes > this.#maxBytes) {
      const group = this.#largest()
      this.#close(this.#leastMissed(group, last))
    }
  }

  #leastMissed({ fresh, served }: Group, last: Stranger | null): Stranger {
    for (const stranger of served) return stranger
    const [oldest] = fresh
    const isYoung = this.#clock.monotonic() - oldest!.sinceMs < YOUNG_MS
    return isYoung && last !== null && fresh.has(last) ? last : oldest!
  }

  /** Returns one of the largest groups: no other group has more than twice its bytes. */
  #largest(): Group {
    let size = this.#bySize.length - 1
    while ((this.#bySize[size]?.size ?? 0) === 0) size--
    return this.#bySize[size]!.values().next().value!
  }
}

function newGroup(owner: string): Group {
  return { owner, fresh: new Set(), served: new Set(), bytes: 0 }
}

function membersOf({ fresh, served }: Group, { isServed }: Stranger): Set<Stranger> {
  return isServed ? served : fresh
}

function sizeOf({ bytes }: Group): number {
  return bytes === 0 ? 0 : Math.floor(Math.log2(bytes))
}

function bytesOf({ isKnown, hasStarted, streams }: Stranger): number {
  if (isKnown) return KNOWN_BYTES
  return (hasStarted ? CONNECTION_BYTES : WAITING_BYTES) + streams * STREAM_BYTES
}

/** Returns the same text for the TCP socket and the TLS socket of one connection. */
function addressOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}

/** Notes that a request was authenticated. Other limits apply to it while it is in progress. */
export function noteKnown(request: IncomingMessage, response: ServerResponse, user: string): void {
  const found = carriers.get(carrierOf(request))
  if (found === undefined) return
  const { strangers, stranger } = found
  // The connection of a WebSocket outlives its response, and takes no other request.
  if (upgradeHead(request) !== undefined) return strangers.forget(stranger)
  if (!stranger.isKnown) strangers.know(stranger, user)
  strangers.suspend(stranger, request, response)
}

/** Notes that a request was allowed. The client may be anonymous. */
export function noteAllowed(request: IncomingMessage, response: ServerResponse): void {
  const found = carriers.get(carrierOf(request))
  if (found === undefined || found.stranger.isKnown || found.stranger.isForgotten) return
  if (upgradeHead(request) !== undefined) return found.strangers.forget(found.stranger)
  found.strangers.suspend(found.stranger, request, response)
}

function end(carrier: Http2Session | Socket): void {
  if ('destroySoon' in carrier) carrier.destroySoon()
  else carrier.close()
}

function carrierOf(request: IncomingMessage): Http2Session | Socket {
  return sessionOf(request) ?? request.socket
}

/** undefined over HTTP/1.1. */
function sessionOf(request: IncomingMessage): Http2Session | undefined {
  return (request as { stream?: ServerHttp2Stream }).stream?.session
}
