/**
 * One etcd endpoint over gRPC, on Node's HTTP/2. @grpc/grpc-js costs about 40 µs more per event, and etcd does not need
 * most of its layers (name resolution, balancing, retries, filters).
 *
 * This module transports bytes: it takes encoded messages and returns whole messages as Buffers. Each endpoint has its
 * own connection, because we must choose the endpoint ourselves. A member that responds with `no leader`, or does not
 * respond at all, is still connected.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2'
import { keepWithStream } from '../../../support/keep-with-stream.js'
import { frameMessage, messageSplitter } from './grpc-framing.js'
import { type EtcdTls, GrpcConnection, type GrpcConnectionOptions } from './grpc-connection.js'
import {
  ConnectionLostError,
  RpcError,
  RpcStatus,
  statusOfHttp,
  statusOfReset,
  statusOfTrailers,
} from './rpc-status.js'

export interface GrpcEndpointOptions extends GrpcConnectionOptions {
  readonly maxReceivedBytes: number
}

export interface CallOptions {
  readonly metadata: Readonly<Record<string, string>>
  readonly timeoutMs: number
  /** Whether the call is safe to repeat at another endpoint. If so, `abandon` ends it. */
  readonly isRepeatable?: boolean
  readonly signal?: AbortSignal
}

export interface StreamHandlers {
  onMessage(message: Buffer): void
  /** Called once, with null if the server ended the stream without an error. Not called after `cancel`. */
  onEnd(error: RpcError | null): void
}

/**
 * A connection takes no more calls once a stream has this id. Each call takes two ids, ids are never reused, and they end
 * at 2^31, after twelve days of 1,000 calls a second.
 */
const LAST_STREAM_ID = 2 ** 30

/** The error of a call that `abandon` has ended. */
export class AbandonedError extends RpcError {
  constructor() {
    super(RpcStatus.CANCELLED, 'the endpoint has gone silent')
  }
}

export interface GrpcStream {
  send(message: Uint8Array): void
  /** Sends nothing more. */
  finish(): void
  /**
   * Stops reading until `resume`, so that the server has to wait. Data that has already been read still arrives:
   * messages in the same chunk, and the end of the stream.
   */
  pause(): void
  resume(): void
  cancel(): void
}

export class GrpcEndpoint {
  readonly url: string
  readonly #options: GrpcEndpointOptions
  #connection: GrpcConnection
  /** A connection with newer credentials. It takes over when it is ready, or when the current connection is lost. */
  #next: GrpcConnection | null = null
  /** The running calls, except `stream`s, and whether each can be repeated at another endpoint. */
  readonly #calls = new Map<GrpcStream, { readonly isRepeatable: boolean; readonly fail: (error: RpcError) => void }>()
  #receivedMessages = 0
  #isClosed = false

  constructor(options: GrpcEndpointOptions) {
    this.url = options.url
    const { protocol } = new URL(options.url)
    if (protocol !== 'http:' && protocol !== 'https:' && protocol !== 'unix:') {
      throw new TypeError(`endpoint ${options.url} must begin with http://, https:// or unix://`)
    }
    this.#options = options
    this.#connection = new GrpcConnection(options)
  }

  /** The number of messages received, of any kind. */
  get receivedMessages(): number {
    return this.#receivedMessages
  }

  /**
   * Uses other credentials for new calls. The connection with the old credentials stays in use until one with the new
   * credentials is ready, because credentials that the server does not accept must not break a working connection.
   * Running calls stay on the old connection, which closes after the last one.
   *
   * @returns why the server does not accept the new credentials, if the first attempt shows that while the old ones are
   * still in use; otherwise null.
   */
  async renew(tls: EtcdTls, timeoutMs: number): Promise<string | null> {
    if (!this.url.startsWith('https:') || this.#isClosed) return null
    const next = new GrpcConnection({ ...this.#options, tls }, true)
    this.#next?.retire()
    this.#next = next
    if (this.#current().ready === null || this.#next !== next) return null
    await next.connect(timeoutMs)
    if (this.#next !== next) return null
    // `#current` makes the new connection take over at once. If it stayed unused, it might be lost before the next
    // call.
    return this.#current() === next ? null : next.failure
  }

  #current(): GrpcConnection {
    const next = this.#next
    if (next !== null && (next.ready !== null || this.#connection.ready === null)) {
      this.#connection.retire()
      this.#connection = next
      this.#next = null
      next.takeOver()
    }
    return this.#connection
  }

  /** Whether the endpoint is connected. Only keepalive or a deadline detects a peer that has vanished silently. */
  isReady(): boolean {
    return this.#current().ready !== null
  }

  /** Returns text for messages: the URL and, if known, why the endpoint is not connected. */
  described(): string {
    const { failure } = this.#current()
    return failure === null ? this.url : `${this.url} (${failure})`
  }

  /**
   * Connects if necessary. Resolves to false as soon as an attempt has failed, the time is over or the signal aborts.
   * Further attempts are made in the background.
   */
  connect(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    return this.#isClosed ? Promise.resolve(false) : this.#current().connect(timeoutMs, signal)
  }

  /** Makes a call with one response, and connects first if necessary. @throws RpcError */
  async unary(path: string, request: Uint8Array, options: CallOptions): Promise<Buffer> {
    const { signal, metadata } = options
    const endMs = performance.now() + options.timeoutMs
    if (signal?.aborted) throw left()
    if (!this.isReady()) await this.connect(options.timeoutMs, signal)
    if (signal?.aborted) throw left()
    const timeoutMs = Math.max(1, Math.ceil(endMs - performance.now()))
    return await new Promise((resolve, reject) => {
      let response: Buffer | null = null
      const settle = (error: RpcError | null): void => {
        if (!this.#calls.delete(call)) return
        clearTimeout(deadline)
        signal?.removeEventListener('abort', abort)
        if (error !== null) reject(error)
        else if (response === null) reject(new RpcError(RpcStatus.INTERNAL, 'no answer and no error'))
        else resolve(response)
      }
      const fail = (error: RpcError): void => {
        settle(error)
        call.cancel()
      }
      const abort = (): void => fail(left())
      const headers = { ...metadata, 'grpc-timeout': `${timeoutMs}m` }
      const call = this.#open(path, headers, { onMessage: (message) => (response = message), onEnd: settle })
      const deadline = setTimeout(
        () => fail(new RpcError(RpcStatus.DEADLINE_EXCEEDED, `no answer within ${options.timeoutMs} ms`)),
        timeoutMs,
      )
      this.#calls.set(call, { isRepeatable: options.isRepeatable === true, fail })
      signal?.addEventListener('abort', abort, { once: true })
      call.send(request)
      call.finish()
    })
  }

  /** Opens a stream. If the endpoint is not ready, the stream ends at once as unavailable. */
  stream(path: string, metadata: Readonly<Record<string, string>>, handlers: StreamHandlers): GrpcStream {
    return this.#open(path, metadata, handlers)
  }

  /**
   * Like `stream`, for a call with many messages in the response that can be repeated at another endpoint. `abandon`
   * and `close` end it.
   */
  repeatableStream(path: string, metadata: Readonly<Record<string, string>>, handlers: StreamHandlers): GrpcStream {
    const call: GrpcCall = this.#open(path, metadata, handlers, () => this.#calls.delete(call))
    const fail = (error: RpcError): void => {
      call.cancel()
      handlers.onEnd(error)
    }
    this.#calls.set(call, { isRepeatable: true, fail })
    return call
  }

  /** Fails the running calls that can be repeated at another endpoint, because this one has gone silent. */
  abandon(): void {
    for (const { isRepeatable, fail } of this.#calls.values()) {
      if (isRepeatable) fail(new AbandonedError())
    }
  }

  /** Fails the running calls and refuses new ones. The owner of each `stream` must cancel it first. */
  close(): void {
    this.#isClosed = true
    for (const { fail } of this.#calls.values()) fail(new RpcError(RpcStatus.CANCELLED, 'the client was closed'))
    this.#connection.retire()
    this.#next?.retire()
  }

  /** @param onOver called when the call ends, before `onEnd`, and when it is cancelled. */
  #open(
    path: string,
    metadata: Readonly<Record<string, string>>,
    handlers: StreamHandlers,
    onOver: () => void = noop,
  ): GrpcCall {
    const connection = this.#current()
    const session = this.#isClosed ? null : connection.ready
    const counted: StreamHandlers = {
      onMessage: (message) => {
        this.#receivedMessages++
        handlers.onMessage(message)
      },
      onEnd: (error) => handlers.onEnd(error),
    }
    const leave = session === null ? noop : connection.use()
    const release = (): void => {
      leave()
      onOver()
    }
    return new GrpcCall(session, { path, metadata, maxReceivedBytes: this.#options.maxReceivedBytes }, counted, release)
  }
}

interface CallHead {
  readonly path: string
  readonly metadata: Readonly<Record<string, string>>
  readonly maxReceivedBytes: number
}

/** One HTTP/2 stream of the connection. It sends requests and receives messages, and a status ends it. */
class GrpcCall implements GrpcStream {
  readonly #stream: ClientHttp2Stream | null
  readonly #handlers: StreamHandlers
  readonly #release: () => void
  #isOver = false
  /** Set by the response's headers or trailers; null means success. */
  #status: RpcError | null | undefined = undefined

  constructor(session: ClientHttp2Session | null, head: CallHead, handlers: StreamHandlers, release: () => void) {
    this.#handlers = handlers
    this.#release = release
    this.#stream = session === null ? null : this.#request(session, head)
    // Report the end in a microtask, so that the caller gets the stream first.
    if (this.#stream === null) queueMicrotask(() => this.#end(new ConnectionLostError('not connected')))
  }

  send(message: Uint8Array): void {
    if (this.#isOver || this.#stream?.writable !== true) return
    for (const part of frameMessage(message)) this.#stream.write(part)
  }

  pause(): void {
    this.#stream?.pause()
  }

  resume(): void {
    this.#stream?.resume()
  }

  finish(): void {
    this.#stream?.end()
  }

  cancel(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release()
    this.#stream?.close(constants.NGHTTP2_CANCEL)
    // A stream that is not read never closes.
    this.resume()
  }

  #request(session: ClientHttp2Session, { path, metadata, maxReceivedBytes }: CallHead): ClientHttp2Stream | null {
    let stream: ClientHttp2Stream
    try {
      stream = session.request({
        ...metadata,
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: path,
        [constants.HTTP2_HEADER_TE]: 'trailers',
        [constants.HTTP2_HEADER_CONTENT_TYPE]: 'application/grpc',
      })
    } catch {
      return null // the connection was lost in this turn, and its event has not arrived yet
    }
    keepWithStream(session, stream)
    const messages = messageSplitter(maxReceivedBytes, (message) => {
      if (!this.#isOver) this.#handlers.onMessage(message)
    })
    let isGrpc = true
    stream.on('data', (chunk: Buffer) => {
      if (this.#isOver || !isGrpc) return
      try {
        messages.push(chunk)
      } catch (error) {
        if (!(error instanceof RpcError)) throw error
        this.#end(error)
        stream.close(constants.NGHTTP2_CANCEL)
      }
    })
    stream.once('response', (headers) => {
      // Running calls continue, and the next call opens another connection.
      if (stream.id! >= LAST_STREAM_ID) session.close()
      this.#status = statusOfTrailers(headers)
      const httpStatus = Number(headers[constants.HTTP2_HEADER_STATUS])
      if (httpStatus === 200) return
      isGrpc = false
      this.#status ??= statusOfHttp(httpStatus)
    })
    stream.once('trailers', (trailers) => {
      this.#status ??= statusOfTrailers(trailers)
    })
    // A stream closes only when both sides have ended it.
    stream.once('end', () => {
      if (!stream.writableEnded) stream.end()
    })
    stream.on('error', noop) // `close` follows, and says the same
    stream.once('close', () => {
      this.#end(this.#status === undefined ? statusOfReset(stream.rstCode, session.destroyed) : this.#status)
    })
    return stream
  }

  #end(error: RpcError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release()
    this.#handlers.onEnd(error)
  }
}

function left(): RpcError {
  return new RpcError(RpcStatus.CANCELLED, 'the caller went away')
}

function noop(): void {}
