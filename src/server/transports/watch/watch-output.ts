/**
 * The common part of all outputs: it notifies the cursor when the stream can take more and when the stream has closed.
 */
import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Cursor } from '../../../engine/broadcast/cursor.js'
import { handleOf, isHttp2Stream, type StreamHandle, type WriteOwner, writeTo } from '../exchange/stream-handle.js'

interface Emitter {
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
}

/** A cursor, or whatever else writes to the output. */
export type Follower = Pick<Cursor, 'drained' | 'closed'>

export abstract class Output<Stream extends Emitter & { readonly destroyed: boolean }> {
  #cursor: Follower | null = null

  /**
   * @param stream emits `drain` when it can take more after it was full.
   * @param closing emits `close` when nothing can be written any more.
   */
  protected constructor(
    protected readonly stream: Stream,
    private readonly closing: Emitter,
  ) {}

  /** What belongs to this watch alone, unless a subclass shares its connection with others. */
  get carrier(): object {
    return this.stream
  }

  attach(cursor: Follower): void {
    this.#cursor = cursor
    this.stream.on('drain', this.drained)
    this.closing.on('close', this.#onClose)
    if (this.stream.destroyed) this.#onClose()
  }

  protected detach(): void {
    this.stream.off('drain', this.drained)
    this.closing.off('close', this.#onClose)
    this.#cursor = null
  }

  protected readonly drained = (): void => this.#cursor?.drained()

  readonly #onClose = (): void => {
    const cursor = this.#cursor
    this.detach()
    cursor?.closed()
  }
}

/**
 * The most bytes that may wait in an HTTP/2 session. The session sends all writes of an event loop turn at the end of
 * the turn, so some bytes always wait. A socket that does not take everything at once counts as full, because the
 * kernel's buffer is its queue.
 */
const HTTP2_HIGH_WATER_BYTES = 64 * 1024

/**
 * An output that writes to its stream as directly as possible. Bytes that have to wait are counted. When too many wait,
 * the stream counts as full until all of them are taken.
 */
export abstract class DirectOutput<Stream extends Socket | ServerHttp2Stream>
  extends Output<Stream>
  implements WriteOwner
{
  #handle: StreamHandle | null = null
  #queuedBytes = 0
  #isFull = false

  override attach(cursor: Follower): void {
    // The handle is null while bytes wait in the stream. Those bytes have to leave first, so the slower path is used.
    this.#handle = handleOf(this.stream)
    super.attach(cursor)
  }

  get pendingBytes(): number {
    return this.stream.writableLength + this.#queuedBytes
  }

  write(bytes: Buffer): boolean {
    if (this.#handle === null) return this.stream.write(bytes)
    const result = writeTo(this.#handle, bytes, this)
    if (result === 'taken') return true
    if (result === 'failed') {
      this.stream.destroy()
      return false
    }
    this.#queuedBytes += bytes.length
    if (!isHttp2Stream(this.stream) || this.#queuedBytes >= HTTP2_HIGH_WATER_BYTES) this.#isFull = true
    return !this.#isFull
  }

  taken(bytes: Buffer, status: number): void {
    this.#queuedBytes -= bytes.length
    if (status < 0) this.stream.destroy()
    else if (this.#isFull && this.#queuedBytes === 0) {
      this.#isFull = false
      this.drained()
    }
  }
}
