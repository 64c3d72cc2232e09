/**
 * The fast path of HTTP/1.1: after the headers, chunks that the broadcast has framed already go straight to the socket,
 * past ServerResponse and its work per write.
 *
 * It holds only while this response owns the socket (`res.socket === req.socket`: with pipelined requests an earlier
 * answer may still be under way, and bytes would land inside it) and the client speaks HTTP/1.1 (1.0 has no chunks).
 * `canWriteToSocket` decides; everything else takes `ResponseSink`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { lingerAtMost } from '../linger.js'
import type { Cursor, WatcherSink } from '../../broadcast/cursor.js'

/** A dead peer behind a silent network is noticed by the kernel after this. */
const KEEPALIVE_MS = 30_000

export function canWriteToSocket(request: IncomingMessage, response: ServerResponse): boolean {
  return request.httpVersion === '1.1' && response.socket !== null && response.socket === request.socket
}

export class SocketSink implements WatcherSink {
  readonly #socket: Socket
  readonly #response: ServerResponse
  #cursor: Cursor | null = null

  /** The headers (`Transfer-Encoding: chunked` among them) must have been flushed. */
  constructor(response: ServerResponse) {
    this.#response = response
    this.#socket = response.socket!
    this.#socket.setNoDelay(true)
    this.#socket.setKeepAlive(true, KEEPALIVE_MS)
    this.#socket.setTimeout(0)
  }

  attach(cursor: Cursor): void {
    this.#cursor = cursor
    this.#socket.on('drain', this.#onDrain)
    this.#response.on('close', this.#onClose)
    if (this.#socket.destroyed) cursor.closed()
  }

  get pendingBytes(): number {
    return this.#socket.writableLength
  }

  write(bytes: Buffer): boolean {
    return this.#socket.write(bytes)
  }

  end(bytes: Buffer | null): void {
    if (bytes !== null) this.#socket.write(bytes)
    // Node's own terminator: the connection can be used again.
    this.#response.end()
    lingerAtMost(this.#response)
    this.#detach()
  }

  destroy(): void {
    this.#detach()
    this.#socket.destroy()
  }

  #detach(): void {
    this.#socket.off('drain', this.#onDrain)
    this.#response.off('close', this.#onClose)
    this.#cursor = null
  }

  readonly #onDrain = (): void => this.#cursor?.drained()

  readonly #onClose = (): void => {
    const cursor = this.#cursor
    this.#detach()
    cursor?.closed()
  }
}
