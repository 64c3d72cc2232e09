/**
 * The transport of Node, by `node:http` and `node:https`: the one that takes an authority, a client certificate and a
 * server name. `fetch` in Node takes none of them without the undici package in the version that suits the built-in one.
 * It also costs less per chunk, since no web stream lies between.
 *
 * Redirects are not followed: whoever answers one could send our credentials elsewhere.
 */
import http from 'node:http'
import https from 'node:https'
import type { Credentials, CredentialSource } from './exec-credentials.js'
import { queryText, type Transport, type TransportRequest, type TransportResponse } from '../../reflector/transport.js'

export interface NodeTransportOptions {
  /** `https://…` or `http://…`. A path in it is kept. */
  readonly server: string
  /** PEM. Default: the system's authorities. */
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  /** The name the certificate must have, where it is not the URL's. */
  readonly tlsServerName?: string
  readonly insecureSkipTlsVerify?: boolean
  /** Asked at each request, so that a rotated token file is read. */
  readonly authorization?: () => string | null
  /** Asked at each request as well: what has to be fetched, and expires. */
  readonly credentials?: CredentialSource
}

export function nodeTransport(options: NodeTransportOptions): Transport & { close(): void } {
  const server = options.server.replace(/\/+$/, '')
  const isPlain = server.startsWith('http:')
  const start = isPlain ? http.request : https.request
  let agent = agentOf(options, isPlain)
  let shown: Credentials = {}
  const agentFor = (credentials: Credentials): http.Agent => {
    if (isPlain || (credentials.cert === shown.cert && credentials.key === shown.key)) return agent
    // What is running goes on as who it was.
    retire(agent)
    const { cert, key } = credentials
    agent = agentOf({ ...options, ...(cert === undefined || key === undefined ? {} : { cert, key }) }, isPlain)
    shown = credentials
    return agent
  }
  return {
    close: () => agent.destroy(),
    async send(request: TransportRequest): Promise<TransportResponse> {
      const { credentials: source } = options
      const credentials = (await source?.current()) ?? {}
      const authorization = options.authorization?.() ?? credentials.authorization ?? null
      const incoming = await new Promise<http.IncomingMessage>((resolve, reject) => {
        const outgoing = start(
          `${server}${request.path}${queryText(request.query)}`,
          {
            agent: agentFor(credentials),
            method: request.method ?? 'GET',
            signal: request.signal,
            headers: {
              accept: request.accept,
              ...request.headers,
              ...(authorization === null ? {} : { authorization }),
            },
          },
          resolve,
        )
        outgoing.on('error', reject)
        outgoing.end()
      })
      if (incoming.statusCode === 401) source?.refused(credentials)
      return responseOf(incoming)
    },
  }
}

function agentOf(options: NodeTransportOptions, isPlain: boolean): http.Agent {
  // TCP keepalive notices a peer that is gone while a watch is idle; sockets are bounded by one request per reflector.
  const shared = { keepAlive: true, keepAliveMsecs: 30_000 }
  return isPlain ? new http.Agent(shared) : new https.Agent({ ...shared, ...tlsOptions(options) })
}

/** Its idle connections end now, the others with their request. */
function retire(agent: http.Agent): void {
  agent.maxFreeSockets = 0
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
}

function tlsOptions(options: NodeTransportOptions): https.AgentOptions {
  const { ca, cert, key, tlsServerName, insecureSkipTlsVerify } = options
  return {
    minVersion: 'TLSv1.2',
    rejectUnauthorized: insecureSkipTlsVerify !== true,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
  }
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
