/** The TLS options of a client connection, and the agent made from them. */
import http from 'node:http'
import https from 'node:https'

export interface TlsClientOptions {
  /** PEM. Default: the system's authorities. */
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  /** The name that the certificate must have, when it differs from the host of the URL. */
  readonly tlsServerName?: string
  readonly insecureSkipTlsVerify?: boolean
}

/** @param url decides between HTTP and HTTPS. */
export function agentFor(url: string, tls: TlsClientOptions, options: http.AgentOptions): http.Agent {
  if (url.startsWith('http:')) return new http.Agent(options)
  const { ca, cert, key, tlsServerName, insecureSkipTlsVerify } = tls
  return new https.Agent({
    ...options,
    minVersion: 'TLSv1.2',
    rejectUnauthorized: insecureSkipTlsVerify !== true,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
  })
}
