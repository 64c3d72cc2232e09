/**
 * An exchange as the stream of a gRPC call: bytes in both directions, with trailers at the end. It writes to the HTTP/2
 * stream as directly as a watch does, and knows nothing of messages.
 */
import type { ServerHttp2Stream } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import type { Exchange } from '../exchange/exchange.js'
import { flushHead } from '../exchange/flush-head.js'
import { streamBody } from '../exchange/request-body.js'
import { StreamOutput } from '../watch/stream-output.js'

export interface GrpcStreamHandlers {
  onBytes(bytes: Buffer): void
  onEnd(): void
  onDrain(): void
  onClose(): void
}

const HEADERS = { 'content-type': 'application/grpc', 'grpc-accept-encoding': 'identity' }

export function isGrpc({ request, requestHeaders }: Exchange): boolean {
  return request.httpVersionMajor === 2 && /^application\/grpc\b/.test(requestHeaders['content-type'] ?? '')
}

export class GrpcStream {
  readonly path: string
  readonly authority: string
  readonly isSecure: boolean
  readonly connection: object
  readonly #exchange: Exchange
  readonly #stream: ServerHttp2Stream
  readonly #output: StreamOutput
  #handlers: GrpcStreamHandlers | null = null
  #hasBegun = false
  #isOver = false

  /** @param exchange of an HTTP/2 request. */
  constructor(exchange: Exchange) {
    const { stream } = exchange.response as unknown as { readonly stream: ServerHttp2Stream }
    this.#exchange = exchange
    this.#stream = stream
    this.#output = new StreamOutput(stream)
    this.path = exchange.path
    this.authority = String(exchange.requestHeaders[':authority'] ?? exchange.requestHeaders.host ?? '')
    this.isSecure = (stream.session?.socket as TLSSocket | undefined)?.encrypted === true
    this.connection = stream.session ?? stream
  }

  get signal(): AbortSignal {
    return this.#exchange.signal
  }

  get pendingBytes(): number {
    return this.#output.pendingBytes
  }

  header(name: string): string | undefined {
    const value = this.#exchange.requestHeaders[name]
    return typeof value === 'string' ? value : undefined
  }

  read(handlers: GrpcStreamHandlers): void {
    this.#handlers = handlers
    const stream = this.#stream
    if (stream.destroyed) return handlers.onClose()
    stream.on('data', (bytes: Buffer) => handlers.onBytes(bytes))
    stream.once('end', () => handlers.onEnd())
    stream.once('close', () => {
      this.#isOver = true
      handlers.onClose()
    })
    streamBody(this.#exchange.request)
  }

  pause(): void {
    this.#stream.pause()
  }

  resume(): void {
    this.#stream.resume()
  }

  begin(): void {
    if (this.#hasBegun || this.#isOver || this.#stream.destroyed) return
    this.#hasBegun = true
    this.#exchange.writeHead(200, HEADERS)
    flushHead(this.#exchange.response)
    this.#output.attach({
      drained: () => this.#handlers?.onDrain(),
      closed: () => {},
    })
  }

  write(bytes: Buffer): boolean {
    return this.#isOver || this.#stream.destroyed ? false : this.#output.write(bytes)
  }

  finish(trailers: Readonly<Record<string, string>>, httpStatus: number): void {
    if (this.#isOver || this.#stream.destroyed) return
    // Node cannot end a stream with its headers, and Go takes a status only from the frame that ends the stream.
    this.begin()
    this.#isOver = true
    this.#exchange.response.addTrailers(trailers)
    this.#output.end(null)
    // HTTP's status is always 200, but the access log is read by people.
    this.#exchange.statusCode = httpStatus
    // Whatever the client still sends has no meaning, but has to be taken from the connection.
    this.#stream.resume()
  }

  destroy(): void {
    this.#output.destroy()
  }
}
