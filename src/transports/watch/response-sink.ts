/**
 * A watch written through Node's response: HTTP/1.0 clients, pipelined requests, and HTTP/2, whose response has the same
 * methods. Slower than the socket itself, and always right.
 */
import type { ServerResponse } from 'node:http'
import type { WatcherSink } from '../../broadcast/cursor.js'
import { lingerAtMost } from './linger.js'
import { Sink } from './sink.js'

type Response = Pick<
  ServerResponse,
  'writableLength' | 'writableFinished' | 'destroyed' | 'destroy' | 'on' | 'once' | 'off'
> & {
  write(bytes: Buffer): boolean
  end(): unknown
}

export class ResponseSink extends Sink implements WatcherSink {
  readonly #response: Response

  constructor(response: Response) {
    super(response, response)
    this.#response = response
  }

  get pendingBytes(): number {
    return this.#response.writableLength
  }

  write(bytes: Buffer): boolean {
    return this.#response.write(bytes)
  }

  end(bytes: Buffer | null): void {
    this.detach()
    if (bytes !== null) this.#response.write(bytes)
    this.#response.end()
    lingerAtMost(this.#response)
  }

  destroy(): void {
    this.detach()
    this.#response.destroy()
  }
}
