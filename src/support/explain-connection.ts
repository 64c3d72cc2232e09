/**
 * Explains why a connection failed, in words that name what to change. OpenSSL's own messages do not say which side
 * refuses what, or that one side speaks TLS and the other plain HTTP.
 */

/** The options that hold the TLS files, for messages. */
export interface TlsFlags {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** @param reason the message of the error. @param url the server's address, whose scheme was used. */
export function explainConnection(reason: string, url: string, { ca, cert, key }: TlsFlags): string {
  if (/wrong version number|packet length too long/.test(reason)) return 'it does not speak TLS: use http://'
  if (/alert (certificate required|bad certificate|unknown ca|certificate unknown|certificate expired)/.test(reason))
    return `it requires a client certificate that it trusts: check ${cert} and ${key}`
  if (/unable to (verify|get)|self-signed certificate/.test(reason))
    return `${reason}: ${ca} must contain the CA that signed the server's certificate`
  if (url.startsWith('http:') && /socket hang up|ECONNRESET|Protocol error|closed the connection/.test(reason))
    return `${reason}: if it speaks TLS, use https://`
  if (url.startsWith('https:') && /before secure TLS connection|ECONNRESET/.test(reason))
    return `${reason}: if it does not speak TLS, use http://`
  return reason
}
