/** A connection to NATS as the broker of a fleet. Only this folder imports the package `nats`. */
import { isIP } from 'node:net'
import {
  type Authenticator,
  connect,
  type ConnectionOptions,
  createInbox,
  credsAuthenticator,
  DiscardPolicy,
  Events,
  type JetStreamManager,
  type Msg,
  nanos,
  type NatsConnection,
  type ServerInfo,
  nkeyAuthenticator,
  RetentionPolicy,
  StorageType,
  usernamePasswordAuthenticator,
} from 'nats'
import { type Clock, sleep, type Timer } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import {
  type Broker,
  BrokerError,
  type Closable,
  type FollowHandlers,
  type StreamLimits,
  type StreamState,
} from '../broker.js'
import { apiConnection } from './api-connection.js'
import { asBrokerError, asConnectError, isUnanswered } from './nats-error.js'
import { Buckets } from './buckets.js'
import { bufferOf } from './buffer-of.js'
import type { StreamPlacement } from './server-reach.js'
import { StreamFollower } from './stream-follower.js'
import { StreamWriter } from './stream-writer.js'

export interface NatsConnectOptions {
  readonly servers: readonly string[]
  readonly name: string
  /** Secrets are read for each connection, because they may have changed since the last one. */
  readonly user?: { readonly name: string; readonly password: () => string }
  /** The contents of a credentials file. */
  readonly credentials?: () => Buffer
  /** The seed of an nkey. */
  readonly nkeySeed?: () => Buffer
  /** Paths; the files are read for each connection. */
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string }
  /** Called when an established connection is in trouble and is being retried; `reason` is what the server said. */
  readonly onTrouble?: (reason: string) => void
}

interface StreamInfoAnswer {
  readonly cluster?: {
    readonly leader?: string
    readonly replicas?: readonly {
      readonly name: string
      readonly current?: boolean
      readonly offline?: boolean
      /** Nanoseconds since it was last heard. */
      readonly active?: number
    }[]
  }
}

/** Resolves to true once the server has answered. May never resolve; never rejects. */
export type ServerQuestion = (client: NatsClient) => Promise<boolean>

const API_TIMEOUT_MS = 5_000
/** A stream without a leader drops requests, and may have a leader a moment later. */
const ASK_AGAIN_MS = 1_000
const ALIVE_MS = 1_000
/** How long a leader may take to name its followers: it is asked again soon. */
const LEADER_TIMEOUT_MS = 1_000
/** An answer larger than a message arrives in parts; no publisher sends more parts than this. */
const MAX_PARTS = 256
/** The share of the server's message size reserved for headers and protocol. */
const ENVELOPE_BYTES = 4_096
const PART_HEADER_BYTES = 4
const NS_PER_MS = 1e6
const CLOSED = 'the connection is closed'
const NOTHING: Closable = { close: () => {} }
/** The longest wait for a new connection after the old one was closed on purpose. */
const RECONNECT_MS = 10_000

export class NatsClient implements Broker {
  readonly #connection: NatsConnection
  readonly #api: NatsConnection
  readonly #clock: Clock
  readonly #servers: readonly string[]
  readonly #listeners = new Set<() => void>()
  readonly #usedStreams = new Set<string>()
  #onDoubt: ((subject: string, question: ServerQuestion) => void) | null = null
  /** Key-value buckets and object stores. */
  readonly buckets: Buckets
  #jsm: Promise<JetStreamManager> | null = null
  #isConnected = true
  #lastInfo: ServerInfo | undefined

  /**
   * Tries each server once. A connection that is lost later reconnects by itself, however long that takes.
   *
   * @throws BrokerError `refused`, or `unavailable` when no server answers.
   */
  static async connect(options: NatsConnectOptions, clock: Clock): Promise<NatsClient> {
    return await this.#connect(options, clock, {
      maxReconnectAttempts: -1,
      // A password change in progress must not end the process.
      ignoreAuthErrorAbort: true,
      reconnectTimeWait: 250,
      reconnectJitter: 250,
    })
  }

  /**
   * Connects to this server and no other, and does not reconnect.
   *
   * @param server one of `options.servers`, or an address that a server advertised.
   * @throws BrokerError
   */
  static async connectToOne(server: string, options: NatsConnectOptions, clock: Clock): Promise<NatsClient> {
    const { servers, tls } = options
    const single = { reconnect: false, ignoreClusterUpdates: true }
    // No certificate names an advertised address: the library expects the name of the server that advertised it.
    const isTold = !servers.includes(server) && (tls !== undefined || server.startsWith('tls://'))
    const servername = isTold ? hostNameOf(servers[0] ?? '') : null
    const more = servername === null ? single : { ...single, tls: { ...tls, servername } }
    return await this.#connect({ ...options, servers: [server] }, clock, more)
  }

  static async #connect(options: NatsConnectOptions, clock: Clock, more: ConnectionOptions): Promise<NatsClient> {
    const { servers, name, tls, onTrouble } = options
    const authenticator = authenticatorOf(options)
    const authentication = authenticator === null ? {} : { authenticator }
    try {
      const connection = await connect({
        servers: [...servers],
        name,
        timeout: 3_000,
        pingInterval: 3_000,
        maxPingOut: 2,
        ...authentication,
        ...(tls === undefined ? {} : { tls: { ...tls } }),
        ...more,
      })
      return new NatsClient(connection, servers, clock, onTrouble ?? (() => {}))
    } catch (error) {
      throw asConnectError(error)
    }
  }

  private constructor(
    connection: NatsConnection,
    servers: readonly string[],
    clock: Clock,
    onTrouble: (reason: string) => void,
  ) {
    this.#connection = connection
    this.#api = apiConnection(connection, clock)
    this.#servers = servers
    this.#clock = clock
    this.buckets = new Buckets({
      jetStream: this.#api.jetstream({ timeout: API_TIMEOUT_MS }),
      manager: () => this.#manager(),
      maxPayloadBytes: () => this.maxPayloadBytes,
      flushed: () => connection.flush(),
      onUse: (stream) => void this.#usedStreams.add(stream),
      onUnanswered: (stream) => this.#doubtStream(stream),
      clock,
    })
    void this.#watchStatus(onTrouble)
  }

  get isConnected(): boolean {
    return this.#isConnected
  }

  get maxPayloadBytes(): number {
    return (this.#connection.info?.max_payload ?? 2 ** 20) - ENVELOPE_BYTES
  }

  /** Calls the listener when the connection is lost and when it is back. */
  onChange(listener: () => void): Closable {
    this.#listeners.add(listener)
    return { close: () => this.#listeners.delete(listener) }
  }

  // Servers

  /** The server's own description; while disconnected, that of the last server. */
  get #info(): ServerInfo | undefined {
    this.#lastInfo = this.#connection.info ?? this.#lastInfo
    return this.#lastInfo
  }

  /** The addresses of all known servers, configured or advertised. */
  get servers(): readonly string[] {
    const scheme = this.#servers[0]?.match(/^[a-z]+:\/\//)?.[0] ?? ''
    const told = (this.#info?.connect_urls ?? []).map((address) => `${scheme}${address}`)
    return [...new Set([...this.#servers, ...told])]
  }

  /** Identifies the server at the other end of the connection. */
  get serverId(): string {
    return this.#connection.info?.server_id ?? ''
  }

  /** The name of that server, as used by stream leaders. */
  get serverName(): string {
    return this.#connection.info?.server_name ?? ''
  }

  /** Whether that server answers within a second. */
  async isAlive(): Promise<boolean> {
    const late = (): Error => new BrokerError('unavailable', `no answer within ${ALIVE_MS} ms`)
    return await withDeadline(this.#clock, ALIVE_MS, undefined, late, () => this.#connection.flush()).then(
      () => true,
      () => false,
    )
  }

  /** Connects to the next server. Resolves when connected, or after a time limit. */
  async reconnect(signal: AbortSignal): Promise<void> {
    const waiting = new AbortController()
    const stop = (): void => waiting.abort()
    let wasLost = false
    const change = this.onChange(() => {
      wasLost ||= !this.#isConnected
      if (wasLost && this.#isConnected) stop()
    })
    signal.addEventListener('abort', stop, { once: true })
    await this.#connection.reconnect()
    await sleep(this.#clock, RECONNECT_MS, waiting.signal)
    change.close()
    signal.removeEventListener('abort', stop)
  }

  /**
   * @param onDoubt called when something is not answered although the connection is healthy, with a function that asks
   * again.
   */
  onDoubt(onDoubt: (subject: string, question: ServerQuestion) => void): void {
    this.#onDoubt = onDoubt
  }

  doubtSubject(subject: string): void {
    this.#onDoubt?.(subject, (client) => {
      return new Promise((resolve) => {
        const listening = client.subscribe(subject, () => {
          listening.close()
          resolve(true)
        })
      })
    })
  }

  #doubtStream(stream: string): void {
    this.#onDoubt?.(stream, async (client) => {
      return await client.streamState(stream).then(
        () => true,
        () => false,
      )
    })
  }

  #doubtConsumer(stream: string): void {
    this.#onDoubt?.(`${stream} >`, (client) => {
      return new Promise((resolve) => {
        const finish = (isHeard: boolean): void => {
          following.close()
          resolve(isHeard)
        }
        const following = client.follow(stream, 1, {
          onMessage: () => finish(true),
          onIdle: () => finish(true),
          onEnd: () => resolve(false),
        })
      })
    })
  }

  #failed(stream: string, error: unknown): BrokerError {
    const failure = asBrokerError(error)
    if (isUnanswered(failure)) this.#doubtStream(stream)
    return failure
  }

  async close(): Promise<void> {
    this.#listeners.clear()
    await this.#connection.close()
  }

  // Streams

  async ensureStream(name: string, subject: string, limits: StreamLimits): Promise<void> {
    this.#usedStreams.add(name)
    // An existing stream can answer without the cluster's leader, which is needed to create streams.
    if ((await this.streamState(name)) !== null) return
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
      // A stream that was created with other limits keeps them.
      const state = await this.streamState(name)
      if (state === null) throw asBrokerError(error)
    }
  }

  async streamState(name: string): Promise<StreamState | null> {
    try {
      const { streams } = await this.#manager()
      const { state, created } = await this.#askUntilAnswered(() => streams.info(name))
      return { first: state.first_seq, last: state.last_seq, created }
    } catch (error) {
      const failure = this.#failed(name, error)
      if (failure.code === 'not-found') return null
      throw failure
    }
  }

  async message(stream: string, sequence: number): Promise<Buffer | null> {
    try {
      const { streams } = await this.#manager()
      const { data } = await this.#askUntilAnswered(() => streams.getMessage(stream, { seq: sequence }))
      return bufferOf(data)
    } catch (error) {
      const failure = this.#failed(stream, error)
      if (failure.code === 'not-found') return null
      throw failure
    }
  }

  openWriter(stream: string, subject: string): StreamWriter {
    return new StreamWriter(this.#connection, subject, this.#clock, () => this.#doubtStream(stream))
  }

  follow(stream: string, startSequence: number, handlers: FollowHandlers): Closable {
    this.#usedStreams.add(stream)
    if (this.#connection.isClosed()) {
      queueMicrotask(() => handlers.onEnd(CLOSED))
      return NOTHING
    }
    const onSilent = (): void => this.#doubtConsumer(stream)
    const follower = new StreamFollower(this.#connection, this.#clock, { ...handlers, onSilent })
    void this.#manager().then(
      (manager) => follower.open(manager, stream, startSequence),
      (error: unknown) => follower.end(asBrokerError(error).message),
    )
    return follower
  }

  // Leaders

  /** All streams that this client has read or written, including those of buckets. */
  get usedStreams(): readonly string[] {
    return [...this.#usedStreams]
  }

  /**
   * Returns where a stream is kept; null if no leader answers within a second. A stream that is gone has no leader and
   * no followers.
   */
  async placement(stream: string): Promise<StreamPlacement | null> {
    try {
      const answer = await this.#api.request(`$JS.API.STREAM.INFO.${stream}`, '', { timeout: LEADER_TIMEOUT_MS })
      const { leader = '', replicas = [] } = answer.json<StreamInfoAnswer>().cluster ?? {}
      return {
        leader,
        followers: replicas.map(({ name, current, offline, active = 0 }) => ({
          server: name,
          isCurrent: current === true && offline !== true,
          silentMs: active / NS_PER_MS,
        })),
      }
    } catch {
      return null
    }
  }

  /** Whether the servers accept a named successor: from 2.11 on. */
  get takesSuccessors(): boolean {
    const [major = 0, minor = 0] = (this.#info?.version ?? '').split('.').map(Number)
    return major > 2 || (major === 2 && minor >= 11)
  }

  /**
   * Asks the leader of a stream to let another server lead. There is no answer: a server that is not the leader may
   * answer first, and the leader itself needs the cluster's leader.
   *
   * @param successor the name of that server; null leaves the choice to the leader.
   */
  stepDown(stream: string, successor: string | null): void {
    if (!this.#isConnected || this.#connection.isClosed()) return
    const body = successor === null ? '' : JSON.stringify({ placement: { preferred: successor } })
    // The API ignores requests without a reply subject.
    this.#connection.publish(`$JS.API.STREAM.LEADER.STEPDOWN.${stream}`, body, { reply: createInbox() })
  }

  // Subjects

  publish(subject: string, data: Buffer): void {
    if (!this.#connection.isClosed()) this.#connection.publish(subject, data)
  }

  subscribe(subject: string, onMessage: (data: Buffer) => void): Closable {
    if (this.#connection.isClosed()) return NOTHING
    const subscription = this.#connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) onMessage(bufferOf(message.data))
      },
    })
    return { close: () => subscription.unsubscribe() }
  }

  /** An answer larger than a message is sent in parts. */
  respond(subject: string, answer: (question: Buffer) => Promise<Buffer | null>): Closable {
    if (this.#connection.isClosed()) return NOTHING
    const reply = async (message: Msg): Promise<void> => {
      const whole = await answer(bufferOf(message.data))
      if (whole === null) return
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

  ask(subject: string, question: Buffer, timeoutMs: number, signal?: AbortSignal): Promise<Buffer> {
    if (this.#connection.isClosed()) return Promise.reject(new BrokerError('unavailable', CLOSED))
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
    this.#isConnected = false
  }

  /**
   * Repeats the request every second until one is answered or the first times out. Shorter timeouts were rejected: a
   * slow NATS would never be heard.
   */
  #askUntilAnswered<T>(ask: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let timer: Timer | null = null
      const finish = (settle: () => void): void => {
        timer?.cancel()
        timer = null
        settle()
      }
      const askOnce = (isFirst: boolean): void => {
        timer = this.#clock.setTimer(ASK_AGAIN_MS, () => askOnce(false))
        ask().then(
          (answer) => finish(() => resolve(answer)),
          (error: unknown) => {
            // The first request reports why a repetition failed, no later than it would have alone.
            if (isFirst || !isUnanswered(asBrokerError(error))) finish(() => reject(error as Error))
          },
        )
      }
      askOnce(true)
    })
  }

  #manager(): Promise<JetStreamManager> {
    this.#jsm ??= this.#api.jetstreamManager({ timeout: API_TIMEOUT_MS, checkAPI: false })
    return this.#jsm
  }
}

function authenticatorOf(options: NatsConnectOptions): Authenticator | null {
  const { user, credentials, nkeySeed, onTrouble } = options
  if (user !== undefined) {
    return lastUsable(user.password, (password) => usernamePasswordAuthenticator(user.name, password), onTrouble)
  }
  if (credentials !== undefined) return lastUsable(credentials, credsAuthenticator, onTrouble)
  return nkeySeed === undefined ? null : lastUsable(nkeySeed, nkeyAuthenticator, onTrouble)
}

/**
 * Reads the secret for each connection. One that cannot be used, as that of a file that is missing or half written, is
 * reported, and the last usable one serves instead: the library closes a connection for good when its authenticator throws.
 *
 * The first secret has no predecessor, so its error ends the attempt to connect.
 */
function lastUsable<T>(
  read: () => T,
  authenticatorFor: (secret: T) => Authenticator,
  onTrouble: (reason: string) => void = () => {},
): Authenticator {
  let usable: Authenticator | null = null
  return (nonce) => {
    try {
      const authenticator = authenticatorFor(read())
      const answer = authenticator(nonce)
      usable = authenticator
      return answer
    } catch (error) {
      if (usable === null) throw error
      onTrouble(`the credentials cannot be used: ${error instanceof Error ? error.message : String(error)}`)
      return usable(nonce)
    }
  }
}

/** Returns null for an address without a name. */
function hostNameOf(server: string): string | null {
  const { hostname } = new URL(server.includes('://') ? server : `nats://${server}`)
  return isIP(hostname.replace(/^\[(.*)\]$/, '$1')) === 0 ? hostname : null
}
