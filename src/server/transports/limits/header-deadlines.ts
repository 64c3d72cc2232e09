/**
 * The deadlines of HTTP/1.1 over TLS on Bun, which has none of its own there (docs/runtimes.md): for the first complete
 * request of a connection, and after each response for the next one, whatever arrives in the meantime.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export interface HeaderDeadlinesOptions {
  readonly firstMs: number
  readonly nextMs: number
  /**
   * Called for a connection whose first request is late. A connection whose next request is late just ends, like an
   * idle one.
   */
  readonly onLate: (socket: Socket) => void
}

interface Connection {
  timer: NodeJS.Timeout | undefined
  /** Requests that are not answered. */
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

  /** An upgraded connection has no further request. */
  forget({ socket }: IncomingMessage): void {
    clearTimeout(this.#connections.get(socket)?.timer)
    this.#connections.delete(socket)
  }
}
