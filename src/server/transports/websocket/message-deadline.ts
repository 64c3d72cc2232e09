/**
 * Limits how long a client may take for one message, and how many frames one read from the socket may contain. The
 * library keeps an incomplete message, and everything the socket read with it, until the message ends. It has no time
 * limit and does not report when a message begins, so this file follows the frames by their headers.
 */
import type { Clock, Timer } from '../../../support/clock.js'

export interface MessageDeadlineOptions {
  readonly clock: Clock
  /** The time limit from the first byte of a message to its last, in milliseconds. */
  readonly ms: number
  /** Called once, when a message takes longer. */
  readonly onLate: () => void
}

export class MessageDeadline {
  #timer: Timer | null = null
  /** The header of a frame, received in part. */
  readonly #header: number[] = []
  /** The remaining bytes of a frame's payload. */
  #left = 0
  /** Whether more frames of the message follow. Control frames may come between them. */
  #isFragmented = false

  constructor(private readonly options: MessageDeadlineOptions) {}

  /**
   * @param bytes the next bytes sent by the client.
   * @param mostFrames the number of frames that may begin in these bytes.
   * @returns false when more frames begin in them. The remaining bytes have then not been read, and the connection must
   * end.
   */
  read(bytes: Buffer, mostFrames: number): boolean {
    let frames = 0
    for (let at = 0; at < bytes.length;) {
      if (this.#left === 0) {
        if (this.#header.length === 0 && ++frames > mostFrames) return false
        this.#readHeader(bytes[at++]!)
      } else {
        const taken = Math.min(this.#left, bytes.length - at)
        this.#left -= taken
        at += taken
      }
      if (!this.#isUnfinished) this.stop()
    }
    const { clock, ms, onLate } = this.options
    if (this.#isUnfinished) this.#timer ??= clock.setTimer(ms, onLate)
    return true
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  get #isUnfinished(): boolean {
    return this.#isFragmented || this.#left > 0 || this.#header.length > 0
  }

  /** Source: RFC 6455, 5.2. */
  #readHeader(byte: number): void {
    const header = this.#header
    const length = header.push(byte)
    if (length < 2) return
    const [first, second] = [header[0]!, header[1]!]
    const short = second & 0x7f
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0
    const maskBytes = (second & 0x80) === 0 ? 0 : 4
    if (length < 2 + lengthBytes + maskBytes) return
    this.#left = lengthBytes === 0 ? short : header.slice(2, 2 + lengthBytes).reduce((sum, one) => sum * 256 + one, 0)
    const isControl = (first & 0x08) !== 0
    if (!isControl) this.#isFragmented = (first & 0x80) === 0
    header.length = 0
  }
}
