/**
 * The message broker of a fleet, reduced to five operations: append to a stream, follow a stream, lease a value, store
 * a blob, and send a request to another replica. `stream/` uses only this interface, and `nats/` implements it.
 */

/** A connection to the broker, which reconnects by itself. */
export interface Broker extends Streams, Subjects {
  readonly isConnected: boolean
  /** The caller calls this when a reply or a message is overdue, because only the caller can tell. */
  doubt(): void
  /** The most bytes of data in one message. */
  readonly maxPayloadBytes: number
  /**
   * Returns a bucket, and creates it on first use. An existing bucket keeps its limits, except that an upload raises a
   * lower age of blobs.
   */
  bucket(name: string, limits: BucketLimits): Bucket
}

export type Bucket = Leases & Blobs

export interface BucketLimits {
  readonly replicas: number
  /** Blobs are deleted at this age. Values are never deleted. */
  readonly blobAgeMs: number
}

/** The connection that all users in a process share. It is open while at least one of them uses it. */
export interface SharedBroker {
  /**
   * Resolves once the connection is established, or to null if every user has released it first.
   *
   * @param onError called with the reason why there is no connection yet, immediately if the reason is already known.
   */
  use(onError: (reason: string) => void): Promise<Broker | null>
  release(onError: (reason: string) => void): void
}

// Append and follow

export interface Streams {
  /**
   * Creates the stream if it does not exist. An existing stream keeps its own limits. A stream discards its oldest
   * messages when it exceeds its limits for bytes or age.
   * @returns the limits that the stream has; infinite where it has none.
   * @throws BrokerError
   */
  ensureStream(name: string, subject: string, limits: StreamLimits): Promise<StreamBounds>
  /** @param subject a subject whose messages a stream stores. */
  openWriter(subject: string): Appender
  /** Returns the first and last message of a stream; null if there is no such stream. @throws BrokerError */
  streamState(name: string): Promise<StreamState | null>
  /** Returns one message of a stream; null if it was discarded or never written. @throws BrokerError */
  message(stream: string, sequence: number): Promise<Buffer | null>
  follow(stream: string, startSequence: number, handlers: FollowHandlers): Closable
}

export interface StreamLimits extends StreamBounds {
  readonly replicas: number
}

export interface StreamBounds {
  readonly maxBytes: number
  readonly maxAgeMs: number
}

export interface StreamState {
  /** The sequence of the first message still in the stream; `last + 1` if the stream is empty. */
  readonly first: number
  readonly last: number
  /**
   * When the stream was created. A stream recreated under the same name has a different time, and its sequences start
   * at 1 again.
   */
  readonly created: string
}

export interface Appender extends Closable {
  /**
   * @param expectedLastSequence the sequence of the stream's last message. If another message was written since, the
   * stream rejects the write.
   * @returns the sequence of the new message.
   * @throws BrokerError. `unavailable` means that the message may or may not have been written. After the first
   * failure, every later write fails in the same way.
   */
  write(data: Buffer, expectedLastSequence: number): Promise<number>
}

export interface FollowHandlers {
  /** Messages arrive in order; the sequence has no gap except where the stream has discarded messages. */
  onMessage(sequence: number, data: Buffer): void
  /** Called when the server is alive and has nothing new. */
  onIdle(): void
  /** Called once; no other call follows. */
  onEnd(reason: string): void
}

// Lease

/** Values that are updated by compare-and-swap on their revision. */
export interface Leases {
  /** @throws BrokerError */
  kvGet(key: string): Promise<KvEntry | null>
  /**
   * Writes a value.
   * @param expected the revision that the value must have now; 0 if the key must not exist yet.
   * @throws BrokerError
   */
  kvUpdate(key: string, value: Buffer, expected: number): Promise<number>
}

export interface KvEntry {
  readonly value: Buffer
  readonly revision: number
}

// Blob

export interface Blobs {
  /** @throws BrokerError */
  putObject(name: string, chunks: Iterable<Buffer>): Promise<void>
  /**
   * Reads a whole object and verifies its checksum. Resolves to null if there is no such object.
   *
   * @throws BrokerError `corrupt` when the checksum is wrong or chunks are missing.
   */
  getObject(name: string): Promise<Buffer | null>
  /** @throws BrokerError */
  deleteObject(name: string): Promise<void>
}

// Request

export interface Subjects {
  publish(subject: string, data: Buffer): void
  /** After the connection is closed, no messages arrive. */
  subscribe(subject: string, onMessage: (data: Buffer) => void): Closable
  /**
   * Answers the requests on a subject.
   *
   * @param handle must never reject; if it resolves to null, no reply is sent.
   */
  respond(subject: string, handle: (request: Buffer) => Promise<Buffer | null>): Closable
  /**
   * Sends a request on a subject, and resolves to the whole reply.
   * @throws BrokerError when no reply arrives in time.
   */
  request(subject: string, payload: Buffer, timeoutMs: number, signal?: AbortSignal): Promise<Buffer>
}

export interface Closable {
  close(): void
}

export type BrokerErrorCode =
  /** Another writer was first. */
  | 'conflict'
  | 'not-found'
  /** No response arrived in time, so the request may or may not have been performed. */
  | 'unavailable'
  /**
   * The server rejects us or the request, or we reject the server (credentials, storage), so a retry alone does not
   * help.
   */
  | 'refused'
  /** The bytes read differ from the bytes written. */
  | 'corrupt'

export class BrokerError extends Error {
  override readonly name = 'BrokerError'

  constructor(
    readonly code: BrokerErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
