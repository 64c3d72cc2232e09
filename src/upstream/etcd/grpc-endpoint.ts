/**
 * One etcd endpoint over gRPC: the only file that knows @grpc/grpc-js.
 *
 * It carries bytes: messages go in encoded and come out as whole Buffers, because grpc-js's own (de)serialisation costs
 * half of what an event costs. A channel per endpoint, and not one channel over all of them, because the choice of the
 * endpoint must be ours: a member that answers `no leader` or not at all is connected as far as gRPC can tell.
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

/** PEM. Without `ca` the system's roots decide. */
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
  /** Once; null when the server ended the stream without an error. Not after `cancel`. */
  onEnd(error: RpcError | null): void
}

export interface GrpcStream {
  send(message: Uint8Array): void
  cancel(): void
}

/** A status as the server or the transport gave it, before anyone says what it means. */
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

export class GrpcEndpoint {
  readonly url: string
  readonly #client: Client
  readonly #calls = new Map<ClientUnaryCall, boolean>()
  #heard = 0

  constructor(options: GrpcEndpointOptions) {
    this.url = options.url
    const { protocol, hostname, port } = new URL(options.url)
    if (protocol !== 'http:' && protocol !== 'https:') {
      throw new TypeError(`etcd endpoint ${options.url} is neither http:// nor https://`)
    }
    const channelOptions: ClientOptions = {
      'grpc.max_receive_message_length': options.maxReceivedBytes,
      'grpc.max_send_message_length': -1,
      'grpc.keepalive_time_ms': options.keepAliveTimeMs,
      'grpc.keepalive_timeout_ms': options.keepAliveTimeoutMs,
      // etcd answers pings without a call with GOAWAY.
      'grpc.keepalive_permit_without_calls': 0,
      // A restarted etcd is found again within a second: what waits for it backs off by itself.
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1_000,
      // Whether a call may be repeated is decided where its meaning is known.
      'grpc.enable_retries': 0,
      'grpc.service_config_disable_resolution': 1,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_http_proxy': 0,
      'grpc.enable_channelz': 0,
      // HTTP/2's default of 64 KB stalls every page of a list for round trips.
      'grpc-node.flow_control_window': 4 * 1024 * 1024,
    }
    const { ca, cert, key } = options.tls ?? {}
    let channelCredentials = credentials.createInsecure()
    if (protocol === 'https:') {
      const address = hostname.replace(/^\[(.*)\]$/, '$1')
      const isAddress = isIP(address) !== 0
      // An address must not go into TLS's server name (RFC 6066), yet it is what the certificate has to be for.
      if (isAddress) channelOptions['grpc.ssl_target_name_override'] = 'localhost'
      const verification = isAddress
        ? {
            checkServerIdentity: (_: string, certificate: PeerCertificate) => checkServerIdentity(address, certificate),
          }
        : {}
      channelCredentials = credentials.createSsl(ca ?? null, key ?? null, cert ?? null, verification)
    }
    this.#client = new Client(`dns:${hostname}:${port || 2379}`, channelCredentials, channelOptions)
  }

  /** Messages that have come from it, of whatever kind. */
  get heard(): number {
    return this.#heard
  }

  /** False as well for a peer that is gone without having said so, until keepalive or a deadline finds out. */
  isReady(): boolean {
    return this.#client.getChannel().getConnectivityState(false) === connectivityState.READY
  }

  /**
   * Connects where it is not connected. Resolves with false as soon as an attempt has failed, the wait is over or the
   * signal aborts; the channel goes on trying by itself.
   */
  async connect(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    const channel = this.#client.getChannel()
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
      const call = this.#client.makeUnaryRequest(
        path,
        toBuffer,
        identity,
        request,
        toMetadata(options.metadata),
        { deadline: Date.now() + timeoutMs },
        (error, response) => {
          this.#calls.delete(call)
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
    const call = this.#client.makeBidiStreamRequest(path, toBuffer, identity, toMetadata(metadata))
    let isOver = false
    const end = (error: RpcError | null): void => {
      if (isOver) return
      isOver = true
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
        isOver = true
        call.cancel()
      },
    }
  }

  /** It has gone silent: what can be asked elsewhere as well fails at once. */
  abandon(): void {
    for (const [call, isRepeatable] of this.#calls) if (isRepeatable) call.cancel()
  }

  /** Unary calls under way fail; nothing can be started afterwards. Streams are their owners' to cancel, before. */
  close(): void {
    for (const call of this.#calls.keys()) call.cancel()
    this.#client.close()
  }
}

function toMetadata(entries: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(entries)) metadata.set(name, value)
  return metadata
}
