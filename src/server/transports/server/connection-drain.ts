/**
 * Moves the clients of one port elsewhere before the server ends. Over HTTP/2 it sends GOAWAY. Over HTTP/1.1 it sends
 * `Connection: close` with every response from the announcement on. Once the drain begins, it also closes the
 * connections of responses whose heads were sent before the announcement.
 *
 * Running streams and responses are not cut off. Without the drain, a client whose watch has ended would retry on its
 * open connection, get 503, and keep retrying there until the server ends.
 */
import { type IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import type { ServerHttp2Session } from 'node:http2'

export class ConnectionDrain {
  /** HTTP/1.1 responses in progress. */
  readonly #responses = new Set<ServerResponse>()
  readonly #sessions = new Set<ServerHttp2Session>()
  #isAnnounced = false
  #hasStarted = false

  /**
   * Ends every connection after its next response. This is enough to move a client that sends requests all the time,
   * and none of its requests hits a closing connection. A response whose head has already promised a reusable
   * connection is left alone, because the next response ends the connection.
   */
  announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    for (const response of this.#responses) response.shouldKeepAlive = false
    for (const session of this.#sessions) session.close()
  }

  /** @param closeIdle closes the HTTP/1.1 connections without a request in progress. */
  begin(closeIdle: () => void): void {
    if (this.#hasStarted) return
    this.#hasStarted = true
    this.announce()
    for (const response of this.#responses) endConnectionAfter(response)
    closeIdle()
  }

  follow(session: ServerHttp2Session): void {
    this.#sessions.add(session)
    session.once('close', () => this.#sessions.delete(session))
    // A session that opens during the drain still gets one response, so that the server does not look dead to a probe.
    session.once('stream', () => this.#isAnnounced && session.close())
  }

  wrap(handler: RequestListener): RequestListener {
    return (request: IncomingMessage, response) => {
      if (request.httpVersionMajor < 2) this.#track(response as ServerResponse)
      handler(request, response)
    }
  }

  #track(response: ServerResponse): void {
    if (this.#isAnnounced) response.shouldKeepAlive = false
    this.#responses.add(response)
    response.once('close', () => this.#responses.delete(response))
  }
}

function endConnectionAfter(response: ServerResponse): void {
  response.shouldKeepAlive = false
  if (!response.headersSent) return
  const { socket } = response
  // The head already promised a reusable connection, so close it after the last byte.
  response.once('finish', () => socket?.end())
}

/**
 * Lets a connection take no further request. It ends with what is running on it.
 *
 * @param carrier an HTTP/2 session, or an HTTP/1.1 response that is alone on its connection. Other connections, such as
 * that of a WebSocket, take no further request anyway.
 */
export function leaveConnection(carrier: object): void {
  if (carrier instanceof ServerResponse) endConnectionAfter(carrier)
  else if ('goaway' in carrier) (carrier as ServerHttp2Session).close()
}
