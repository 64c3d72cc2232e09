/**
 * One etcd endpoint over gRPC. This is the only file that knows @grpc/grpc-js.
 *
 * It transports bytes: messages go in encoded and come out as whole Buffers, because grpc-js's own (de)serialisation
 * costs half of what an event costs. Each endpoint has a channel of its own, instead of one channel over all endpoints,
 * because we must choose the endpoint ourselves: a member that answers `no leader` or does not answer at all still
 * counts as connected for gRPC.
 */
import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import {
  Client,
  connectivityState,
  credentials,
  Metadata,
  status,
  type ClientOptions,
  type ClientUnaryCall,
} from '@grpc/grpc-js'

/** PEM. Without `ca` the system's roots are used. */
export interface EtcdTls {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

export interface GrpcEndpointOptions {
  /** `http://host:port` or `https://host:port`; the port defaults to 2379. */
  readonly url: string
  readonly tls?: EtcdTls
  readonly keepAliveTimeMs: number
  readonly keepAliveTimeoutMs: number
  readonly maxReceivedBytes: number
}

export interface CallOptions {
  readonly metadata: Readonly<Record<string, string>>
  readonly timeoutMs: number
  /** `abandon` ends it: asking elsewhere does no harm. */
  readonly isRepeatable?: boolean
  readonly signal?: AbortSignal
}

export interface StreamHandlers {
  onMessage(message: Buffer): void
  /** Called once; with null when the server ended the stream without an error. Not called after `cancel`. */
  onEnd(error: RpcError | null): void
}

export interface GrpcStream {
  send(message: Uint8Array): void
  cancel(): void
}

/** A status as the server or the transport gave it, before it is interpreted. */
export class RpcError extends Error {
  override readonly name = 'RpcError'

  constructor(
    readonly code: status,
    readonly details: string,
  ) {
    super(`${status[code] ?? code}: ${details}`)
  }
}

export { status as RpcStatus }

const identity = (bytes: Buffer): Buffer => bytes
const toBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** A client with the credentials that were there when it was made, and the calls and streams that run over it. */
interface Connection {
  readonly client: Client
  uses: number
}

export class GrpcEndpoint {
  readonly url: string
  readonly #options: GrpcEndpointOptions
  #connection: Connection
  readonly #calls = new Map<ClientUnaryCall, boolean>()
  #heard = 0

  constructor(options: GrpcEndpointOptions) {
    this.url = options.url
    const { protocol } = new URL(options.url)
    if (protocol !== 'http:' && protocol !== 'https:') {
      throw new TypeError(`etcd endpoint ${options.url} is neither http:// nor https://`)
    }
    this.#options = options
    this.#connection = { client: openClient(options), uses: 0 }
  }

  /** How many messages have come from it, of whatever kind. */
  get heard(): number {
    return this.#heard
  }

  /**
   * Uses other credentials for whatever begins from now on. What runs goes on over the connection that it has, which is
   * closed after the last of it.
   */
  renew(tls: EtcdTls): void {
    if (!this.url.startsWith('https:')) return
    const previous = this.#connection
    this.#connection = { client: openClient({ ...this.#options, tls }), uses: 0 }
    if (previous.uses === 0) previous.client.close()
  }

  /** Whether it is connected. A peer that vanished silently is noticed only by keepalive or by a deadline. */
  isReady(): boolean {
    return this.#connection.client.getChannel().getConnectivityState(false) === connectivityState.READY
  }

  /**
   * Connects if necessary. Resolves with false as soon as an attempt has failed, the time is over or the signal aborts;
   * the channel goes on trying by itself.
   */
  async connect(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    const channel = this.#connection.client.getChannel()
    const deadline = Date.now() + timeoutMs
    for (;;) {
      const state = channel.getConnectivityState(true)
      if (state === connectivityState.READY) return true
      if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return false
      if (signal?.aborted || Date.now() >= deadline) return false
      await new Promise<void>((resolve) => {
        const done = (): void => {
          signal?.removeEventListener('abort', done)
          resolve()
        }
        signal?.addEventListener('abort', done, { once: true })
        channel.watchConnectivityState(state, deadline, done)
      })
    }
  }

  /** @throws RpcError */
  unary(path: string, request: Uint8Array, options: CallOptions): Promise<Buffer> {
    const { signal, timeoutMs } = options
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new RpcError(status.CANCELLED, 'the caller went away'))
      const abort = (): void => call.cancel()
      const release = this.#use()
      const call = this.#connection.client.makeUnaryRequest(
        path,
        toBuffer,
        identity,
        request,
        toMetadata(options.metadata),
        { deadline: Date.now() + timeoutMs },
        (error, response) => {
          this.#calls.delete(call)
          release()
          if (response) this.#heard++
          signal?.removeEventListener('abort', abort)
          if (error) return reject(new RpcError(error.code, error.details))
          if (!response) return reject(new RpcError(status.INTERNAL, 'no answer and no error'))
          resolve(response)
        },
      )
      this.#calls.set(call, options.isRepeatable === true)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  stream(path: string, metadata: Readonly<Record<string, string>>, handlers: StreamHandlers): GrpcStream {
    const release = this.#use()
    const call = this.#connection.client.makeBidiStreamRequest(path, toBuffer, identity, toMetadata(metadata))
    let isOver = false
    const end = (error: RpcError | null): void => {
      if (isOver) return
      isOver = true
      release()
      handlers.onEnd(error)
    }
    call.on('data', (message: Buffer) => {
      this.#heard++
      if (!isOver) handlers.onMessage(message)
    })
    call.on('error', (error: Error & { code?: status; details?: string }) =>
      end(new RpcError(error.code ?? status.UNKNOWN, error.details ?? error.message)),
    )
    call.on('end', () => end(null))
    return {
      send(message) {
        if (!isOver) call.write(message)
      },
      cancel() {
        if (!isOver) release()
        isOver = true
        call.cancel()
      },
    }
  }

  /** Fails the running calls that can be asked of another endpoint as well: this one has gone silent. */
  abandon(): void {
    for (const [call, isRepeatable] of this.#calls) if (isRepeatable) call.cancel()
  }

  /**
   * Fails the running unary calls; no call can be started afterwards. The owners of streams must cancel them before.
   */
  close(): void {
    for (const call of this.#calls.keys()) call.cancel()
    this.#connection.client.close()
  }

  #use(): () => void {
    const connection = this.#connection
    connection.uses++
    return () => {
      connection.uses--
      if (connection.uses === 0 && connection !== this.#connection) connection.client.close()
    }
  }
}

function openClient(options: GrpcEndpointOptions): Client {
  const { protocol, hostname, port } = new URL(options.url)
  const channelOptions: ClientOptions = {
    'grpc.max_receive_message_length': options.maxReceivedBytes,
    'grpc.max_send_message_length': -1,
    'grpc.keepalive_time_ms': options.keepAliveTimeMs,
    'grpc.keepalive_timeout_ms': options.keepAliveTimeoutMs,
    // etcd answers pings without a call with GOAWAY.
    'grpc.keepalive_permit_without_calls': 0,
    // A restarted etcd is found again within a second; callers back off by themselves.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1_000,
    // Only the caller knows whether a call may be repeated.
    'grpc.enable_retries': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
    'grpc.enable_channelz': 0,
    // HTTP/2's default of 64 KB delays every page of a list by round trips.
    'grpc-node.flow_control_window': 4 * 1024 * 1024,
  }
  const { ca, cert, key } = options.tls ?? {}
  let channelCredentials = credentials.createInsecure()
  if (protocol === 'https:') {
    const address = hostname.replace(/^\[(.*)\]$/, '$1')
    const isAddress = isIP(address) !== 0
    // TLS's server name must not be an address (RFC 6066), yet the certificate must be valid for the address.
    if (isAddress) channelOptions['grpc.ssl_target_name_override'] = 'localhost'
    const verification = isAddress
      ? {
          checkServerIdentity: (_: string, certificate: PeerCertificate) => checkServerIdentity(address, certificate),
        }
      : {}
    channelCredentials = credentials.createSsl(ca ?? null, key ?? null, cert ?? null, verification)
  }
  return new Client(`dns:${hostname}:${port || 2379}`, channelCredentials, channelOptions)
}

function toMetadata(entries: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(entries)) metadata.set(name, value)
  return metadata
}
