/** The agent of a client connection, built from its TLS options. */
import { X509Certificate } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { isIP } from 'node:net'
import { checkServerIdentity, type ConnectionOptions, createSecureContext, type SecureContextOptions } from 'node:tls'
import { errorMessage } from './error-message.js'
import type { Pem, TlsClientOptions } from './tls-client-options.js'

/** @param url its scheme decides between HTTP and HTTPS. */
export function agentFor(url: string, tls: TlsClientOptions, options: http.AgentOptions): http.Agent {
  if (url.startsWith('http:')) return withListener(new http.Agent(options))
  return withListener(new https.Agent({ ...options, minVersion: 'TLSv1.2', ...tlsConnection(tls) }))
}

/** Returns the options of a TLS connection. */
function tlsConnection(tls: TlsClientOptions): ConnectionOptions {
  const { tlsServerName, insecureSkipTlsVerify } = tls
  return {
    rejectUnauthorized: insecureSkipTlsVerify !== true,
    ...certificates(tls),
    ...(tlsServerName === undefined ? {} : expecting(tlsServerName)),
  }
}

/**
 * Gives each connection a listener for errors. If a request is aborted after its whole response has arrived but before
 * it was read, the connection is destroyed with an error after Node has removed its own listener. Without another
 * listener, that error would end the process.
 */
function withListener(agent: http.Agent): http.Agent {
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, onCreate) => connect(options, onCreate)?.on('error', () => undefined)
  return agent
}

/**
 * Returns options for a connection whose certificate must be valid for the name. An IP address is checked separately,
 * because SNI cannot carry one (RFC 6066).
 */
export function expecting(name: string): Pick<ConnectionOptions, 'servername' | 'checkServerIdentity'> {
  if (isIP(name) === 0) return { servername: name }
  return { servername: '', checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate) }
}

/**
 * @throws Error when TLS cannot use the files, for example because the key belongs to another certificate or there is
 * no certificate.
 */
export function assertUsable(tls: Pick<TlsClientOptions, 'ca' | 'cert' | 'key'>): void {
  try {
    createSecureContext(certificates(tls))
  } catch (error) {
    if (!/key values mismatch/.test(errorMessage(error))) throw error
    throw new Error('the key does not belong to the certificate', { cause: error })
  }
  // OpenSSL accepts a file of authorities that contains none.
  if (tls.ca !== undefined) assertCertificate(tls.ca)
}

/**
 * Trusts each certificate of `ca`, also one of an intermediate, as Go does. Node's types ask for a Buffer where any
 * Uint8Array will do.
 */
function certificates(tls: TlsClientOptions): SecureContextOptions {
  const given = Object.entries({ ca: tls.ca, cert: tls.cert, key: tls.key }).filter(([, pem]) => pem !== undefined)
  return { ...(Object.fromEntries(given) as SecureContextOptions), allowPartialTrustChain: true }
}

function assertCertificate(ca: Pem): void {
  try {
    void new X509Certificate(ca)
  } catch (error) {
    throw new Error(`no readable CA certificate: ${errorMessage(error)}`, { cause: error })
  }
}

/**
 * Makes a request fail if the server upgrades it without being asked to. Without a listener, Node would silently drop
 * the request.
 */
export function refuseUpgrade(request: http.ClientRequest): void {
  request.once('upgrade', (_response, socket) => {
    socket.destroy()
    request.emit('error', new Error('an upgrade that was not requested'))
  })
}

/** Ends the idle connections of an agent that gets no more requests. Connections in use end when their requests end. */
export function retireAgent(agent: http.Agent): void {
  agent.maxFreeSockets = 0
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
}
