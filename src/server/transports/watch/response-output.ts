/**
 * Writes a watch through Node's response, for HTTP/1.0 clients and pipelined requests. Slower than writing to the
 * socket, but always correct.
 */
import type { ServerResponse } from 'node:http'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { lingerAtMost } from './linger.js'
import { Output } from './output.js'

type Response = Pick<
  ServerResponse,
  'writableLength' | 'writableFinished' | 'destroyed' | 'destroy' | 'on' | 'once' | 'off'
> & {
  write(bytes: Buffer): boolean
  end(): unknown
}

export class ResponseOutput extends Output implements WatchOutput {
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
