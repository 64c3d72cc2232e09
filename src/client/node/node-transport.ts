/**
 * The transport for Node. It uses `node:http` and `node:https`, because they accept a certificate authority, a client
 * certificate and a server name. Node's `fetch` accepts these only through the undici package, in exactly the version
 * built into Node. The two modules also cost less per chunk, since there is no web stream in between.
 *
 * Redirects are not followed, since they could send our credentials elsewhere.
 */
import http from 'node:http'
import https from 'node:https'
import type { Credentials, CredentialSource } from './exec-credentials.js'
import { headersByName, type Impersonation } from '../reflector/impersonation-headers.js'
import { queryText, type Transport, type TransportRequest, type TransportResponse } from '../reflector/transport.js'
import { orAborted } from '../../support/deadline.js'
import { agentFor, refuseUpgrade, retireAgent } from '../../support/https-agent.js'
import type { TlsClientOptions } from '../../support/tls-client-options.js'

/** Where `nodeTransport` sends its requests, and with which credentials. */
export interface NodeTransportOptions extends TlsClientOptions {
  /** `https://…` or `http://…`. If it contains a path, that is prefixed to all paths. */
  readonly server: string
  /** Called for each request, so that a rotated token file is reread. */
  readonly authorization?: () => string | null
  /** Credentials that must be fetched and that expire. The source is also called for each request. */
  readonly credentials?: CredentialSource
  /** Makes the requests as another user, if the server allows it. */
  readonly impersonate?: Impersonation
}

/** The transport that `nodeTransport` returns. */
export interface NodeTransport extends Transport {
  /** Closes all connections. */
  close(): void
  /** Allows no further requests. Idle connections end now, and the others when their request ends. */
  retire(): void
}

/** Returns a transport over `node:http` and `node:https`, with CAs and client certificates. */
export function nodeTransport(options: NodeTransportOptions): NodeTransport {
  const server = options.server.replace(/\/+$/, '')
  const asAnother = headersByName(options.impersonate)
  const isPlain = server.startsWith('http:')
  const start = isPlain ? http.request : https.request
  let agent = agentOf(options)
  let shown: Credentials = {}
  const agentWith = (credentials: Credentials): http.Agent => {
    if (isPlain || (credentials.cert === shown.cert && credentials.key === shown.key)) return agent
    // Running requests keep the identity they started with.
    retireAgent(agent)
    const { cert, key } = credentials
    agent = agentOf({ ...options, ...(cert === undefined || key === undefined ? {} : { cert, key }) })
    shown = credentials
    return agent
  }
  return {
    close: () => agent.destroy(),
    retire: () => retireAgent(agent),
    async send(request: TransportRequest): Promise<TransportResponse> {
      // Behind the server's port, `@example.org/` would name another host, which would get the credentials.
      if (!request.path.startsWith('/')) throw new Error(`the path ${request.path} does not begin with "/"`)
      const { credentials: source } = options
      // A source that hangs must not keep its caller.
      const credentials = source === undefined ? {} : await orAborted(source.current(), request.signal)
      const authorization = options.authorization?.() ?? credentials.authorization ?? null
      const incoming = await new Promise<http.IncomingMessage>((resolve, reject) => {
        const outgoing = start(
          `${server}${request.path}${queryText(request.query)}`,
          {
            agent: agentWith(credentials),
            method: request.method ?? 'GET',
            signal: request.signal,
            headers: {
              accept: request.accept,
              ...request.headers,
              ...asAnother,
              ...(authorization === null ? {} : { authorization }),
            },
          },
          resolve,
        )
        outgoing.on('error', reject)
        refuseUpgrade(outgoing)
        outgoing.end(request.body)
      })
      if (incoming.statusCode === 401) source?.refused(credentials)
      return responseOf(incoming)
    },
  }
}

function agentOf(options: NodeTransportOptions): http.Agent {
  // TCP keepalive detects a peer that disappears while a watch is idle.
  return agentFor(options.server, options, { keepAlive: true, keepAliveMsecs: 30_000 })
}

function responseOf(incoming: http.IncomingMessage): TransportResponse {
  return {
    status: incoming.statusCode ?? 0,
    header: (name) => {
      const value = incoming.headers[name.toLowerCase()]
      return value === undefined ? null : String(value)
    },
    body: incoming as AsyncIterable<Buffer>,
  }
}
