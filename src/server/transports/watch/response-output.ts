/**
 * Writes a watch through Node's response, for HTTP/1.0 clients and pipelined requests. This is slower than writing to
 * the socket, but always correct.
 */
import type { ServerResponse } from 'node:http'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { lingerAtMost } from '../exchange/linger.js'
import { Output } from './watch-output.js'

type Response = Pick<
  ServerResponse,
  'writableLength' | 'writableFinished' | 'destroyed' | 'destroy' | 'on' | 'once' | 'off'
> & {
  write(bytes: Buffer): boolean
  end(): unknown
}

export class ResponseOutput extends Output<Response> implements WatchOutput {
  constructor(response: Response) {
    super(response, response)
  }

  get pendingBytes(): number {
    return this.stream.writableLength
  }

  write(bytes: Buffer): boolean {
    return this.stream.write(bytes)
  }

  end(bytes: Buffer | null): void {
    this.detach()
    if (bytes !== null) this.stream.write(bytes)
    this.stream.end()
    lingerAtMost(this.stream)
  }

  destroy(): void {
    this.detach()
    this.stream.destroy()
  }
}
