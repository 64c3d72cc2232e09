/**
 * Sends the clients of one port elsewhere, when the server is about to end: HTTP/2 by GOAWAY, HTTP/1.1 by `Connection: close`
 * on every answer from then on and by an end of the connection behind those whose heads are out already.
 *
 * What runs is not cut: streams and answers come to their own ends. Without this a client whose watch has ended asks again on
 * the connection it has, is told 503, and asks again there, for as long as the server drains.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { ServerHttp2Session } from 'node:http2'

export class ConnectionDrain {
  /** Of HTTP/1.1, under way. */
  readonly #answers = new Set<ServerResponse>()
  readonly #sessions = new Set<ServerHttp2Session>()
  #isSaid = false

  /** @param closeIdle ends the connections of HTTP/1.1 on which nothing is under way. */
  say(closeIdle: () => void): void {
    if (this.#isSaid) return
    this.#isSaid = true
    for (const answer of this.#answers) endConnectionAfter(answer)
    for (const session of this.#sessions) session.close()
    closeIdle()
  }

  follow(session: ServerHttp2Session): void {
    this.#sessions.add(session)
    session.once('close', () => this.#sessions.delete(session))
    // Who comes now is answered once: a probe that found no server at all would be told something else.
    session.once('stream', () => this.#isSaid && session.close())
  }

  wrap(handler: RequestListener): RequestListener {
    return (request: IncomingMessage, response) => {
      if (request.httpVersionMajor < 2) this.#answering(response as ServerResponse)
      handler(request, response)
    }
  }

  #answering(response: ServerResponse): void {
    if (this.#isSaid) return endConnectionAfter(response)
    this.#answers.add(response)
    response.once('close', () => this.#answers.delete(response))
  }
}

function endConnectionAfter(response: ServerResponse): void {
  response.shouldKeepAlive = false
  if (!response.headersSent) return
  const { socket } = response
  // Its head promised a connection to use again: the end comes behind its last byte.
  response.once('finish', () => socket?.end())
}
