/** The TLS options of a client connection, and the agent built from them. */
import { X509Certificate } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { isIP } from 'node:net'
import { checkServerIdentity, type ConnectionOptions, createSecureContext } from 'node:tls'
import { errorMessage } from './error-message.js'

export interface TlsClientOptions {
  /** PEM. Default: the system's authorities. */
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  /** The expected name in the certificate, if it differs from the host of the URL. */
  readonly tlsServerName?: string
  readonly insecureSkipTlsVerify?: boolean
}

/** @param url decides between HTTP and HTTPS. */
export function agentFor(url: string, tls: TlsClientOptions, options: http.AgentOptions): http.Agent {
  if (url.startsWith('http:')) return withListener(new http.Agent(options))
  const { ca, cert, key, tlsServerName, insecureSkipTlsVerify } = tls
  const agent = new https.Agent({
    ...options,
    minVersion: 'TLSv1.2',
    rejectUnauthorized: insecureSkipTlsVerify !== true,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === undefined ? {} : expecting(tlsServerName)),
  })
  return withListener(agent)
}

/**
 * Gives each connection a listener for errors. A request that is aborted when its whole response has arrived, but has
 * not been read, destroys the connection with an error after Node has removed its own listener: that would end the
 * process.
 */
function withListener(agent: http.Agent): http.Agent {
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, onCreate) => connect(options, onCreate)?.on('error', () => undefined)
  return agent
}

/** Options of a connection whose certificate must be valid for the name; SNI cannot carry an address (RFC 6066). */
export function expecting(name: string): Pick<ConnectionOptions, 'servername' | 'checkServerIdentity'> {
  if (isIP(name) === 0) return { servername: name }
  return { servername: '', checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate) }
}

/** @throws Error when TLS cannot use the files: a key of another certificate, or no certificate at all. */
export function assertUsable({ ca, cert, key }: Pick<TlsClientOptions, 'ca' | 'cert' | 'key'>): void {
  createSecureContext({
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  })
  // OpenSSL accepts a file of authorities without any.
  if (ca !== undefined) assertCertificate(ca)
}

function assertCertificate(ca: string | Buffer): void {
  try {
    void new X509Certificate(ca)
  } catch (error) {
    throw new Error(`there is no authority that can be read: ${errorMessage(error)}`, { cause: error })
  }
}

/** Fails a request if the server upgrades it unasked: without a listener, Node silently drops the request. */
export function refuseUpgrade(request: http.ClientRequest): void {
  request.once('upgrade', (_answer, socket) => {
    socket.destroy()
    request.emit('error', new Error('an upgrade that was not asked for'))
  })
}

/** Ends the idle connections of an agent that gets no more requests; those in use end with their requests. */
export function retireAgent(agent: http.Agent): void {
  agent.maxFreeSockets = 0
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
}
