/**
 * The fast path of HTTP/1.1: after the headers, chunks already framed by the broadcast go straight to the socket, which
 * saves ServerResponse's work per write.
 *
 * The path has three conditions, which `canWriteToSocket` checks. First, this response owns the socket (`res.socket ===
 * req.socket`). Otherwise, with pipelined requests, an earlier response may still be in progress, and bytes would land
 * inside it. Second, the client speaks HTTP/1.1, because 1.0 has no chunks. Third, the socket reports when it is full.
 * All other responses use `ResponseOutput`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { isBun } from '../../../support/is-bun.js'
import { lingerAtMost } from '../exchange/linger.js'
import { DirectOutput } from './watch-output.js'

/** After this much silence the kernel begins to probe whether the peer is still there. */
const KEEPALIVE_MS = 30_000

/**
 * On Bun, the socket of a response takes everything and never reports that it is full, so a slow reader would fill the
 * memory.
 */
const reportsBackpressure = !isBun

export function canWriteToSocket(request: IncomingMessage, response: ServerResponse): boolean {
  return (
    reportsBackpressure &&
    request.httpVersion === '1.1' &&
    response.socket !== null &&
    response.socket === request.socket
  )
}

export class SocketOutput extends DirectOutput<Socket> implements WatchOutput {
  /** The headers (`Transfer-Encoding: chunked` among them) must have been flushed. */
  constructor(private readonly response: ServerResponse) {
    super(response.socket!, response)
    this.stream.setNoDelay(true)
    this.stream.setKeepAlive(true, KEEPALIVE_MS)
    this.stream.setTimeout(0)
  }

  /** The response decides whether its connection stays open. */
  override get carrier(): object {
    return this.response
  }

  end(bytes: Buffer | null): void {
    if (bytes !== null) this.write(bytes)
    // Node's own terminator keeps the connection reusable.
    this.response.end()
    lingerAtMost(this.response)
    this.detach()
  }

  destroy(): void {
    this.detach()
    this.stream.destroy()
  }
}
