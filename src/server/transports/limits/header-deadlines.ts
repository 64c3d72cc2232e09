/**
 * Enforces deadlines for HTTP/1.1 over TLS on Bun, which has none itself (docs/guide/runtimes.md). One deadline is for the
 * first complete request of a connection. After each response, another one is for the next request. Bytes that arrive
 * in the meantime do not extend a deadline.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export interface HeaderDeadlinesOptions {
  readonly firstMs: number
  readonly nextMs: number
  /**
   * Called for a connection whose first request is late. If a later request is late, the connection just ends, like an
   * idle one.
   */
  readonly onLate: (socket: Socket) => void
}

interface Connection {
  timer: NodeJS.Timeout | undefined
  /** The number of unanswered requests. */
  requests: number
}

export class HeaderDeadlines {
  readonly #connections = new WeakMap<Socket, Connection>()

  constructor(private readonly options: HeaderDeadlinesOptions) {}

  follow(socket: Socket): void {
    const { firstMs, onLate } = this.options
    const connection = { timer: setTimeout(() => onLate(socket), firstMs).unref(), requests: 0 }
    this.#connections.set(socket, connection)
    socket.once('close', () => clearTimeout(connection.timer))
  }

  wrap(handler: RequestListener): RequestListener {
    return (request, response) => {
      this.#begin(request, response)
      handler(request, response)
    }
  }

  #begin({ socket }: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    clearTimeout(connection.timer)
    connection.requests++
    response.once('close', () => {
      if (--connection.requests > 0 || socket.destroyed) return
      connection.timer = setTimeout(() => socket.destroy(), this.options.nextMs).unref()
    })
  }

  /** Ends the deadlines of an upgraded connection, which has no further requests. */
  forget({ socket }: IncomingMessage): void {
    clearTimeout(this.#connections.get(socket)?.timer)
    this.#connections.delete(socket)
  }
}
