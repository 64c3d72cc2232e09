/**
 * A watch on one HTTP/2 stream, written past Node's compatibility response. Flow control is per stream: a reader that
 * takes nothing fills its window, then this output, but no other stream of the connection.
 */
import { type ServerHttp2Stream, constants } from 'node:http2'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { lingerAtMost } from './linger.js'
import { DirectOutput } from './output.js'
import { type StreamHandle, http2Handle } from './stream-handle.js'

/** The most bytes that may wait in the session. It sends all writes of a turn at its end, so some always wait. */
const HIGH_WATER_BYTES = 64 * 1024

export class StreamOutput extends DirectOutput implements WatchOutput {
  protected readonly stream: ServerHttp2Stream
  protected get highWaterBytes(): number {
    return HIGH_WATER_BYTES
  }

  /** The headers must have been sent. */
  constructor(stream: ServerHttp2Stream) {
    super(stream, stream)
    this.stream = stream
  }

  protected findHandle(): StreamHandle | null {
    return http2Handle(this.stream)
  }

  end(bytes: Buffer | null): void {
    this.detach()
    if (bytes === null) this.stream.end()
    else this.stream.end(bytes)
    lingerAtMost(this.stream)
  }

  destroy(): void {
    this.detach()
    this.stream.close(constants.NGHTTP2_CANCEL)
  }
}
