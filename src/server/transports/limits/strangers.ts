/**
 * Limits the connections of clients that nobody knows yet, over all ports of this process: each costs memory (15 KB, or
 * some 90 KB over TLS) before there is any request that another limit could refuse. A connection is a stranger's until
 * one of its requests is authenticated; that of an anonymous client whose request was allowed is one only between
 * requests.
 *
 * Beyond the limit the network with the most of them (within a factor of two) loses its oldest, so an attacker loses
 * its own. Those whose requests have all been answered go first, such as thousands that were refused and stay open. While
 * even the oldest of the others is young, its newcomers are refused instead: when all clients reconnect at once, those
 * that came first are served first, and the others try again.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { networkOf } from '../../auth/client-address.js'
import type { Clock } from '../../../support/clock.js'

export interface StrangersOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  /** The memory that they may have, as estimated. */
  readonly maxBytes: number
  /** Called for each connection that is closed. */
  readonly onRejected: () => void
}

/** The estimated memory of a connection of which nothing has been read, as when thousands reconnect at once. */
const WAITING_BYTES = 24 * 1024
/** The estimated memory of any other: over TLS, with HTTP/2 or half of its headers (docs/limits.md). */
const CONNECTION_BYTES = 96 * 1024
/** The estimated memory of an open HTTP/2 stream, such as one whose answer is not read. */
const STREAM_BYTES = 16 * 1024
/** The age at which a connection is no longer one that is just being opened, on a server with much to do. */
const YOUNG_MS = 5_000

/** The strangers of one network, in each set the oldest first. */
interface Group {
  readonly network: string
  /** Those without an answered request. */
  readonly fresh: Set<Stranger>
  /** Those whose requests have all been answered. */
  readonly answered: Set<Stranger>
  bytes: number
}

interface Stranger {
  readonly socket: Socket
  readonly address: string
  readonly network: string
  /** Since when it has been waiting for a request. */
  sinceMs: number
  hasBegun: boolean
  /** One of its requests was allowed and answered, perhaps with a refusal for want of capacity. */
  isAnswered: boolean
  streams: number
  /** Its allowed requests that are not answered. */
  requests: number
  /** Where it counts now; null while it does not count. */
  group: Group | null
  isForgotten: boolean
}

/** By what carries requests: a socket, or the session of HTTP/2. */
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
    // It has left already.
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

  /** Counts the connection in full, because it is read from now on. */
  begin(socket: Socket): void {
    const stranger = carriers.get(socket)?.stranger
    if (stranger === undefined || stranger.hasBegun) return
    stranger.hasBegun = true
    if (stranger.group === null) return
    this.#weigh(stranger.group, CONNECTION_BYTES - WAITING_BYTES)
    this.#makeRoom(stranger)
  }

  /** Makes requests count that arrive over this TLS socket or HTTP/2 session, on the connection of `socket`. */
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

  /** Closes those that have waited for longer, since memory is running out. */
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

  /** The connection is no stranger's any more. */
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

  /** @param last the one that has just come or grown. */
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

/** The sockets of one connection, over TCP and over TLS, have the same. */
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
