/**
 * A watch on one stream of HTTP/2, written past Node's compatibility response. Flow control is the stream's own: a
 * reader that takes nothing fills its window, then this, and no other stream of the connection.
 */
import { type ServerHttp2Stream, constants } from 'node:http2'
import type { WatcherSink } from '../../broadcast/cursor.js'
import { lingerAtMost } from '../linger.js'
import { Sink } from '../sink.js'

export class StreamSink extends Sink implements WatcherSink {
  readonly #stream: ServerHttp2Stream

  /** The headers must have been sent. */
  constructor(stream: ServerHttp2Stream) {
    super(stream, stream)
    this.#stream = stream
  }

  get pendingBytes(): number {
    return this.#stream.writableLength
  }

  write(bytes: Buffer): boolean {
    return this.#stream.write(bytes)
  }

  end(bytes: Buffer | null): void {
    this.detach()
    if (bytes === null) this.#stream.end()
    else this.#stream.end(bytes)
    lingerAtMost(this.#stream)
  }

  destroy(): void {
    this.detach()
    this.#stream.close(constants.NGHTTP2_CANCEL)
  }
}
