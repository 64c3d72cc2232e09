/** The common part of all outputs: it tells the cursor when the stream can take more, and when it is gone. */
import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Cursor } from '../../../engine/broadcast/cursor.js'
import { type StreamHandle, type WriteOwner, writeTo } from './stream-handle.js'

interface Emitter {
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
}

export abstract class Output {
  readonly #stream: Emitter & { readonly destroyed: boolean }
  readonly #closing: Emitter
  #cursor: Cursor | null = null

  /**
   * @param stream emits `drain` when it can take more after it was full.
   * @param closing emits `close` when nothing can be written any more.
   */
  protected constructor(stream: Emitter & { readonly destroyed: boolean }, closing: Emitter) {
    this.#stream = stream
    this.#closing = closing
  }

  attach(cursor: Cursor): void {
    this.#cursor = cursor
    this.#stream.on('drain', this.drained)
    this.#closing.on('close', this.#onClose)
    if (this.#stream.destroyed) this.#onClose()
  }

  protected detach(): void {
    this.#stream.off('drain', this.drained)
    this.#closing.off('close', this.#onClose)
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
 * An output that writes to its stream as directly as possible. Bytes that have to wait are counted; from
 * `highWaterBytes` on the stream is full, until all of them are taken.
 */
export abstract class DirectOutput extends Output implements WriteOwner {
  #handle: StreamHandle | null = null
  #queuedBytes = 0
  #isFull = false

  /** The stream to write to if there is no handle. */
  protected abstract readonly stream: Socket | ServerHttp2Stream
  protected abstract get highWaterBytes(): number

  /** Also null while bytes wait in the stream: they have to leave first, so the slower path is used. */
  protected abstract findHandle(): StreamHandle | null

  override attach(cursor: Cursor): void {
    this.#handle = this.findHandle()
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
    if (this.#queuedBytes >= this.highWaterBytes) this.#isFull = true
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
