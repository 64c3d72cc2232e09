/**
 * The one file that knows the `nats` package: a connection, and the few things of JetStream that a fleet needs.
 *
 * A stream is followed by an ephemeral push consumer of our own rather than the library's ordered one, whose iterator
 * has no bound and which recovers in silence: here every doubt (a gap, a heartbeat that does not come) ends the
 * following, and the subscriber decides where to go on. Writes are pipelined over one reply subject; each names the
 * sequence and the message that it expects to follow. The sequence alone was not enough of a fence: of messages on their
 * way, one that expects the sequence at which another publisher has just written would be taken after all.
 */
import {
  AckPolicy,
  connect,
  createInbox,
  credsAuthenticator,
  DeliverPolicy,
  DiscardPolicy,
  Events,
  headers as createHeaders,
  type JetStreamClient,
  type JetStreamManager,
  type KV,
  type Msg,
  nanos,
  type NatsConnection,
  NatsError,
  nkeyAuthenticator,
  type ObjectStore,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
  type Subscription,
  usernamePasswordAuthenticator,
} from 'nats'
import type { Clock, Timer } from '../../support/clock.js'

export interface NatsConnectOptions {
  readonly servers: readonly string[]
  readonly name: string
  /** Secrets are asked for at every connection, for they may have been changed meanwhile. */
  readonly user?: { readonly name: string; readonly password: () => string }
  /** The contents of a credentials file. */
  readonly credentials?: () => Buffer
  /** An nkey's seed. */
  readonly nkeySeed?: () => Buffer
  /** Paths, read at every connection. */
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string }
  /** Something is wrong with a connection that was there, and is tried again: what the server said. */
  readonly onTrouble?: (reason: string) => void
}

export interface StreamLimits {
  readonly replicas: number
  readonly maxBytes: number
  readonly maxAgeMs: number
}

export type BrokerErrorCode =
  /** Another one wrote first. */
  | 'conflict'
  | 'not-found'
  /** No answer, or none in time: what was sent may have been done. */
  | 'unavailable'
  /** The server will not have us (credentials, certificates), or we not it: trying again alone does not help. */
  | 'refused'
  /** What was read is not what was written. */
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

export interface StreamState {
  /** The first message that is still there; one beyond `last` when none is. */
  readonly first: number
  readonly last: number
  /** Another one under the same name has another time, and counts anew. */
  readonly created: string
}

export interface FollowHandlers {
  /** In order, without a gap in the stream's own sequence but where the stream has discarded. */
  onMessage(sequence: number, data: Buffer): void
  /** The server lives and has nothing new. */
  onIdle(): void
  /** Once; nothing after it. */
  onEnd(reason: string): void
}

export interface Closable {
  close(): void
}

export interface KvEntry {
  readonly value: Buffer
  readonly revision: number
}

const API_TIMEOUT_MS = 5_000
const HEARTBEAT_MS = 1_000
/** Heartbeats that may fail to come. */
const MISSED_HEARTBEATS = 3
/** Answers larger than a message come in parts; more of them than this is not an answer of ours. */
const MAX_PARTS = 256
/** What headers and protocol take of the server's message size. */
const ENVELOPE_BYTES = 4_096
const WRONG_LAST_SEQUENCE = 10_071
const WRONG_LAST_MESSAGE = 10_070
/** Between two chunks of an object. */
const CHUNK_TIMEOUT_MS = 5_000
const CHUNK_BYTES = 128 * 1024
const PART_HEADER_BYTES = 4

export class NatsClient {
  readonly #connection: NatsConnection
  readonly #js: JetStreamClient
  readonly #clock: Clock
  readonly #listeners = new Set<() => void>()
  readonly #kvs = new Map<string, Promise<KV>>()
  readonly #stores = new Map<string, Promise<ObjectStore>>()
  #jsm: Promise<JetStreamManager> | null = null
  #isConnected = true

  /**
   * Tries each server once; a connection that was there comes back by itself, however long that takes.
   *
   * @throws BrokerError `refused`, or `unavailable`: nobody is there.
   */
  static async connect(options: NatsConnectOptions, clock: Clock): Promise<NatsClient> {
    const { servers, name, user, credentials, nkeySeed, tls, onTrouble } = options
    try {
      const connection = await connect({
        servers: [...servers],
        name,
        maxReconnectAttempts: -1,
        // A password that is being changed must not end us.
        ignoreAuthErrorAbort: true,
        reconnectTimeWait: 250,
        reconnectJitter: 250,
        timeout: 3_000,
        pingInterval: 3_000,
        maxPingOut: 2,
        ...(user === undefined ? {} : { authenticator: usernamePasswordAuthenticator(user.name, user.password) }),
        ...(credentials === undefined ? {} : { authenticator: credsAuthenticator(credentials) }),
        ...(nkeySeed === undefined ? {} : { authenticator: nkeyAuthenticator(nkeySeed) }),
        ...(tls === undefined ? {} : { tls: { ...tls } }),
      })
      return new NatsClient(connection, clock, onTrouble ?? (() => {}))
    } catch (error) {
      throw asConnectError(error)
    }
  }

  private constructor(connection: NatsConnection, clock: Clock, onTrouble: (reason: string) => void) {
    this.#connection = connection
    this.#clock = clock
    this.#js = connection.jetstream({ timeout: API_TIMEOUT_MS })
    void this.#watchStatus(onTrouble)
  }

  get isConnected(): boolean {
    return this.#isConnected
  }

  /** Most bytes of one message's data. */
  get maxPayloadBytes(): number {
    return (this.#connection.info?.max_payload ?? 2 ** 20) - ENVELOPE_BYTES
  }

  /** Bytes of everything received and sent, protocol included. */
  get traffic(): { readonly received: number; readonly sent: number } {
    const { inBytes, outBytes } = this.#connection.stats()
    return { received: inBytes, sent: outBytes }
  }

  /** Told when the connection is lost and when it is back. */
  onChange(listener: () => void): Closable {
    this.#listeners.add(listener)
    return { close: () => this.#listeners.delete(listener) }
  }

  async close(): Promise<void> {
    this.#listeners.clear()
    await this.#connection.close()
  }

  // Streams

  /** There already, or made: bounded by bytes and age, oldest first. @throws BrokerError */
  async ensureStream(name: string, subject: string, limits: StreamLimits): Promise<void> {
    try {
      const { streams } = await this.#manager()
      await streams.add({
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
    } catch (error) {
      // Made with other limits before: what the operator set then stays.
      const state = await this.streamState(name)
      if (state === null) throw asBrokerError(error)
    }
  }

  /** null when there is no such stream. @throws BrokerError */
  async streamState(name: string): Promise<StreamState | null> {
    try {
      const { streams } = await this.#manager()
      const { state, created } = await streams.info(name)
      return { first: state.first_seq, last: state.last_seq, created }
    } catch (error) {
      const failure = asBrokerError(error)
      if (failure.code === 'not-found') return null
      throw failure
    }
  }

  /** null when it was discarded or never was. @throws BrokerError */
  async message(stream: string, sequence: number): Promise<Buffer | null> {
    try {
      const { streams } = await this.#manager()
      return bufferOf((await streams.getMessage(stream, { seq: sequence })).data)
    } catch (error) {
      const failure = asBrokerError(error)
      if (failure.code === 'not-found') return null
      throw failure
    }
  }

  openWriter(subject: string): StreamWriter {
    return new StreamWriter(this.#connection, subject, this.#clock)
  }

  follow(stream: string, startSequence: number, handlers: FollowHandlers): Closable {
    const follower = new Follower(this.#connection, this.#clock, handlers)
    void this.#manager().then(
      (manager) => follower.open(manager, stream, startSequence),
      (error: unknown) => follower.end(asBrokerError(error).message),
    )
    return follower
  }

  // Key-value buckets

  /** @throws BrokerError */
  async kvGet(bucket: string, key: string, replicas: number): Promise<KvEntry | null> {
    return this.#inBucket(this.#kvs, bucket, async () => {
      const entry = await (await this.#kv(bucket, replicas)).get(key)
      if (entry === null || entry.operation !== 'PUT') return null
      return { value: bufferOf(entry.value), revision: entry.revision }
    })
  }

  /** @param expected the revision it must have; 0: there is none. @throws BrokerError */
  async kvUpdate(bucket: string, key: string, value: Buffer, expected: number, replicas: number): Promise<number> {
    return this.#inBucket(this.#kvs, bucket, async () => {
      const kv = await this.#kv(bucket, replicas)
      return expected === 0 ? await kv.create(key, value) : await kv.update(key, value, expected)
    })
  }

  // Objects

  /** Chunked and with a SHA-256 of the whole, by the library. @throws BrokerError */
  async putObject(bucket: string, name: string, chunks: Iterable<Buffer>, replicas: number): Promise<void> {
    await this.#inBucket(this.#stores, bucket, async () => {
      const store = await this.#store(bucket, replicas)
      const iterator = chunks[Symbol.iterator]()
      const stream = new ReadableStream<Uint8Array>({
        pull(controller) {
          const { done, value } = iterator.next()
          if (done === true) controller.close()
          else controller.enqueue(value)
        },
      })
      await store.put({ name, options: { max_chunk_size: Math.min(CHUNK_BYTES, this.maxPayloadBytes) } }, stream)
    })
  }

  /**
   * The whole, when its checksum is right; null when there is none.
   *
   * @throws BrokerError `corrupt` too: the checksum is wrong, or chunks are missing.
   */
  async getObject(bucket: string, name: string, replicas: number): Promise<Buffer | null> {
    return this.#inBucket(this.#stores, bucket, async () => {
      const store = await this.#store(bucket, replicas)
      const found = await store.get(name)
      if (found === null) return null
      const { info, data, error } = found
      // The library waits for a first chunk for ever.
      const isEmpty = info.size > 0 && !(await this.#hasSubject(`OBJ_${bucket}`, `$O.${bucket}.C.${info.nuid}`))
      void error.catch(() => {})
      const reader = data.getReader()
      const chunks: Uint8Array[] = []
      try {
        if (isEmpty) throw new BrokerError('corrupt', `object ${name} has lost its chunks`)
        for (;;) {
          const { done, value } = await this.#inTime(reader.read(), `object ${name}: no chunk`)
          if (done) break
          chunks.push(value)
        }
      } finally {
        void reader.cancel().catch(() => {})
      }
      const whole = Buffer.concat(chunks)
      if (whole.length !== info.size) throw new BrokerError('corrupt', `object ${name} has lost chunks`)
      return whole
    })
  }

  /** @throws BrokerError */
  async deleteObject(bucket: string, name: string, replicas: number): Promise<void> {
    await this.#inBucket(this.#stores, bucket, async () => {
      await (await this.#store(bucket, replicas)).delete(name)
    })
  }

  // Subjects

  publish(subject: string, data: Buffer): void {
    if (!this.#connection.isClosed()) this.#connection.publish(subject, data)
  }

  subscribe(subject: string, onMessage: (data: Buffer) => void): Closable {
    const subscription = this.#connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) onMessage(bufferOf(message.data))
      },
    })
    return { close: () => subscription.unsubscribe() }
  }

  /** Answers questions; an answer larger than a message goes in parts. `answer` never rejects. */
  respond(subject: string, answer: (question: Buffer) => Promise<Buffer>): Closable {
    const reply = async (message: Msg): Promise<void> => {
      const whole = await answer(bufferOf(message.data))
      const partBytes = this.maxPayloadBytes - PART_HEADER_BYTES
      const count = Math.max(1, Math.ceil(whole.length / partBytes))
      for (let index = 0; index < count && !this.#connection.isClosed(); index++) {
        const part = whole.subarray(index * partBytes, (index + 1) * partBytes)
        const data = Buffer.allocUnsafe(PART_HEADER_BYTES + part.length)
        data.writeUInt16BE(index, 0)
        data.writeUInt16BE(count, 2)
        part.copy(data, PART_HEADER_BYTES)
        message.respond(data)
      }
    }
    const subscription = this.#connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) void reply(message)
      },
    })
    return { close: () => subscription.unsubscribe() }
  }

  /** @throws BrokerError when nobody answers, or not in time. */
  ask(subject: string, question: Buffer, timeoutMs: number, signal?: AbortSignal): Promise<Buffer> {
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
      const timer = this.#clock.setTimer(timeoutMs, late)
      const subscription = this.#connection.subscribe(inbox, {
        callback: (error, message) => {
          if (error !== null) return finish(asBrokerError(error))
          if (message.headers?.code === 503) return finish(new BrokerError('unavailable', 'nobody publishes'))
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
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#connection.publish(subject, question, { reply: inbox })
    })
  }

  async #watchStatus(onTrouble: (reason: string) => void): Promise<void> {
    for await (const { type, data } of this.#connection.status()) {
      if (type === Events.Error) onTrouble(typeof data === 'string' ? data : JSON.stringify(data))
      const isConnected = type === Events.Reconnect ? true : type === Events.Disconnect ? false : this.#isConnected
      if (isConnected === this.#isConnected) continue
      this.#isConnected = isConnected
      for (const listener of this.#listeners) listener()
    }
  }

  /** A bucket that answers no more may have gone with its server: it is looked for, or made, anew the next time. */
  async #inBucket<T>(opened: Map<string, unknown>, bucket: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const failure = asBrokerError(error)
      if (failure.code !== 'conflict') opened.delete(bucket)
      throw failure
    }
  }

  async #hasSubject(stream: string, subject: string): Promise<boolean> {
    try {
      const { streams } = await this.#manager()
      await streams.getMessage(stream, { last_by_subj: subject })
      return true
    } catch (error) {
      const failure = asBrokerError(error)
      if (failure.code === 'not-found') return false
      throw failure
    }
  }

  async #inTime<T>(work: Promise<T>, what: string): Promise<T> {
    let timer: Timer | null = null
    const late = new Promise<never>((_resolve, reject) => {
      const error = new BrokerError('unavailable', `${what} within ${CHUNK_TIMEOUT_MS} ms`)
      timer = this.#clock.setTimer(CHUNK_TIMEOUT_MS, () => reject(error))
    })
    try {
      return await Promise.race([work, late])
    } finally {
      ;(timer as Timer | null)?.cancel()
    }
  }

  #manager(): Promise<JetStreamManager> {
    this.#jsm ??= this.#connection.jetstreamManager({ timeout: API_TIMEOUT_MS, checkAPI: false })
    return this.#jsm
  }

  /** Read from the stream's leader only: a direct get is answered by any replica, however far behind it is. */
  #kv(bucket: string, replicas: number): Promise<KV> {
    return remember(this.#kvs, bucket, () => this.#js.views.kv(bucket, { history: 1, replicas, allow_direct: false }))
  }

  #store(bucket: string, replicas: number): Promise<ObjectStore> {
    return remember(this.#stores, bucket, () => this.#js.views.os(bucket, { replicas }))
  }
}

interface Unacknowledged {
  readonly deadlineMs: number
  readonly resolve: (sequence: number) => void
  readonly reject: (error: BrokerError) => void
}

/**
 * Many writes on their way at once, in the order they were made. The first has to be answered before the second is made:
 * it is the one that says whose turn it is.
 */
export class StreamWriter {
  readonly #connection: NatsConnection
  readonly #subject: string
  readonly #clock: Clock
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  /** Of no other writer, so that no message of another is taken for one of ours. */
  readonly #session = this.#inbox.slice(this.#inbox.lastIndexOf('.') + 1)
  readonly #pending = new Map<number, Unacknowledged>()
  #next = 0
  #timer: Timer | null = null
  #isClosed = false

  constructor(connection: NatsConnection, subject: string, clock: Clock) {
    this.#connection = connection
    this.#subject = subject
    this.#clock = clock
    this.#subscription = connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#acknowledged(message)
      },
    })
  }

  /** @returns the message's own sequence. @throws BrokerError; `unavailable` leaves open whether it was written. */
  write(data: Buffer, expectedLastSequence: number): Promise<number> {
    if (this.#isClosed || this.#connection.isClosed()) {
      return Promise.reject(new BrokerError('unavailable', 'the connection is closed'))
    }
    return new Promise((resolve, reject) => {
      const id = this.#next++
      this.#pending.set(id, { deadlineMs: this.#clock.monotonic() + API_TIMEOUT_MS, resolve, reject })
      const headers = createHeaders()
      headers.set('Nats-Expected-Last-Sequence', String(expectedLastSequence))
      headers.set('Nats-Msg-Id', `${this.#session}.${id}`)
      if (id > 0) headers.set('Nats-Expected-Last-Msg-Id', `${this.#session}.${id - 1}`)
      this.#connection.publish(this.#subject, data, { headers, reply: `${this.#inbox}.${id}` })
      this.#timer ??= this.#clock.setTimer(API_TIMEOUT_MS, () => this.#expire())
    })
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#subscription.unsubscribe()
    this.#timer?.cancel()
    for (const { reject } of this.#pending.values()) reject(new BrokerError('unavailable', 'given up'))
    this.#pending.clear()
  }

  #acknowledged(message: Msg): void {
    const id = Number(message.subject.slice(this.#inbox.length + 1))
    const write = this.#pending.get(id)
    if (write === undefined) return
    this.#pending.delete(id)
    if (message.headers?.code === 503) return write.reject(new BrokerError('unavailable', 'no stream takes it'))
    const answer = message.json<{ seq?: number; error?: { err_code?: number; description?: string } }>()
    if (answer.seq !== undefined && answer.error === undefined) return write.resolve(answer.seq)
    const refusal = answer.error?.err_code
    const code = refusal === WRONG_LAST_SEQUENCE || refusal === WRONG_LAST_MESSAGE ? 'conflict' : 'unavailable'
    write.reject(new BrokerError(code, answer.error?.description ?? 'an answer without a sequence'))
  }

  /** Map order is the order of writing: the first is the oldest. */
  #expire(): void {
    this.#timer = null
    const nowMs = this.#clock.monotonic()
    for (const [id, { deadlineMs, reject }] of this.#pending) {
      if (deadlineMs > nowMs) {
        this.#timer = this.#clock.setTimer(deadlineMs - nowMs, () => this.#expire())
        return
      }
      this.#pending.delete(id)
      reject(new BrokerError('unavailable', `not acknowledged within ${API_TIMEOUT_MS} ms`))
    }
  }
}

class Follower implements Closable {
  readonly #clock: Clock
  readonly #handlers: FollowHandlers
  readonly #connection: NatsConnection
  readonly #subscription: Subscription
  #stream = ''
  #consumer: string | null = null
  #manager: JetStreamManager | null = null
  #delivered = 0
  #heardMs: number
  #timer: Timer
  #isOver = false

  constructor(connection: NatsConnection, clock: Clock, handlers: FollowHandlers) {
    this.#connection = connection
    this.#clock = clock
    this.#handlers = handlers
    this.#subscription = connection.subscribe(createInbox(), {
      callback: (error, message) => {
        if (error !== null) this.end(error.message)
        else if (!this.#isOver) this.#receive(message)
      },
    })
    this.#heardMs = clock.monotonic()
    this.#timer = clock.setTimer(HEARTBEAT_MS, () => this.#check())
  }

  async open(manager: JetStreamManager, stream: string, startSequence: number): Promise<void> {
    this.#manager = manager
    this.#stream = stream
    try {
      const { name } = await manager.consumers.add(stream, {
        deliver_subject: this.#subscription.getSubject(),
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: startSequence,
        ack_policy: AckPolicy.None,
        replay_policy: ReplayPolicy.Instant,
        flow_control: true,
        idle_heartbeat: nanos(HEARTBEAT_MS),
        inactive_threshold: nanos(30_000),
        mem_storage: true,
        num_replicas: 1,
      })
      this.#consumer = name
      if (this.#isOver) this.#forget()
    } catch (error) {
      this.end(asBrokerError(error).message)
    }
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#timer.cancel()
    this.#subscription.unsubscribe()
    this.#forget()
  }

  end(reason: string): void {
    if (this.#isOver) return
    this.close()
    this.#handlers.onEnd(reason)
  }

  /** The server would drop it by itself when nobody listens, later. */
  #forget(): void {
    if (this.#consumer === null || this.#connection.isClosed()) return
    void this.#manager?.consumers.delete(this.#stream, this.#consumer).catch(() => {})
  }

  #receive(message: Msg): void {
    this.#heardMs = this.#clock.monotonic()
    if (message.headers !== undefined && message.headers.code === 100) return this.#control(message)
    if (message.headers !== undefined && message.headers.code >= 400) return this.end(message.headers.description)
    const tokens = message.reply?.split('.') ?? []
    // $JS.ACK.stream.consumer.delivered.sequence.consumerSequence.time.pending; with a domain, two more in front.
    const at = tokens.length >= 11 ? 7 : 5
    const sequence = Number(tokens[at])
    const delivered = Number(tokens[at + 1])
    if (tokens.length < 9 || !Number.isSafeInteger(sequence)) return this.end('a message without a place in the stream')
    if (delivered !== this.#delivered + 1) return this.end(`message ${this.#delivered + 1} of the consumer is missing`)
    this.#delivered = delivered
    this.#handlers.onMessage(sequence, bufferOf(message.data))
  }

  #control(message: Msg): void {
    if (message.reply !== undefined && message.reply !== '') message.respond()
    const stalled = message.headers?.get('Nats-Consumer-Stalled') ?? ''
    if (stalled !== '') this.#connection.publish(stalled)
    const last = message.headers?.get('Nats-Last-Consumer') ?? ''
    if (last !== '' && Number(last) > this.#delivered) return this.end('messages of the consumer are missing')
    this.#handlers.onIdle()
  }

  #check(): void {
    if (this.#clock.monotonic() - this.#heardMs > HEARTBEAT_MS * MISSED_HEARTBEATS) {
      return this.end('the stream is silent')
    }
    this.#timer = this.#clock.setTimer(HEARTBEAT_MS, () => this.#check())
  }
}

function remember<T>(map: Map<string, Promise<T>>, name: string, open: () => Promise<T>): Promise<T> {
  let opened = map.get(name)
  if (opened === undefined) {
    opened = open()
    map.set(name, opened)
    void opened.catch(() => map.delete(name))
  }
  return opened
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function asBrokerError(error: unknown): BrokerError {
  if (error instanceof BrokerError) return error
  const cause = error instanceof Error ? error : new Error(String(error))
  const api = error instanceof NatsError ? error.api_error : undefined
  const code: BrokerErrorCode =
    api?.err_code === WRONG_LAST_SEQUENCE || cause.message.includes('wrong last sequence')
      ? 'conflict'
      : api?.code === 404 || cause.message === '404'
        ? 'not-found'
        : /digest|corrupt/.test(cause.message)
          ? 'corrupt'
          : 'unavailable'
  return new BrokerError(code, cause.message, { cause })
}

/** Codes of NATS, of TLS and of what reads credentials. */
const REFUSALS =
  /AUTHORIZATION_VIOLATION|AUTHENTICATION|BAD_AUTHENTICATION|BAD_CREDS|EXPIRED|CERT|SELF_SIGNED|TLS|SSL|SERVER_OPT|nkey|seed|credentials|certificate/i

/** What the package says in one word. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  AUTHORIZATION_VIOLATION: 'the server does not accept these credentials, or wants some',
  BAD_CREDS: 'the credentials file cannot be read as one',
  SERVER_OPT_NA: 'TLS is asked for, and the server has none',
}

/** What the operator has to know to put it right. */
function asConnectError(error: unknown): BrokerError {
  const cause = error instanceof Error ? error : new Error(String(error))
  const { code } = cause as { readonly code?: unknown }
  const word = typeof code === 'string' ? code : ''
  const explanation = EXPLANATIONS[word]
  const message = explanation === undefined ? cause.message : `${explanation} (${cause.message})`
  const isRefusal = explanation !== undefined || REFUSALS.test(`${word} ${cause.message}`)
  return new BrokerError(isRefusal ? 'refused' : 'unavailable', message, { cause })
}
