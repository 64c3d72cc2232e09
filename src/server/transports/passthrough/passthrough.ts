/**
 * Forwards requests that are not answered here to another server, and returns its responses. Both are streamed
 * unchanged, and each side is read only as fast as the other accepts data. A request to upgrade becomes a tunnel once
 * the other server has agreed (101).
 *
 * The other server authenticates the caller by the caller's own bearer token. If the caller authenticated here with
 * something that cannot be forwarded (a certificate), our proxy certificate is used, with the caller's name in headers.
 * Connections with that certificate carry no other requests, because without a name in the headers the other server
 * might treat the certificate itself as the caller. The other server also decides what the caller may do.
 *
 * A write is never sent twice, because this server cannot know whether it was performed before the connection broke.
 */
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { ApiServerReadiness } from '../../../support/api-server-readiness.js'
import { bufferOf } from '../../../support/buffer-of.js'
import { ConnectionCount } from '../../../support/connection-count.js'
import { withDeadline } from '../../../support/deadline.js'
import { ANONYMOUS, type User } from '../../auth/user.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import {
  BadGatewayError,
  ForbiddenError,
  ServiceUnavailableError,
  StatusError,
  TimeoutError,
} from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import type { Watched } from '../../auth/watched-file.js'
import type { Clock } from '../../../support/clock.js'
import { agentFor, refuseUpgrade, retireAgent } from '../../../support/https-agent.js'
import { readBytes } from '../../../support/read-bytes.js'
import type { TlsClientOptions } from '../../../support/tls-client-options.js'
import type { ForwardedCaller } from '../gate/caller.js'
import type { Exchange } from '../exchange/exchange.js'
import type { BodyKind } from '../exchange/request-body.js'
import { type OtherServer, PassedExchange, type Sender } from './passed-exchange.js'
import { framingHeaders, headerMatcher, requestHeaders } from './passed-headers.js'
import { KEEPALIVE_MS } from './tunnel.js'

export interface PassthroughOptions {
  /** `https://…` or `http://…`; a path in it is prepended to the request's. */
  readonly url: string
  /** The other server's name in messages: `the API server`. */
  readonly name: string
  /**
   * The trusted authorities (default: the system's) and our certificate. The certificate is used only for requests in a
   * user's name. Without it, callers without a bearer token cannot be forwarded. The files are watched until `close`.
   */
  readonly credentials: Watched<Pick<TlsClientOptions, 'ca' | 'cert' | 'key'>>
  /**
   * Whether tokens are never forwarded: with the proxy certificate every authenticated caller is forwarded by name.
   * Default: false.
   */
  readonly keepsTokens?: boolean
  /** Names of further headers to drop; `*` at the end matches any suffix. Default: none. */
  readonly stripHeaders?: readonly string[]
  /**
   * The status while the other server is unreachable: 503 if it answers for a part of the API served here. Default:
   * 502.
   */
  readonly unreachableStatus?: 502 | 503
  /** Slots for requests and tunnels: of the other server, by its URL, and of each of its callers. */
  readonly semaphores: Readonly<Record<'passthrough' | 'passthrough-per-client', Pick<IdentitySemaphore, 'acquire'>>>
  /** The time limit from the request to the head of the response. A stream may then last indefinitely. */
  readonly responseTimeoutMs: number
  readonly clock: Clock
  /** Called when the other server's response begins, or when the client gets an error instead. */
  readonly onResponse?: (code: number, seconds: number) => void
}

export interface DocumentOptions {
  readonly maxBytes: number
  /** The time limit from the request to the end of the response. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export interface DocumentResponse {
  readonly status: number
  readonly body: Buffer
}

const FREE_SOCKETS = 64
/** Anyone may read `/readyz`. */
const READER: User = { ...ANONYMOUS, name: 'system:distributary', groups: ['system:authenticated'] }
const READYZ: DocumentOptions = { maxBytes: 2 ** 16, timeoutMs: 5_000, signal: new AbortController().signal }

export class Passthrough {
  readonly #url: URL
  #agents: { readonly own: http.Agent; readonly proxy: http.Agent | null }
  readonly #tunnels = new Set<Duplex>()
  readonly #isStripped: (key: string) => boolean
  /** null for the server of an aggregated API, whose denials always count. */
  readonly #readiness: ApiServerReadiness | null
  readonly #connections = new ConnectionCount()
  readonly #server: OtherServer

  constructor(private readonly options: PassthroughOptions) {
    this.#url = new URL(options.url)
    this.#readiness =
      options.unreachableStatus === 503
        ? null
        : new ApiServerReadiness({
            connections: this.#connections,
            readyz: async () => {
              const { status } = await this.readDocument('/readyz', READER, READYZ)
              // Without a proxy certificate, a 401 only means that anonymous access is off. Treat it as if there were
              // no /readyz.
              return status === 401 && this.#agents.proxy === null ? 404 : status
            },
            clock: options.clock,
          })
    this.#isStripped = headerMatcher(options.stripHeaders ?? [])
    this.#agents = agentsOf(options)
    this.#server = {
      ...options,
      tunnels: this.#tunnels,
      isStripped: this.#isStripped,
      isReady: () => this.#readiness?.isSure === true,
      open: (exchange, sender, upgrade, body) => this.#open(exchange, sender, upgrade, body),
      responded: (incoming, wasReady) => this.#responded(incoming, wasReady),
      statusOf: (error, isRepeatable) => this.#statusOf(error, isRepeatable),
    }
    options.credentials.onChange(() => {
      retireAgent(this.#agents.own)
      if (this.#agents.proxy !== null) retireAgent(this.#agents.proxy)
      this.#agents = agentsOf(options)
    })
  }

  /**
   * Resolves when the client has been answered, whatever the response was.
   * @throws StatusError if nothing has been sent to the client: 403, 429, 502 (or 503, as `unreachableStatus` says), 504.
   */
  async pass(exchange: Exchange, caller: ForwardedCaller): Promise<void> {
    const asUser = this.#nameOf(caller)
    // Without an authenticator, this server authenticates no one, so the other server does it.
    const passesToken = asUser === null && (caller.user === null || caller.byToken)
    const { url, semaphores } = this.options
    const ofCaller = `${url} ${caller.identity}`
    const leaveOwn = await semaphores['passthrough-per-client'].acquire(ofCaller, exchange.signal)
    const leave = await semaphores.passthrough.acquire(url, exchange.signal).catch((error: unknown) => {
      leaveOwn()
      throw error
    })
    const startedMs = performance.now()
    const onHead = (code: number): void => this.options.onResponse?.(code, (performance.now() - startedMs) / 1000)
    try {
      const sender = { address: caller.address, asUser, passesToken }
      await new PassedExchange(exchange, sender, this.#server, onHead).done
    } catch (error) {
      onHead(statusOf(error).code)
      throw error
    } finally {
      leave()
      leaveOwn()
    }
  }

  /**
   * Reads a document of the other server for this server itself: as `asUser` with the proxy certificate, anonymously
   * without it.
   * @throws StatusError when there is no response; Error when it is longer than `maxBytes`.
   */
  async readDocument(
    path: string,
    asUser: User,
    { maxBytes, timeoutMs, signal }: DocumentOptions,
  ): Promise<DocumentResponse> {
    const user = this.#agents.proxy === null ? null : asUser
    const headers = requestHeaders({
      rawHeaders: ['Accept', 'application/json'],
      address: '',
      host: this.#url.host,
      asUser: user,
      passesToken: false,
      upgrade: null,
      framing: [],
      isStripped: this.#isStripped,
    })
    const { name, clock } = this.options
    const late = (): Error => new TimeoutError(`${name} did not answer in time`)
    const read = async (giveUp: AbortSignal): Promise<DocumentResponse> => {
      const outgoing = this.#send('GET', path, user, headers)
      giveUp.addEventListener('abort', () => outgoing.destroy(), { once: true })
      outgoing.on('error', () => undefined)
      refuseUpgrade(outgoing)
      const [incoming] = (await once(outgoing.end(), 'response')) as [http.IncomingMessage]
      this.#connections.note(incoming.socket)
      const body = bufferOf(await readBytes(incoming, maxBytes))
      return { status: incoming.statusCode ?? 502, body }
    }
    return await withDeadline(clock, timeoutMs, signal, late, read).catch((error: Error) => {
      throw this.#statusOf(error, true)
    })
  }

  close(): void {
    this.options.credentials.close()
    for (const socket of this.#tunnels) socket.destroy()
    this.#agents.own.destroy()
    this.#agents.proxy?.destroy()
  }

  /**
   * Returns the user whose name goes into the headers; null if the caller's own credentials are forwarded, or there are
   * none.
   */
  #nameOf({ user, isAnonymous, byToken }: ForwardedCaller): User | null {
    const { proxy } = this.#agents
    if (user === null || isAnonymous) return null
    if (byToken && (proxy === null || this.options.keepsTokens !== true)) return null
    if (proxy !== null) return user
    throw new ForbiddenError(
      `${this.options.name} cannot learn who is calling: a client certificate cannot be forwarded, and --proxy-client-cert-file is not set`,
    )
  }

  #open(exchange: Exchange, sender: Sender, upgrade: string | null, body: BodyKind): http.ClientRequest {
    const { request } = exchange
    const headers = requestHeaders({
      ...sender,
      rawHeaders: request.rawHeaders,
      host: this.#url.host,
      upgrade,
      framing: framingHeaders(body, request.headers['content-length']),
      isStripped: this.#isStripped,
    })
    return this.#send(request.method ?? 'GET', request.url ?? '/', sender.asUser, headers)
  }

  #send(method: string, path: string, asUser: User | null, headers: string[]): http.ClientRequest {
    const { own, proxy } = this.#agents
    const { protocol, hostname, port, pathname } = this.#url
    const start = protocol === 'http:' ? http.request : https.request
    return start({
      agent: asUser === null ? own : proxy!,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (protocol === 'http:' ? 80 : 443) : port,
      method,
      path: pathname.replace(/\/$/, '') + path,
      headers: headers as unknown as http.OutgoingHttpHeaders,
      setHost: false,
    })
  }

  #responded({ statusCode, socket }: http.IncomingMessage, wasReady: boolean): Promise<void> | undefined {
    this.#connections.note(socket)
    if (statusCode !== 403) {
      this.#readiness?.accepted()
      return undefined
    }
    return this.#readiness?.denied(wasReady)?.catch((cause: unknown) => {
      const why = { cause, details: { retryAfterSeconds: 1 } }
      throw new BadGatewayError(`${this.options.name} is starting`, why)
    })
  }

  /** @param isRepeatable whether the request may be sent again: it is a read, or has not been sent. */
  #statusOf(error: Error, isRepeatable: boolean): StatusError {
    if (error instanceof StatusError) return error
    const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
    const { name, unreachableStatus = 502 } = this.options
    if (code === 'ETIMEDOUT' && unreachableStatus === 502) {
      return new TimeoutError(`${name} could not be reached in time`, { cause: error })
    }
    const message = `${name} cannot be reached: ${code === '' ? error.message : code}`
    // Clients retry a response with Retry-After, so a write that may have been performed gets none.
    const why = { cause: error, ...(isRepeatable ? { details: { retryAfterSeconds: 1 } } : {}) }
    return unreachableStatus === 503 ? new ServiceUnavailableError(message, why) : new BadGatewayError(message, why)
  }
}

function agentsOf({ url, credentials: { value } }: PassthroughOptions): {
  readonly own: http.Agent
  readonly proxy: http.Agent | null
} {
  const { ca, cert } = value
  const options = { keepAlive: true, keepAliveMsecs: KEEPALIVE_MS, maxFreeSockets: FREE_SOCKETS }
  return {
    own: agentFor(url, ca === undefined ? {} : { ca }, options),
    proxy: cert === undefined ? null : agentFor(url, value, options),
  }
}
