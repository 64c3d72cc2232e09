/**
 * Calls to etcd. They go to the endpoint in use or, if it fails, to the next one. They carry the user's token and are
 * counted in metrics. Every kind of failure becomes an `UpstreamError`.
 */
import { Readable } from 'node:stream'
import type { UpstreamMetrics } from '../../model/stage-metrics.js'
import { UpstreamError } from '../upstream.js'
import { AuthToken, type EtcdUser } from './auth-token.js'
import {
  decodeAuthenticateResponse,
  decodeStatusResponse,
  encodeAuthenticateRequest,
  encodeStatusRequest,
  paths,
  type StatusResponse,
} from './control-messages.js'
import type { EndpointPool } from './endpoint-pool.js'
import { isLeaderChange, isTokenRejected, toUpstreamError } from './etcd-error.js'
import { ConnectionLostError, RpcError } from './rpc-status.js'
import { AbandonedError, type GrpcEndpoint } from './grpc-endpoint.js'

export interface EtcdCallsOptions {
  /** null for calls without a token. */
  readonly user: EtcdUser | null
  /** The time limit of one call to one endpoint, in milliseconds. */
  readonly requestTimeoutMs: number
  readonly metrics: UpstreamMetrics | undefined
}

export interface CallOptions {
  /** Whether the call changes nothing. If so, it is repeated at the next endpoint when one does not respond. */
  readonly isRepeatable: boolean
  /** A shorter time limit for every endpoint except the last one tried. */
  readonly attemptMs?: number
  readonly signal?: AbortSignal
}

export class EtcdCalls {
  readonly token: AuthToken
  readonly #pool: EndpointPool
  readonly #options: EtcdCallsOptions

  constructor(pool: EndpointPool, options: EtcdCallsOptions) {
    this.#pool = pool
    this.#options = options
    this.token = new AuthToken(options.user, (user) => this.#authenticate(user))
  }

  /** @throws UpstreamError */
  async call(path: string, request: Uint8Array, options: CallOptions): Promise<Buffer> {
    const startedMs = performance.now()
    let outcome = 'ok'
    try {
      const { isRepeatable, signal } = options
      return await this.#attempt(options, (endpoint, timeoutMs) =>
        this.#withToken((metadata) =>
          endpoint.unary(path, request, {
            metadata,
            timeoutMs,
            isRepeatable,
            ...(signal === undefined ? {} : { signal }),
          }),
        ),
      )
    } catch (error) {
      outcome = error instanceof UpstreamError ? error.code : 'error'
      throw error
    } finally {
      // A call that the caller aborted says nothing about etcd.
      if (options.signal?.aborted !== true) {
        this.#options.metrics?.etcdRequestEnded(operationOf(path), outcome, (performance.now() - startedMs) / 1000)
      }
    }
  }

  /**
   * Yields the messages of a call with many responses, from the endpoint in use. At most `MESSAGES_AHEAD` messages wait
   * here. The metric counts only the time spent waiting for etcd. A failed call is not repeated.
   *
   * @throws UpstreamError
   */
  async *stream(path: string, request: Uint8Array, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const endpoint = await this.#pool.pick(signal)
    let outcome = 'ok'
    let waitedMs = 0
    let sinceMs = performance.now()
    try {
      // Get the first message inside `#withToken`: if etcd refuses the token, it does so before that message.
      const { messages, first } = await this.#withToken(async (metadata) => {
        const opened = messagesOf(endpoint, { path, metadata, request, signal })[Symbol.asyncIterator]()
        return { messages: opened, first: await opened.next() }
      })
      try {
        for (let next = first; next.done !== true; next = await messages.next()) {
          waitedMs += performance.now() - sinceMs
          yield next.value as Buffer
          sinceMs = performance.now()
        }
      } finally {
        await messages.return?.()
      }
    } catch (error) {
      const upstreamError = toUpstreamError(error, endpoint.url)
      outcome = upstreamError.code
      if (outcome === 'unavailable' && !signal.aborted) this.#pool.suspect(endpoint)
      throw upstreamError
    } finally {
      if (!signal.aborted) this.#options.metrics?.etcdRequestEnded(operationOf(path), outcome, waitedMs / 1000)
    }
  }

  /**
   * Returns the response of one particular endpoint, whether or not it is in use. `timeoutMs` limits connecting, and
   * then the call.
   *
   * @throws UpstreamError
   */
  async callAt(
    endpoint: GrpcEndpoint,
    path: string,
    request: Uint8Array,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<Buffer> {
    if (!(await endpoint.connect(timeoutMs, signal))) {
      throw new UpstreamError('unavailable', `etcd ${endpoint.described()} cannot be reached`)
    }
    try {
      return await this.#withToken((metadata) =>
        endpoint.unary(path, request, { metadata, timeoutMs, ...(signal === undefined ? {} : { signal }) }),
      )
    } catch (error) {
      throw toUpstreamError(error, endpoint.url)
    }
  }

  /** Returns the status of one endpoint; see `callAt`. */
  async statusOf(endpoint: GrpcEndpoint, timeoutMs: number): Promise<StatusResponse | UpstreamError> {
    try {
      return decodeStatusResponse(await this.callAt(endpoint, paths.status, encodeStatusRequest(), timeoutMs))
    } catch (error) {
      return toUpstreamError(error, endpoint.url)
    }
  }

  /**
   * Tries each endpoint once. An attempt does not count if a retry can succeed at once: if its endpoint has gone
   * silent, if the cluster has elected another leader, or if the connection was lost, which may have happened long
   * before the call. Lost connections are excused only once for each endpoint.
   *
   * @throws UpstreamError
   */
  async #attempt(
    { isRepeatable, attemptMs, signal }: CallOptions,
    send: (endpoint: GrpcEndpoint, timeoutMs: number) => Promise<Buffer>,
  ): Promise<Buffer> {
    const { requestTimeoutMs } = this.#options
    const { length } = this.#pool.endpoints
    const endMs = performance.now() + requestTimeoutMs
    let losses = 0
    for (let attempts = isRepeatable ? length : 1; ;) {
      const endpoint = await this.#pool.pick(signal)
      try {
        // The last endpoint gets the full time.
        return await send(endpoint, attempts > 1 ? Math.min(attemptMs ?? Infinity, requestTimeoutMs) : requestTimeoutMs)
      } catch (error) {
        // No token could be fetched. That request has been repeated already, and says nothing about this endpoint.
        if (error instanceof UpstreamError) throw error
        const upstreamError = toUpstreamError(error, endpoint.url)
        if (upstreamError.code !== 'unavailable' || signal?.aborted) throw upstreamError
        const hasNewLeader = isLeaderChange(error)
        if (!hasNewLeader) this.#pool.suspect(endpoint)
        const isPassing =
          hasNewLeader || error instanceof AbandonedError || (error instanceof ConnectionLostError && losses++ < length)
        if (!isPassing || performance.now() >= endMs) attempts--
        if (!isRepeatable || attempts < 1) throw upstreamError
      }
    }
  }

  /**
   * If etcd refuses the token, repeats the call once with a fresh one. This is safe because etcd has not executed a
   * refused call.
   */
  async #withToken<T>(call: (metadata: Readonly<Record<string, string>>) => Promise<T>): Promise<T> {
    const metadata = await this.token.metadata()
    try {
      return await call(metadata)
    } catch (error) {
      if (!this.token.canRefresh || !(error instanceof RpcError) || !isTokenRejected(error.details)) throw error
      this.token.refuse(metadata)
      return call(await this.token.metadata())
    }
  }

  async #authenticate(user: EtcdUser): Promise<string> {
    const request = encodeAuthenticateRequest(user.name, user.password)
    const response = await this.#attempt({ isRepeatable: true }, (endpoint, timeoutMs) =>
      endpoint.unary(paths.authenticate, request, { metadata: {}, timeoutMs, isRepeatable: true }),
    )
    return decodeAuthenticateResponse(response)
  }
}

/** The number of messages that may wait until they are read. When there are more, etcd has to wait. */
const MESSAGES_AHEAD = 2

interface StreamCall {
  readonly path: string
  readonly metadata: Readonly<Record<string, string>>
  readonly request: Uint8Array
  readonly signal: AbortSignal
}

function messagesOf(endpoint: GrpcEndpoint, { path, metadata, request, signal }: StreamCall): Readable {
  signal.throwIfAborted()
  const messages = new Readable({
    objectMode: true,
    highWaterMark: MESSAGES_AHEAD,
    signal,
    read: () => call.resume(),
    destroy: (error, done) => {
      call.cancel()
      done(error)
    },
  })
  const call = endpoint.repeatableStream(path, metadata, {
    onMessage: (message) => {
      if (!messages.push(message)) call.pause()
    },
    onEnd: (error) => {
      if (error === null) messages.push(null)
      else messages.destroy(error)
    },
  })
  call.send(request)
  call.finish()
  return messages
}

/** Returns the operation for metrics, for instance `range` for `/etcdserverpb.KV/Range`. */
function operationOf(path: string): string {
  return path
    .slice(path.lastIndexOf('/') + 1)
    .replaceAll(/\B[A-Z]/g, '-$&')
    .toLowerCase()
}
