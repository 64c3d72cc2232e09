/**
 * Limits the connections that wait for a request, over all ports of this process: each costs memory (15 KB, or some
 * 90 KB over TLS), and no request lets another limit refuse it.
 *
 * Those of unknown clients ("strangers") have one share. A connection is a stranger until one of its requests is
 * authenticated; it then counts in the share of known clients. After a request was allowed, a connection counts only
 * while no request is in progress.
 *
 * When a share is exceeded, a network, or a user, that holds the most of that memory (within a factor of two) loses its
 * oldest connection, so attackers lose their own. Connections whose requests have all been answered go first; there
 * may be thousands that were refused and stay open. If even the oldest of the others is young, the newest one is closed
 * instead: when all clients reconnect at once, the first ones are served first, and the others try again.
 *
 * While memory is full, no connection waits for another request: each ends with its response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'
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
/** Below this age, a connection may still be in the process of being opened, on a busy server. */
const YOUNG_MS = 5_000

/** The connections of one network or user; each set has the oldest first. */
interface Group {
  readonly owner: string
  /** Those without an answered request. */
  readonly fresh: Set<Stranger>
  /** Those whose requests have all been answered. */
  readonly answered: Set<Stranger>
  bytes: number
}

interface Stranger {
  readonly socket: Socket
  readonly address: string
  /** Its network, or its user once that is known. */
  owner: string
  isKnown: boolean
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
    this.#unknown.enter(stranger)
  }

  /** Counts the connection in full from now on, because it is about to be read. */
  begin(socket: Socket): void {
    const stranger = carriers.get(socket)?.stranger
    if (stranger === undefined || stranger.hasBegun) return
    stranger.hasBegun = true
    if (stranger.group === null) return
    this.#unknown.grow(stranger, CONNECTION_BYTES - WAITING_BYTES)
  }

  /** Links a TLS socket or HTTP/2 session, over which requests arrive, to the connection of `socket`. */
  carry(carrier: object, socket: Socket): void {
    const stranger = this.#byAddress.get(addressOf(socket))
    if (stranger !== undefined) carriers.set(carrier, { strangers: this, stranger })
  }

  /** Counts streams of a session that were opened, or closed if negative. */
  countStreams(session: Http2Session, count: number): void {
    const stranger = carriers.get(session)?.stranger
    if (stranger === undefined) return
    stranger.streams += count
    if (!stranger.isKnown) {
      if (stranger.group !== null) this.#unknown.grow(stranger, count * STREAM_BYTES)
    } else if (count > 0) this.#known.leave(stranger)
    else this.#wait(stranger, session)
  }

  /** Closes strangers that have waited for longer than this, because memory is running out. */
  closeOlderThan(ms: number): void {
    this.#unknown.closeOlderThan(ms)
  }

  /** The connection does not count any more. */
  forget(stranger: Stranger): void {
    stranger.isForgotten = true
    if (this.#byAddress.get(stranger.address) === stranger) this.#byAddress.delete(stranger.address)
    carriers.delete(stranger.socket)
    this.#shareOf(stranger).leave(stranger)
  }

  /** The connection is this user's from now on. */
  know(stranger: Stranger, user: string): void {
    this.#shareOf(stranger).leave(stranger)
    stranger.isKnown = true
    stranger.owner = user
  }

  /** The connection does not count while this request is answered. */
  suspend(stranger: Stranger, request: IncomingMessage, response: ServerResponse): void {
    // A stream that has ended does not know its session.
    const carrier = carrierOf(request)
    stranger.requests++
    this.#shareOf(stranger).leave(stranger)
    if (this.#isFull) response.shouldKeepAlive = false
    response.once('close', () => {
      stranger.isAnswered = true
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

  /** @param close also takes the connection out. */
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
    let group = this.#groups.get(owner)
    if (group === undefined) this.#groups.set(owner, (group = newGroup(owner)))
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
    if (group.fresh.size + group.answered.size === 0) this.#groups.delete(group.owner)
  }

  /** Counts more for one that is in here, or less. */
  grow(stranger: Stranger, bytes: number): void {
    this.#weigh(stranger.group!, bytes)
    if (bytes > 0) this.#makeRoom(stranger)
  }

  closeOlderThan(ms: number): void {
    const nowMs = this.#clock.monotonic()
    for (const { fresh, answered } of this.#groups.values()) {
      for (const members of [fresh, answered]) {
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

  /** @param last the one that has just arrived or grown. */
  #makeRoom(last: Stranger | null): void {
    while (this.#bytes > this.#maxBytes) {
      const group = this.#largest()
      this.#close(this.#leastMissed(group, last))
    }
  }

  #leastMissed({ fresh, answered }: Group, last: Stranger | null): Stranger {
    for (const stranger of answered) return stranger
    const [oldest] = fresh
    const isYoung = this.#clock.monotonic() - oldest!.sinceMs < YOUNG_MS
    return isYoung && last !== null && fresh.has(last) ? last : oldest!
  }

  /** Returns one of the largest groups: none has more than twice its bytes. */
  #largest(): Group {
    let size = this.#bySize.length - 1
    while ((this.#bySize[size]?.size ?? 0) === 0) size--
    return this.#bySize[size]!.values().next().value!
  }
}

function newGroup(owner: string): Group {
  return { owner, fresh: new Set(), answered: new Set(), bytes: 0 }
}

function membersOf({ fresh, answered }: Group, { isAnswered }: Stranger): Set<Stranger> {
  return isAnswered ? answered : fresh
}

function sizeOf({ bytes }: Group): number {
  return bytes === 0 ? 0 : Math.floor(Math.log2(bytes))
}

function bytesOf({ isKnown, hasBegun, streams }: Stranger): number {
  if (isKnown) return KNOWN_BYTES
  return (hasBegun ? CONNECTION_BYTES : WAITING_BYTES) + streams * STREAM_BYTES
}

/** The same for the TCP socket and the TLS socket of one connection. */
function addressOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}

/** Notes that a request was authenticated: other limits apply while it is in progress. */
export function noteKnown(request: IncomingMessage, response: ServerResponse, user: string): void {
  const found = carriers.get(carrierOf(request))
  if (found === undefined) return
  const { strangers, stranger } = found
  // The connection of a WebSocket outlives its response, and takes no other request.
  if (upgradeHead(request) !== undefined) return strangers.forget(stranger)
  if (!stranger.isKnown) strangers.know(stranger, user)
  strangers.suspend(stranger, request, response)
}

/** Notes that a request was allowed, which may be that of an anonymous client. */
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
