/**
 * The transport for browsers, workers and Node, with `fetch`.
 *
 * Node's own `fetch` has no option for a certificate authority or a client certificate. They require a `dispatcher`
 * from the undici package, whose version must match the built-in one. This file therefore leaves TLS to the platform.
 */
import { orAborted } from '../../support/deadline.js'
import { type Impersonation, impersonationHeaders } from './impersonation-headers.js'
import { queryText, type Transport, type TransportRequest, type TransportResponse } from './transport.js'

/** Where `fetchTransport` sends its requests, and with which credentials. */
export interface FetchTransportOptions {
  /**
   * `http://127.0.0.1:8001`, or '' in a browser for the page's own origin. If it contains a path, that is prefixed to
   * all paths.
   */
  readonly server: string
  /** Sent as `Authorization: Bearer`. A function is called for each request, so that a rotated token is used. */
  readonly token?: string | (() => string | Promise<string>)
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Impersonates another user, with at most one group and one value per extra key, because `fetch` would join several
   * values into one header.
   */
  readonly impersonate?: Impersonation
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
}

/** Returns a transport over `fetch`. @throws Error when `impersonate` has several values of one header. */
export function fetchTransport(options: FetchTransportOptions): Transport {
  const impersonation = impersonationHeaders(options.impersonate)
  const asAnother = Object.fromEntries(impersonation)
  if (Object.keys(asAnother).length < impersonation.length) {
    throw new Error(
      'fetch joins several values of a header into one: impersonate with at most one group, or use nodeTransport',
    )
  }
  const server = options.server.replace(/\/+$/, '')
  return {
    async send(request: TransportRequest): Promise<TransportResponse> {
      const { token } = options
      // A token that never comes must not keep the caller.
      const bearer = typeof token === 'function' ? await orAborted(Promise.resolve(token()), request.signal) : token
      const send = options.fetch ?? globalThis.fetch
      const init = {
        method: request.method ?? 'GET',
        headers: {
          accept: request.accept,
          ...options.headers,
          ...asAnother,
          ...request.headers,
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
        },
        ...(request.body === undefined ? {} : { body: request.body }),
        cache: 'no-store' as const,
        signal: request.signal,
      }
      const response = await send(`${server}${request.path}${queryText(request.query)}`, init)
      return {
        status: response.status,
        header: (name) => response.headers.get(name),
        body: chunksOf(response.body),
      }
    },
  }
}

/** Reads a stream with a reader, because streams are not iterable in some browsers. */
async function* chunksOf(stream: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array, void, undefined> {
  if (stream === null) return
  const reader = stream.getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value
  } finally {
    // A caller that stops reading early must free the connection. After an error there is nothing left to cancel.
    await reader.cancel().catch(() => undefined)
  }
}
