/**
 * The TLS options of a client connection. The published client's declarations use them, so nothing from Node's types is
 * named here: browser projects compile without these.
 */
export type Pem = string | Uint8Array

export interface TlsClientOptions {
  /** PEM. Default: the system's authorities. */
  readonly ca?: Pem
  readonly cert?: Pem
  readonly key?: Pem
  /** The expected name in the certificate, if it differs from the host of the URL. */
  readonly tlsServerName?: string
  readonly insecureSkipTlsVerify?: boolean
}
