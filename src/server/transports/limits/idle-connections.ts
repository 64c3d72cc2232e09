/**
 * Limits the connections that wait for a request, across all ports of this process. Each of them costs memory (15 KB,
 * or about 90 KB over TLS) and has sent no request that another limit could reject.
 *
 * The connections of unknown clients have one share of the memory. A client is unknown until one request on the
 * connection is authenticated. The connection then counts in the share of known clients. After a request was allowed, a
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
import { upgradeHead } from '../exchange/upgrade-head.js'
import { endConnectionWith } from '../exchange/last-response.js'

export interface IdleConnectionsOptions {
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
/** The estimated memory of any other connection: over TLS, with HTTP/2 or with half of its headers (docs/reference/limits.md). */
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
  readonly fresh: Set<TrackedConnection>
  /** Connections whose requests have all been answered. */
  readonly served: Set<TrackedConnection>
  bytes: number
}

interface TrackedConnection {
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
const carriers = new WeakMap<
  object,
  { readonly idleConnections: IdleConnections; readonly connection: TrackedConnection }
>()

export class IdleConnections {
  readonly #unknown: Share
  /** The responses for which their connections are not counted. */
  readonly #suspending = new WeakSet<ServerResponse>()
  readonly #known: Share
  readonly #byAddress = new Map<string, TrackedConnection>()

  constructor(private readonly options: IdleConnectionsOptions) {
    const { clock, maxBytes } = options
    const close = (connection: TrackedConnection): void => this.#close(connection)
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
    const connection: TrackedConnection = {
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
    this.#byAddress.set(connection.address, connection)
    carriers.set(socket, { idleConnections: this, connection })
    socket.once('close', () => this.forget(connection))
    this.#unknown.enter(connection)
  }

  /** Counts the connection in full from now on, because it is about to be read. */
  begin(socket: Socket): void {
    const connection = carriers.get(socket)?.connection
    if (connection === undefined || connection.hasStarted) return
    connection.hasStarted = true
    if (connection.group === null) return
    this.#unknown.grow(connection, CONNECTION_BYTES - WAITING_BYTES)
  }

  /** Links a TLS socket or HTTP/2 session, over which requests arrive, to the connection of `socket`. */
  carry(carrier: object, socket: Socket): void {
    const connection = this.#byAddress.get(addressOf(socket))
    if (connection !== undefined) carriers.set(carrier, { idleConnections: this, connection })
  }

  /** Counts streams that a session has opened. A negative count means closed streams. */
  countStreams(session: Http2Session, count: number): void {
    const connection = carriers.get(session)?.connection
    if (connection === undefined) return
    connection.streams += count
    if (!connection.isKnown) {
      if (connection.group !== null) this.#unknown.grow(connection, count * STREAM_BYTES)
    } else if (count > 0) this.#known.leave(connection)
    else this.#wait(connection, session)
  }

  /** Closes unknown clients' connections that have waited for longer than `ms`, because memory is running out. */
  closeOlderThan(ms: number): void {
    this.#unknown.closeOlderThan(ms)
  }

  /** Stops counting the connection. */
  forget(connection: TrackedConnection): void {
    connection.isForgotten = true
    if (this.#byAddress.get(connection.address) === connection) this.#byAddress.delete(connection.address)
    carriers.delete(connection.socket)
    this.#shareOf(connection).leave(connection)
  }

  /** Counts the connection for this user from now on. */
  know(connection: TrackedConnection, user: string): void {
    this.#shareOf(connection).leave(connection)
    connection.isKnown = true
    connection.owner = user
  }

  /** Does not count the connection while this request is being answered. */
  suspend(connection: TrackedConnection, request: IncomingMessage, response: ServerResponse): void {
    // A stream of watches is authorized again for each of them.
    if (this.#suspending.has(response)) return
    this.#suspending.add(response)
    // Find the carrier now, because a stream that has ended no longer knows its session.
    const carrier = carrierOf(request)
    connection.requests++
    this.#shareOf(connection).leave(connection)
    if (this.#isFull) endConnectionWith(response)
    response.once('close', () => {
      connection.isServed = true
      connection.requests--
      this.#wait(connection, carrier)
    })
  }

  get #isFull(): boolean {
    return this.options.isFull?.() === true
  }

  /** Counts the connection again if nothing is in progress. */
  #wait(connection: TrackedConnection, carrier: Http2Session | Socket): void {
    const { isForgotten, isKnown, requests, streams, group } = connection
    if (isForgotten || requests > 0 || group !== null || (isKnown && streams > 0)) return
    // Over HTTP/1.1 the client may have sent its next request already, unless the response has announced the end.
    if (this.#isFull && 'goaway' in carrier) carrier.close()
    else this.#shareOf(connection).enter(connection)
  }

  #shareOf({ isKnown }: TrackedConnection): Share {
    return isKnown ? this.#known : this.#unknown
  }

  #close(connection: TrackedConnection): void {
    this.forget(connection)
    connection.socket.destroy()
    this.options.onRejected()
  }
}

/** Connections that share an amount of memory. */
class Share {
  readonly #groups = new Map<string, Group>()
  /** The groups by the logarithm of their bytes. */
  readonly #bySize: Set<Group>[] = []
  #bytes = 0

  /** @param close closes a connection and removes it from the share. */
  constructor(
    private readonly clock: Pick<Clock, 'monotonic'>,
    private maxBytes: number,
    private readonly close: (connection: TrackedConnection) => void,
  ) {}

  setMaxBytes(maxBytes: number): void {
    this.maxBytes = maxBytes
    this.#makeRoom(null)
  }

  enter(connection: TrackedConnection): void {
    const { owner } = connection
    const group = getOrMake(this.#groups, owner, newGroup)
    connection.sinceMs = this.clock.monotonic()
    connection.group = group
    membersOf(group, connection).add(connection)
    this.#weigh(group, bytesOf(connection))
    this.#makeRoom(connection)
  }

  leave(connection: TrackedConnection): void {
    const { group } = connection
    if (group === null) return
    connection.group = null
    membersOf(group, connection).delete(connection)
    this.#weigh(group, -bytesOf(connection))
    if (group.fresh.size + group.served.size === 0) this.#groups.delete(group.owner)
  }

  /** Counts more bytes, or fewer if negative, for a connection in the share. */
  grow(connection: TrackedConnection, bytes: number): void {
    this.#weigh(connection.group!, bytes)
    if (bytes > 0) this.#makeRoom(connection)
  }

  closeOlderThan(ms: number): void {
    const nowMs = this.clock.monotonic()
    for (const { fresh, served } of this.#groups.values()) {
      for (const members of [fresh, served]) {
        for (const connection of members) {
          if (nowMs - connection.sinceMs < ms) break
          this.close(connection)
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
  #makeRoom(last: TrackedConnection | null): void {
    while (this.#bytes > this.maxBytes) {
      const group = this.#largest()
      this.close(this.#leastMissed(group, last))
    }
  }

  #leastMissed({ fresh, served }: Group, last: TrackedConnection | null): TrackedConnection {
    for (const connection of served) return connection
    const [oldest] = fresh
    const isYoung = this.clock.monotonic() - oldest!.sinceMs < YOUNG_MS
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

function membersOf({ fresh, served }: Group, { isServed }: TrackedConnection): Set<TrackedConnection> {
  return isServed ? served : fresh
}

function sizeOf({ bytes }: Group): number {
  return bytes === 0 ? 0 : Math.floor(Math.log2(bytes))
}

function bytesOf({ isKnown, hasStarted, streams }: TrackedConnection): number {
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
  const { idleConnections, connection } = found
  // The connection of a WebSocket outlives its response, and takes no other request.
  if (upgradeHead(request) !== undefined) return idleConnections.forget(connection)
  if (!connection.isKnown) idleConnections.know(connection, user)
  idleConnections.suspend(connection, request, response)
}

/** Notes that a request was allowed. The client may be anonymous. */
export function noteAllowed(request: IncomingMessage, response: ServerResponse): void {
  const found = carriers.get(carrierOf(request))
  if (found === undefined || found.connection.isKnown || found.connection.isForgotten) return
  if (upgradeHead(request) !== undefined) return found.idleConnections.forget(found.connection)
  found.idleConnections.suspend(found.connection, request, response)
}

function carrierOf(request: IncomingMessage): Http2Session | Socket {
  return sessionOf(request) ?? request.socket
}

/** undefined over HTTP/1.1. */
function sessionOf(request: IncomingMessage): Http2Session | undefined {
  return (request as { stream?: ServerHttp2Stream }).stream?.session
}
