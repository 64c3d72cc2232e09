/**
 * Moves the clients of one port elsewhere before the server ends. Over HTTP/2 it sends GOAWAY. Over HTTP/1.1 it sends
 * `Connection: close` with every response from the announcement on. Once the drain begins, it also closes the
 * connections of responses whose heads were sent before the announcement.
 *
 * Running streams and responses are not cut off, and a stopping server waits for them (`finished`). Without the drain, a
 * client whose watch has ended would retry on its open connection, get 503, and keep retrying there until the server
 * ends.
 */
import { type RequestListener, ServerResponse } from 'node:http'
import type { ServerHttp2Session } from 'node:http2'
import { mayEnd, type NodeResponse } from '../exchange/expect-no-end.js'
import { endConnectionWith } from '../exchange/last-response.js'

export class ConnectionDrain {
  /** Responses in progress, over HTTP/1.1 and HTTP/2. */
  readonly #responses = new Set<NodeResponse>()
  readonly #sessions = new Set<ServerHttp2Session>()
  #isAnnounced = false
  #hasStarted = false
  /** Called when a response or a session is over. */
  #onOver = (): void => {}

  /**
   * Ends every connection after its next response. This is enough to move a client that sends requests all the time,
   * and none of its requests hits a closing connection. A response whose head has already promised a reusable
   * connection is left alone, because the next response ends the connection.
   */
  announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    for (const response of this.#responses) if (response instanceof ServerResponse) endConnectionWith(response)
    for (const session of this.#sessions) session.close()
  }

  /** @param closeIdle closes the HTTP/1.1 connections without a request in progress. */
  begin(closeIdle: () => void): void {
    if (this.#hasStarted) return
    this.#hasStarted = true
    this.announce()
    for (const response of this.#responses) if (response instanceof ServerResponse) endConnectionAfter(response)
    closeIdle()
  }

  /** Resolves when all responses are over, except those that were passed to `expectNoEnd`. Call it after `begin`. */
  async finished(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onOver = () => {
        if (this.#isFinished) resolve()
      }
      this.#onOver()
    })
  }

  /** A stream is over when the session has taken its last bytes, so wait until the session has sent them and closed. */
  get #isFinished(): boolean {
    const running = [...this.#responses]
    if (running.some(mayEnd)) return false
    const kept = new Set(running.map((response) => 'stream' in response && response.stream.session))
    return [...this.#sessions].every((session) => kept.has(session))
  }

  follow(session: ServerHttp2Session): void {
    this.#sessions.add(session)
    session.once('close', () => {
      this.#sessions.delete(session)
      this.#onOver()
    })
    // A session that opens during the drain still gets one response, so that the server does not look dead to a probe.
    session.once('stream', () => this.#isAnnounced && session.close())
  }

  wrap(handler: RequestListener): RequestListener {
    return (request, response) => {
      if (this.#isAnnounced && response instanceof ServerResponse) endConnectionWith(response)
      this.#responses.add(response)
      response.once('close', () => {
        this.#responses.delete(response)
        this.#onOver()
      })
      handler(request, response)
    }
  }
}

function endConnectionAfter(response: ServerResponse): void {
  endConnectionWith(response)
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
