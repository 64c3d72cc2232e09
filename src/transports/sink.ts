/** What the sinks of all wires share: their cursor is told when the stream can take more, and when it is gone. */
import type { Socket } from 'node:net'
import type { Cursor } from '../broadcast/cursor.js'
import { type StreamHandle, handleOf, writeTo } from './stream-handle.js'

interface Emitter {
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
}

export abstract class Sink {
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

/** A sink that owns its TCP connection and writes to it as directly as it can. */
export abstract class SocketOwner extends Sink {
  protected readonly socket: Socket
  #handle: StreamHandle | null = null
  #queuedBytes = 0

  protected constructor(socket: Socket, closing: Emitter) {
    super(socket, closing)
    this.socket = socket
  }

  override attach(cursor: Cursor): void {
    // What is still waiting in the socket has to leave first: such a connection stays with the slower way.
    this.#handle = handleOf(this.socket)
    super.attach(cursor)
  }

  get pendingBytes(): number {
    return this.socket.writableLength + this.#queuedBytes
  }

  protected writeSocket(bytes: Buffer): boolean {
    if (this.#handle === null) return this.socket.write(bytes)
    const result = writeTo(this.#handle, bytes, this.#onTaken)
    if (result === 'taken') return true
    if (result === 'queued') this.#queuedBytes += bytes.length
    else this.socket.destroy()
    return false
  }

  readonly #onTaken = (status: number): void => {
    this.#queuedBytes = 0
    if (status < 0) this.socket.destroy()
    else this.drained()
  }
}
