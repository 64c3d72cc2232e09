/**
 * Reads a client's HTTP/2 connections in turns while its streams have to wait. In one iteration of the event loop, Node
 * reads every connection that is ready, and creates a stream for each header block. Without turns, 4,000 requests on 40
 * connections delayed all clients by 50 ms before any of these requests could be made to wait.
 *
 * Once an iteration has spent its time on such streams, the client's other connections are held until the next
 * iteration. A connection that has been read comes after the client's other connections in the next round. Unread bytes
 * stay in the kernel, which slows down the sender. A held connection only waits for later iterations, never for another
 * connection to do something.
 *
 * No Node from 20 to 26 has a public API for this, because its session reads from the socket's handle in C++.
 */
import type { ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import { heldSockets } from './notice-departure.js'
import { LoopSlice } from '../../../support/turns.js'
import { SESSION_READ_MS } from '../../limits/fixed-limits.js'

/** The number of a client's held connections that continue in each iteration. Holding a connection costs 2 µs. */
const AT_ONCE = 256

interface Handle {
  readStop(): number
  readStart(): number
  /** The bytes that the kernel has not taken yet. Once it has taken them, Node's session resumes reading by itself. */
  readonly writeQueueSize: number
}

interface Connection {
  readonly of: Client
  readonly socket: Socket
  /** Whether the connection has opened streams in this round. */
  hasRead: boolean
}

interface Client {
  readonly reading: Set<Connection>
  /** To be read in this round. */
  readonly held: Set<Connection>
  /** To be read in the next round. */
  readonly later: Set<Connection>
}

export class SessionReads {
  readonly #clients = new Map<string, Client>()
  readonly #connections = new WeakMap<ServerHttp2Session, Connection>()
  /** The clients of held connections. */
  readonly #waiting = new Set<Client>()
  readonly #continue = (): void => {
    for (const client of this.#waiting) {
      if (resumeSome(client)) this.#waiting.delete(client)
    }
    if (this.#waiting.size > 0) setImmediate(this.#continue)
  }

  constructor(private readonly slice: { readonly isOver: boolean } = new LoopSlice(SESSION_READ_MS)) {}

  /** @param client the client whose connections take turns. */
  follow(session: ServerHttp2Session, client: string): void {
    // `session.socket` is a proxy, but its `once` returns the socket itself.
    const socket: Socket = session.socket.once('close', () => end())
    const of = this.#clients.get(client) ?? { reading: new Set(), held: new Set(), later: new Set() }
    this.#clients.set(client, of)
    const { reading, held, later } = of
    // A new connection counts as already read, so that it does not get ahead of waiting ones.
    const connection = { of, socket, hasRead: true }
    reading.add(connection)
    this.#connections.set(session, connection)
    const end = (): void => {
      for (const one of [reading, held, later]) one.delete(connection)
      if (reading.size + held.size + later.size === 0) this.#clients.delete(client)
    }
  }

  /** Call this for each stream that has to wait. */
  streamWaits(session: ServerHttp2Session): void {
    const connection = this.#connections.get(session)
    if (connection === undefined) return
    connection.hasRead = true
    if (!this.slice.isOver) return
    const { of } = connection
    for (const one of of.reading) {
      handleOf(one)?.readStop?.()
      heldSockets.add(one.socket)
      const next = one.hasRead ? of.later : of.held
      next.add(one)
    }
    of.reading.clear()
    // Node's session resumes reading after a write, even if the connection was held.
    handleOf(connection)?.readStop?.()
    if (this.#waiting.size === 0) setImmediate(this.#continue)
    this.#waiting.add(of)
  }
}

function handleOf({ socket }: Connection): Partial<Handle> | null {
  return (socket as { readonly _handle?: Partial<Handle> | null })._handle ?? null
}

/** @returns whether no connection is held any longer. */
function resumeSome({ reading, held, later }: Client): boolean {
  if (held.size === 0) {
    for (const one of later) {
      one.hasRead = false
      held.add(one)
    }
    later.clear()
  }
  let left = AT_ONCE
  for (const one of held) {
    if (left-- === 0) break
    held.delete(one)
    reading.add(one)
    heldSockets.delete(one.socket)
    const handle = handleOf(one)
    if (handle?.writeQueueSize === 0) handle.readStart?.()
  }
  return held.size + later.size === 0
}
