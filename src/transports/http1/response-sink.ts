/**
 * A watch written through Node's response: HTTP/1.0 clients, pipelined requests, and HTTP/2, whose response has the same
 * methods. Slower than the socket itself, and always right.
 */
import type { ServerResponse } from 'node:http'
import { lingerAtMost } from '../linger.js'
import type { Cursor, WatcherSink } from '../../broadcast/cursor.js'

type Response = Pick<
  ServerResponse,
  'writableLength' | 'writableFinished' | 'destroyed' | 'destroy' | 'on' | 'once' | 'off'
> & {
  write(bytes: Buffer): boolean
  end(): unknown
}

export class ResponseSink implements WatcherSink {
  readonly #response: Response
  #cursor: Cursor | null = null

  constructor(response: Response) {
    this.#response = response
  }

  attach(cursor: Cursor): void {
    this.#cursor = cursor
    this.#response.on('drain', this.#onDrain)
    this.#response.on('close', this.#onClose)
  }

  get pendingBytes(): number {
    return this.#response.writableLength
  }

  write(bytes: Buffer): boolean {
    return this.#response.write(bytes)
  }

  end(bytes: Buffer | null): void {
    this.#detach()
    if (bytes !== null) this.#response.write(bytes)
    this.#response.end()
    lingerAtMost(this.#response)
  }

  destroy(): void {
    this.#detach()
    this.#response.destroy()
  }

  #detach(): void {
    this.#response.off('drain', this.#onDrain)
    this.#response.off('close', this.#onClose)
    this.#cursor = null
  }

  readonly #onDrain = (): void => this.#cursor?.drained()

  readonly #onClose = (): void => {
    const cursor = this.#cursor
    this.#detach()
    cursor?.closed()
  }
}
