/** The port to a watch's connection, which sends the head of the response and takes the frames. */
import type { Cursor, WatchOutput } from '../../../engine/broadcast/cursor.js'
import type { Compression, WireFormat } from '../../../engine/broadcast/wire-format.js'

/** A connection that has been answered with a 200 and now takes frames. */
export interface OpenStream {
  readonly wire: WireFormat
  readonly output: WatchOutput & { attach(cursor: Cursor): void }
}

export interface WatchTransport {
  /** Sends the head. @param compression used if the client accepts gzip and the transport can compress. */
  open(compression: Compression): OpenStream
  /** Called when a cursor has taken over, so that everything that belongs only to the request can be released. */
  started(): void
}
