/**
 * The requests of a stream that wait while one is handled. The caller may not be known yet, so they are bounded by their
 * number and by their bytes.
 */
import { MAX_WAITING_REQUESTS, SMALL_REQUEST_BYTES } from './limits.js'

export class WaitingRequests {
  readonly #requests: Buffer[] = []
  #bytes = 0

  get length(): number {
    return this.#requests.length
  }

  /** Whether the client must pause. @param others requests that count as well. */
  isFull(others = 0): boolean {
    return this.#requests.length + others > MAX_WAITING_REQUESTS || this.#bytes > SMALL_REQUEST_BYTES
  }

  push(request: Buffer): void {
    this.#requests.push(request)
    this.#bytes += request.length
  }

  shift(): Buffer | undefined {
    const request = this.#requests.shift()
    this.#bytes -= request?.length ?? 0
    return request
  }

  clear(): void {
    this.#requests.length = 0
    this.#bytes = 0
  }
}
