/**
 * The message broker of a fleet, in five verbs: append to a stream, follow a stream, lease a value, keep a blob, and
 * ask another replica. `stream/` knows no more about a broker; `nats/` implements it.
 */

/** A connection to the broker, which reconnects by itself. */
export interface Broker extends Streams, Subjects {
  readonly isConnected: boolean
  /** To be called when a reply or a message is overdue, which only the caller can know. */
  doubt(): void
  /** The most bytes of data in one message. */
  readonly maxPayloadBytes: number
  /** Returns a bucket, which is created on first use. An existing one keeps its own limits. */
  bucket(name: string, limits: BucketLimits): Bucket
}

export type Bucket = Leases & Blobs

export interface BucketLimits {
  readonly replicas: number
  /** Blobs are deleted at this age, and values never. */
  readonly blobAgeMs: number
}

/** The connection of a process, open while it has users. */
export interface SharedBroker {
  /**
   * Resolves at the first connection, or to null if every user has released it before.
   *
   * @param onTrouble called with the reason why there is no connection yet; at once, if a reason is already known.
   */
  use(onTrouble: (reason: string) => void): Promise<Broker | null>
  release(onTrouble: (reason: string) => void): void
}

// Append and follow

export interface Streams {
  /**
   * Creates the stream if it does not exist; an existing one keeps its own limits. It discards its oldest messages by
   * bytes and age. @throws BrokerError
   */
  ensureStream(name: string, subject: string, limits: StreamLimits): Promise<void>
  /** @param subject whose messages a stream stores. */
  openWriter(subject: string): Appender
  /** Returns the first and last message of a stream; null if there is no such stream. @throws BrokerError */
  streamState(name: string): Promise<StreamState | null>
  /** Returns one message of a stream; null if it was discarded or never written. @throws BrokerError */
  message(stream: string, sequence: number): Promise<Buffer | null>
  follow(stream: string, startSequence: number, handlers: FollowHandlers): Closable
}

export interface StreamLimits {
  readonly replicas: number
  readonly maxBytes: number
  readonly maxAgeMs: number
}

export interface StreamState {
  /** The first message still in the stream; one beyond `last` if there is none. */
  readonly first: number
  readonly last: number
  /** When the stream was created. One recreated under the same name has another time, and counts from one again. */
  readonly created: string
}

export interface Appender extends Closable {
  /**
   * @param expectedLastSequence the last message of the stream; if another was written, the stream takes nothing.
   * @returns the message's own sequence.
   * @throws BrokerError; `unavailable` leaves open whether it was written. After the first failure every write fails in
   * the same way.
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

/** Values that are swapped by their revision. */
export interface Leases {
  /** @throws BrokerError */
  kvGet(key: string): Promise<KvEntry | null>
  /**
   * Writes a value. @param expected the revision that it must have now; 0 if there must be none. @throws BrokerError
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
   * Reads a whole object and verifies its checksum; null if there is no such object.
   *
   * @throws BrokerError `corrupt` when the checksum is wrong or chunks are missing.
   */
  getObject(name: string): Promise<Buffer | null>
  /** @throws BrokerError */
  deleteObject(name: string): Promise<void>
}

// Ask

export interface Subjects {
  publish(subject: string, data: Buffer): void
  /** A closed connection receives nothing. */
  subscribe(subject: string, onMessage: (data: Buffer) => void): Closable
  /**
   * Answers the requests on a subject.
   *
   * @param answer must never reject; null sends nothing.
   */
  respond(subject: string, answer: (question: Buffer) => Promise<Buffer | null>): Closable
  /** Sends a request on a subject, and resolves to the whole reply. @throws BrokerError when nobody answers in time. */
  ask(subject: string, question: Buffer, timeoutMs: number, signal?: AbortSignal): Promise<Buffer>
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
  /** The server refuses us or the request, or we refuse it (credentials, storage): a retry alone does not help. */
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
