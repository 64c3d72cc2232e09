/**
 * One HTTP/2 request and its response, as the transport provides it: bytes in both directions, with headers before the
 * response and trailers after it. `grpc-call.ts` turns it into messages and a status.
 */
export interface ByteStream {
  /** For instance `/etcdserverpb.KV/Range`. */
  readonly path: string
  /** The host and port that the client used. */
  readonly authority: string
  readonly isSecure: boolean
  /** Stands for the connection, which may carry further streams. */
  readonly connection: object
  /** Aborts when the client is gone or the response is complete. */
  readonly signal: AbortSignal
  header(name: string): string | undefined
  /** Starts reading the request. The handlers are called once at most, except for `onBytes` and `onDrain`. */
  read(handlers: {
    onBytes(bytes: Buffer): void
    /** The client sends nothing more. */
    onEnd(): void
    /** The stream can take more after `write` returned false. */
    onDrain(): void
    /** Nothing can be written any more. */
    onClose(): void
  }): void
  /** Stops reading until `resume`, so that the client has to wait. */
  pause(): void
  resume(): void
  /** @returns false when the stream is full. What is written anyway is kept until the client takes it. */
  write(bytes: Buffer): boolean
  /** Bytes written that the client has not taken yet. */
  readonly pendingBytes: number
  /** Sends the response's headers, if they have not been sent. */
  begin(): void
  /** Ends the response. @param httpStatus the equivalent for the access log. */
  finish(trailers: Readonly<Record<string, string>>, httpStatus: number): void
  /** Resets the stream of a client that has stopped reading. */
  destroy(): void
}
