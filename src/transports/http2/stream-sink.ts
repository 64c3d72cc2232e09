/**
 * A watch on one stream of HTTP/2, written past Node's compatibility response. Flow control is the stream's own: a
 * reader that takes nothing fills its window, then this, and no other stream of the connection.
 */
import { type ServerHttp2Stream, constants } from 'node:http2'
import { lingerAtMost } from '../linger.js'
import type { Cursor, WatcherSink } from '../../broadcast/cursor.js'

export class StreamSink implements WatcherSink {
  readonly #stream: ServerHttp2Stream
  #cursor: Cursor | null = null

  /** The headers must have been sent. */
  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream
  }

  attach(cursor: Cursor): void {
    this.#cursor = cursor
    this.#stream.on('drain', this.#onDrain)
    this.#stream.on('close', this.#onClose)
    if (this.#stream.destroyed) this.#onClose()
  }

  get pendingBytes(): number {
    return this.#stream.writableLength
  }

  write(bytes: Buffer): boolean {
    return this.#stream.write(bytes)
  }

  end(bytes: Buffer | null): void {
    this.#detach()
    if (bytes === null) this.#stream.end()
    else this.#stream.end(bytes)
    lingerAtMost(this.#stream)
  }

  destroy(): void {
    this.#detach()
    this.#stream.close(constants.NGHTTP2_CANCEL)
  }

  #detach(): void {
    this.#stream.off('drain', this.#onDrain)
    this.#stream.off('close', this.#onClose)
    this.#cursor = null
  }

  readonly #onDrain = (): void => this.#cursor?.drained()

  readonly #onClose = (): void => {
    const cursor = this.#cursor
    this.#detach()
    cursor?.closed()
  }
}
