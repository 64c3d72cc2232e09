/**
 * Writes a watch as one gzip stream to another output. It adds its own header and trailer to the compressed blocks that
 * the watch's group shares.
 */
import type { Cursor, WatchOutput } from '../../../engine/broadcast/cursor.js'
import { GZIP_HEADER, gzipTrailer } from '../../../engine/broadcast/gzip.js'
import { type Envelope, enclosed } from '../../../engine/broadcast/wire-format.js'
import { type Checksum, appendedCrc } from '../../../support/crc32.js'

export class GzipOutput implements WatchOutput {
  #crc = 0
  #length = 0

  /** @param envelope the wire's envelope, for the header and trailer, which are not shared. */
  constructor(
    private readonly inner: WatchOutput & { attach(cursor: Cursor): void },
    private readonly envelope: Envelope | null,
  ) {
    inner.write(Buffer.concat(enclosed(envelope, [GZIP_HEADER])), null)
  }

  attach(cursor: Cursor): void {
    this.inner.attach(cursor)
  }

  get carrier(): object | undefined {
    return this.inner.carrier
  }

  get pendingBytes(): number {
    return this.inner.pendingBytes
  }

  write(bytes: Buffer, checksum: Checksum | null): boolean {
    this.#add(checksum)
    return this.inner.write(bytes, null)
  }

  end(bytes: Buffer | null, error: Error | null, checksum: Checksum | null): void {
    this.#add(checksum)
    const trailer = enclosed(this.envelope, [gzipTrailer(this.#crc, this.#length)])
    this.inner.end(Buffer.concat(bytes === null ? trailer : [bytes, ...trailer]), error, null)
  }

  destroy(): void {
    this.inner.destroy()
  }

  #add(checksum: Checksum | null): void {
    if (checksum === null) return
    this.#crc = appendedCrc(this.#crc, checksum)
    this.#length += checksum.length
  }
}
