/**
 * Sends the clients of one port elsewhere when the server is about to end: over HTTP/2 by GOAWAY; over HTTP/1.1 by
 * `Connection: close` on every answer from then on, and, once the drain begins, by closing connections after answers whose heads
 * were out before.
 *
 * Running streams and responses are not cut. Without this, a client whose watch has ended would retry on its open connection, get 503,
 * and retry there for as long as the server drains.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { ServerHttp2Session } from 'node:http2'

export class ConnectionDrain {
  /** HTTP/1.1 answers under way. */
  readonly #answers = new Set<ServerResponse>()
  readonly #sessions = new Set<ServerHttp2Session>()
  #isAnnounced = false
  #hasBegun = false

  /**
   * Ends every connection after its next answer. A client that asks all the time is moved by this alone, so that none of its
   * requests meets a connection that is being closed. So an answer whose head is out already, and promised a connection to use
   * again, is left alone: the one after it says the opposite.
   */
  announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    for (const answer of this.#answers) answer.shouldKeepAlive = false
    for (const session of this.#sessions) session.close()
  }

  /** @param closeIdle closes the HTTP/1.1 connections on which nothing is under way. */
  begin(closeIdle: () => void): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    this.announce()
    for (const answer of this.#answers) endConnectionAfter(answer)
    closeIdle()
  }

  follow(session: ServerHttp2Session): void {
    this.#sessions.add(session)
    session.once('close', () => this.#sessions.delete(session))
    // A session that opens during the drain still gets one answer: a probe must not take it for a server that is not there.
    session.once('stream', () => this.#isAnnounced && session.close())
  }

  wrap(handler: RequestListener): RequestListener {
    return (request: IncomingMessage, response) => {
      if (request.httpVersionMajor < 2) this.#answering(response as ServerResponse)
      handler(request, response)
    }
  }

  #answering(response: ServerResponse): void {
    if (this.#isAnnounced) response.shouldKeepAlive = false
    this.#answers.add(response)
    response.once('close', () => this.#answers.delete(response))
  }
}

function endConnectionAfter(response: ServerResponse): void {
  response.shouldKeepAlive = false
  if (!response.headersSent) return
  const { socket } = response
  // The head already promised a connection to use again, so it is closed after the last byte.
  response.once('finish', () => socket?.end())
}
