/** A connection to NATS as the broker of a fleet. Only this folder imports NATS' packages. */
import { type SecureContextOptions, createSecureContext } from 'node:tls'
import {
  DiscardPolicy,
  jetstream,
  type JetStreamClient,
  type JetStreamManager,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamInfo,
} from '@nats-io/jetstream'
import {
  type Authenticator,
  connect,
  createInbox,
  credsAuthenticator,
  errors,
  millis,
  type Msg,
  nanos,
  type NatsConnection,
  nkeyAuthenticator,
  type TlsOptions,
  usernamePasswordAuthenticator,
} from 'nats'
import type { Clock } from '../../support/clock.js'
import { getOrMake } from '../../support/memo.js'
import {
  type Broker,
  BrokerError,
  type Bucket,
  type BucketLimits,
  type Closable,
  type FollowHandlers,
  type StreamBounds,
  type StreamLimits,
  type StreamState,
} from '../broker.js'
import { asBrokerError, asConnectError, ifFound } from './nats-error.js'
import { bufferOf } from '../../support/buffer-of.js'
import { NatsBucket } from './nats-bucket.js'
import { StreamFollower } from './stream-follower.js'
import { StreamWriter } from './stream-writer.js'
import { RESPONSE_TIMEOUT_MS, retryRequest } from './retry-request.js'

export interface NatsConnectOptions {
  readonly servers: readonly string[]
  readonly name: string
  /** Secrets are read for each connection, because they may have changed since the last one. */
  readonly user?: { readonly name: string; readonly password: () => string }
  /** The contents of a credentials file. */
  readonly credentials?: () => Buffer
  readonly nkeySeed?: () => Buffer
  /** The contents of the PEM files. If there are none, TLS trusts the system's authorities. */
  readonly tls?: () => Pem
  /** Called when an established connection has failed and is being retried; `reason` is the server's message. */
  readonly onError?: (reason: string) => void
  /** Called when a lost connection is back. */
  readonly onReconnect?: () => void
  /** Called when the user lacks a permission, which `what` names. */
  readonly onDenied?: (what: string) => void
}

/** The authorities to trust, and a client certificate with its key. */
export interface Pem {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** A response larger than a message arrives in parts; no publisher sends more parts than this. */
const MAX_PARTS = 256
/** How much of the server's maximum message size is reserved for headers and protocol. */
const ENVELOPE_BYTES = 4_096
const PART_HEADER_BYTES = 4
/** A server is retried after this delay plus a random delay of up to the same length. */
const RECONNECT_MS = 250
/** If the clock is set back by less than this, the next attempt just waits that much longer. */
const SET_BACK_MS = 1_000
/** Without `checkAPI`, a connection is usable before JetStream has a leader. */
const JETSTREAM = { timeout: RESPONSE_TIMEOUT_MS, checkAPI: false }
const CLOSED = 'the connection is closed'
const NOTHING: Closable = { close: () => {} }

export class NatsClient implements Broker {
  readonly #servers: readonly string[]
  #onDoubt: () => void = () => {}
  /** Buckets by name. All resources of a cluster share one bucket. */
  readonly #buckets = new Map<string, NatsBucket>()
  readonly #jetStream: JetStreamClient
  #jsm: Promise<JetStreamManager> | null = null
  #isConnected = true

  /**
   * Tries each server once. A connection that is lost later reconnects by itself, however long that takes.
   *
   * @throws BrokerError `refused`, or `unavailable` when no server answers.
   */
  static async connect(options: NatsConnectOptions, clock: Clock): Promise<NatsClient> {
    const { servers, name } = options
    const authenticator = authenticatorOf(options)
    const authentication = authenticator === null ? {} : { authenticator }
    const tls = tlsOf(options)
    let client: NatsClient | null = null
    try {
      const connection = await connect({
        servers: [...servers],
        name,
        timeout: 3_000,
        pingInterval: 3_000,
        maxPingOut: 2,
        maxReconnectAttempts: -1,
        // A password change in progress must not end the process.
        ignoreAuthErrorAbort: true,
        reconnectDelayHandler: reconnectDelays(clock, () => client?.servers ?? servers.length),
        ...authentication,
        ...(tls === null ? {} : { tls }),
      })
      client = new NatsClient(connection, options, clock)
      return client
    } catch (error) {
      throw asConnectError(error)
    }
  }

  private constructor(
    private readonly connection: NatsConnection,
    options: NatsConnectOptions,
    private readonly clock: Clock,
  ) {
    this.#servers = options.servers
    this.#jetStream = jetstream(connection, JETSTREAM)
    void this.#watchStatus(options)
  }

  get isConnected(): boolean {
    return this.#isConnected
  }

  get maxPayloadBytes(): number {
    const limit: unknown = this.connection.info?.max_payload
    return Math.max(PART_HEADER_BYTES + 1, (typeof limit === 'number' ? limit : 2 ** 20) - ENVELOPE_BYTES)
  }

  // Servers

  /** The number of known servers, configured or advertised. */
  get servers(): number {
    const urls: unknown = this.connection.info?.connect_urls
    const advertised = Array.isArray(urls) ? urls.filter((url) => typeof url === 'string') : []
    return new Set([...this.#servers, ...advertised].map(addressOf)).size
  }

  /** Connects to the next server. */
  moveOn(): void {
    if (!this.connection.isClosed()) void this.connection.reconnect()
  }

  /** @param onDoubt called when a request stays unanswered although the connection looks healthy. */
  onDoubt(onDoubt: () => void): void {
    this.#onDoubt = onDoubt
  }

  doubt(): void {
    this.#onDoubt()
  }

  async close(): Promise<void> {
    await this.connection.close()
  }

  // Streams

  async ensureStream(name: string, subject: string, limits: StreamLimits): Promise<StreamBounds> {
    // An existing stream can be found without the cluster's leader, which is needed only to create one.
    const found = await this.#streamInfo(name)
    if (found !== null) return boundsOf(found)
    try {
      const { streams } = await this.#manager()
      const created = await streams.add({
        name,
        subjects: [subject],
        retention: RetentionPolicy.Limits,
        discard: DiscardPolicy.Old,
        storage: StorageType.File,
        num_replicas: limits.replicas,
        max_bytes: limits.maxBytes,
        max_age: nanos(limits.maxAgeMs),
        duplicate_window: nanos(Math.min(limits.maxAgeMs, 1_000)),
      })
      return boundsOf(created)
    } catch (error) {
      // Another candidate may have created it with other limits.
      const info = await this.#streamInfo(name)
      if (info === null) throw asBrokerError(error)
      return boundsOf(info)
    }
  }

  async streamState(name: string): Promise<StreamState | null> {
    const info = await this.#streamInfo(name)
    return info === null ? null : { first: info.state.first_seq, last: info.state.last_seq, created: info.created }
  }

  async message(stream: string, sequence: number): Promise<Buffer | null> {
    const message = await this.#ifFound(({ streams }) => streams.getMessage(stream, { seq: sequence }))
    return message === null ? null : bufferOf(message.data)
  }

  openWriter(subject: string): StreamWriter {
    const onNoResponse = (): void => this.doubt()
    return new StreamWriter({ jetStream: this.#jetStream, subject, clock: this.clock, onNoResponse })
  }

  follow(stream: string, startSequence: number, handlers: FollowHandlers): Closable {
    if (this.connection.isClosed()) {
      queueMicrotask(() => handlers.onEnd(CLOSED))
      return NOTHING
    }
    const follower = new StreamFollower(this.connection, this.clock, {
      ...handlers,
      onSilent: () => this.doubt(),
    })
    void this.#manager().then(
      (manager) => follower.open(manager, stream, startSequence),
      (error: unknown) => follower.end(asBrokerError(error).message),
    )
    return follower
  }

  // Buckets

  bucket(name: string, limits: BucketLimits): Bucket {
    const make = (): NatsBucket =>
      new NatsBucket({
        name,
        limits,
        jetStream: this.#jetStream,
        manager: () => this.#manager(),
        maxPayloadBytes: () => this.maxPayloadBytes,
        flushed: () => this.connection.flush(),
        onNoResponse: () => this.doubt(),
        clock: this.clock,
      })
    return getOrMake(this.#buckets, name, make)
  }

  // Subjects

  publish(subject: string, data: Buffer): void {
    if (this.connection.isClosed()) return
    try {
      this.connection.publish(subject, data)
    } catch {
      // The server takes no message of this size. As with a message that is lost, the next one may arrive.
    }
  }

  subscribe(subject: string, onMessage: (data: Buffer) => void): Closable {
    if (this.connection.isClosed()) return NOTHING
    const subscription = this.connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) onMessage(bufferOf(message.data))
      },
    })
    return { close: () => subscription.unsubscribe() }
  }

  /** A response larger than a message is sent in parts. A request whose response cannot be sent is left unanswered. */
  respond(subject: string, handle: (request: Buffer) => Promise<Buffer | null>): Closable {
    if (this.connection.isClosed()) return NOTHING
    const reply = async (message: Msg): Promise<void> => {
      try {
        const whole = await handle(bufferOf(message.data))
        if (whole === null) return
        const partBytes = this.maxPayloadBytes - PART_HEADER_BYTES
        const count = Math.max(1, Math.ceil(whole.length / partBytes))
        if (count > MAX_PARTS) return
        for (let index = 0; index < count && !this.connection.isClosed(); index++) {
          const part = whole.subarray(index * partBytes, (index + 1) * partBytes)
          const data = Buffer.allocUnsafe(PART_HEADER_BYTES + part.length)
          data.writeUInt16BE(index, 0)
          data.writeUInt16BE(count, 2)
          part.copy(data, PART_HEADER_BYTES)
          message.respond(data)
        }
      } catch {
        // The caller gives up after a while, as when the request was lost.
      }
    }
    const subscription = this.connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) void reply(message)
      },
    })
    return { close: () => subscription.unsubscribe() }
  }

  request(subject: string, payload: Buffer, timeoutMs: number, signal?: AbortSignal): Promise<Buffer> {
    if (this.connection.isClosed()) return Promise.reject(new BrokerError('unavailable', CLOSED))
    return new Promise((resolve, reject) => {
      const parts: Buffer[] = []
      const inbox = createInbox()
      const finish = (outcome: Buffer | Error): void => {
        timer.cancel()
        signal?.removeEventListener('abort', onAbort)
        subscription.unsubscribe()
        if (Buffer.isBuffer(outcome)) resolve(outcome)
        else reject(outcome)
      }
      const late = (): void => finish(new BrokerError('unavailable', `no answer within ${timeoutMs} ms`))
      const onAbort = (): void => finish(signal?.reason as Error)
      const subscription = this.connection.subscribe(inbox, {
        callback: (error, message) => {
          if (error !== null) return finish(asBrokerError(error))
          if (message.headers?.code === 503) return finish(new BrokerError('unavailable', 'no publisher responds'))
          const data = bufferOf(message.data)
          if (data.length < PART_HEADER_BYTES) return finish(new BrokerError('corrupt', 'an answer without a header'))
          const count = data.readUInt16BE(2)
          if (count > MAX_PARTS || data.readUInt16BE(0) !== parts.length) {
            return finish(new BrokerError('corrupt', 'parts of an answer are missing'))
          }
          parts.push(data.subarray(PART_HEADER_BYTES))
          if (parts.length === count) finish(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
        },
      })
      const timer = this.clock.setTimer(timeoutMs, late)
      signal?.addEventListener('abort', onAbort, { once: true })
      try {
        this.connection.publish(subject, payload, { reply: inbox })
      } catch (error) {
        finish(asBrokerError(error))
      }
    })
  }

  async #watchStatus({
    onError = () => {},
    onReconnect = () => {},
    onDenied = onError,
  }: NatsConnectOptions): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === 'error') {
        const { error } = status
        if (error instanceof errors.PermissionViolationError) onDenied(`${error.operation} ${error.subject}`)
        else onError(asConnectError(error).message)
      } else if (status.type === 'disconnect') {
        this.#isConnected = false
      } else if (status.type === 'reconnect') {
        this.#isConnected = true
        onReconnect()
      }
    }
    this.#isConnected = false
  }

  #streamInfo(name: string): Promise<StreamInfo | null> {
    return this.#ifFound(({ streams }) => streams.info(name))
  }

  #ifFound<T>(send: (manager: JetStreamManager) => Promise<T>): Promise<T | null> {
    const retryOptions = { clock: this.clock, onNoResponse: (): void => this.doubt() }
    return ifFound(this.#manager().then((manager) => retryRequest(() => send(manager), retryOptions)))
  }

  #manager(): Promise<JetStreamManager> {
    this.#jsm ??= jetstreamManager(this.connection, JETSTREAM)
    return this.#jsm
  }
}

function boundsOf({ config }: StreamInfo): StreamBounds {
  const { max_bytes: maxBytes, max_age: maxAge } = config
  return { maxBytes: maxBytes > 0 ? maxBytes : Infinity, maxAgeMs: maxAge > 0 ? millis(maxAge) : Infinity }
}

/**
 * Returns a function that tells the library how long after the last attempt it may retry a server.
 *
 * The library uses the wall clock for this. After that clock is set back, the last attempts are in the future, and the
 * library would try no server until the clock has caught up. So the next attempt on each known server must not wait.
 *
 * @param servers returns the number of known servers.
 */
function reconnectDelays(clock: Clock, servers: () => number): () => number {
  const offset = (): number => clock.now() - clock.monotonic()
  let offsetMs = offset()
  let withoutWait = 0
  return () => {
    const beforeMs = offsetMs
    offsetMs = offset()
    if (offsetMs < beforeMs - SET_BACK_MS) withoutWait = servers()
    if (withoutWait === 0) return RECONNECT_MS * (1 + Math.random())
    withoutWait--
    return Number.NEGATIVE_INFINITY
  }
}

function authenticatorOf(options: NatsConnectOptions): Authenticator | null {
  const { user, credentials, nkeySeed, onError } = options
  if (user !== undefined) {
    return lastUsable(user.password, (password) => usernamePasswordAuthenticator(user.name, password), onError)
  }
  if (credentials !== undefined) return lastUsable(credentials, credsAuthenticator, onError)
  return nkeySeed === undefined ? null : lastUsable(nkeySeed, nkeyAuthenticator, onError)
}

/**
 * Returns options whose getters read the PEM files for each connection. The library can read the files itself, but if
 * one of them were a named pipe, every attempt would block one of the process's few threads.
 */
function tlsOf({ tls, onError }: NatsConnectOptions): TlsOptions | null {
  if (tls === undefined) return null
  const usable = (pem: Pem) => {
    createSecureContext(pem)
    return () => pem
  }
  const read = lastUsable<Pem, [], Pem>(tls, usable, onError)
  // As in Go, the authority may be an intermediate. The library passes this on to Node.
  const options: TlsOptions & SecureContextOptions = { allowPartialTrustChain: true }
  for (const name of ['ca', 'cert', 'key'] as const) {
    Object.defineProperty(options, name, { enumerable: true, get: () => read()[name] })
  }
  return options
}

/**
 * Reads a secret for each connection, and returns what `use` makes of it. If the secret is unusable, for example
 * because its file is missing or half-written, that is reported, and the last usable secret is used instead. The
 * library would close a connection for good if its authenticator threw.
 *
 * The first secret has no predecessor, so its error ends the attempt to connect.
 */
function lastUsable<Secret, Args extends unknown[], Result>(
  read: () => Secret,
  use: (secret: Secret) => (...args: Args) => Result,
  onError: (reason: string) => void = () => {},
): (...args: Args) => Result {
  let usable: ((...args: Args) => Result) | null = null
  return (...args) => {
    try {
      const used = use(read())
      const result = used(...args)
      usable = used
      return result
    } catch (error) {
      if (usable === null) throw error
      onError(`the credentials cannot be used: ${error instanceof Error ? error.message : String(error)}`)
      return usable(...args)
    }
  }
}

/** Returns `host:port`, the form in which servers advertise themselves. */
function addressOf(server: string): string {
  return server.replace(/^[a-z]+:\/\//, '')
}
