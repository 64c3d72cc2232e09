/**
 * Writes a watch directly to one HTTP/2 stream, bypassing Node's compatibility response. Flow control is per stream: a
 * reader that takes nothing fills its window, then this output, but no other stream of the connection.
 */
import type { ServerHttp2Stream } from 'node:http2'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { LINGER_MS } from '../../limits/fixed-limits.js'
import { lingerAtMost, resetStream } from '../exchange/linger.js'
import { DirectOutput } from './watch-output.js'

export class StreamOutput extends DirectOutput<ServerHttp2Stream> implements WatchOutput {
  /** The headers must have been sent. */
  constructor(stream: ServerHttp2Stream) {
    super(stream, stream)
  }

  override get carrier(): object {
    return this.stream.session ?? this.stream
  }

  end(bytes: Buffer | null): void {
    this.detach()
    if (bytes === null) this.stream.end()
    else this.stream.end(bytes)
    lingerAtMost(this.stream, LINGER_MS, () => resetStream(this.stream))
  }

  destroy(): void {
    this.detach()
    resetStream(this.stream)
  }
}
