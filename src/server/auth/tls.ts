/**
 * The server's side of TLS: the protocol settings, and the certificate, which is read again when its file changes. New
 * connections get the new certificate. Existing ones keep theirs, so no watch is dropped.
 */
import type { Ambient } from '../../support/ambient.js'
import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'

import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { FileMetrics } from '../metrics/process-metrics.js'
import { parseCertificates } from './peer-certificate.js'
import { WatchedFiles } from './watched-file.js'
import { HANDSHAKE_MS } from '../limits/fixed-limits.js'

export interface TlsOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly certFile: string
  readonly keyFile: string
  readonly minVersion: 'VersionTLS12' | 'VersionTLS13'
  /**
   * The authorities of client certificates, for users and for front proxies. Client certificates are always
   * optional.
   */
  readonly clientCaFiles: readonly string[]
  readonly metrics?: FileMetrics | undefined
}

/** Only ciphers with forward secrecy and authenticated encryption, those of TLS 1.3 first. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':')

/** For `https.createServer` and `http2.createSecureServer`, and for their `setSecureContext` when it changes. */
export interface TlsServerOptions extends SecureContextOptions {
  /**
   * The server requests client certificates, and the authenticators judge them, so a bad certificate leads to a 401
   * instead of a broken connection.
   */
  readonly requestCert: boolean
  readonly rejectUnauthorized: false
  /** Milliseconds. */
  readonly handshakeTimeout: number
}

/**
 * @throws Error that names the file when a certificate, key or authority is unusable, or when key and certificate
 * differ.
 */
export function watchServerTls(options: TlsOptions): WatchedFiles<TlsServerOptions> {
  const { certFile, keyFile, clientCaFiles, clock, logger, metrics } = options
  const paths = [certFile, keyFile, ...clientCaFiles]
  return new WatchedFiles({ paths, clock, logger, metrics }, (cert, key, ...ca) => {
    const context: TlsServerOptions = {
      cert,
      key,
      ...(ca.length === 0 ? {} : { ca: ca.flatMap((pem) => parseCertificates(pem.toString()).map(anchor)) }),
      minVersion: options.minVersion === 'VersionTLS13' ? 'TLSv1.3' : 'TLSv1.2',
      ciphers: CIPHERS,
      honorCipherOrder: true,
      ecdhCurve: 'X25519:P-256:P-384',
      sessionIdContext: 'distributary',
      requestCert: clientCaFiles.length > 0,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_MS,
    }
    check(context, certFile, clock, logger)
    return context
  })
}

/** DER of OpenSSL's `X509_CERT_AUX`: trusted for the key purpose clientAuth (1.3.6.1.5.5.7.3.2). */
const TRUSTED_FOR_CLIENTS = Buffer.from('300c300a06082b06010505070302', 'hex')

/**
 * Returns an authority in OpenSSL's own form, which makes it an anchor even if it is an intermediate without its root,
 * as in Go. `allowPartialTrustChain` has the same effect, but Node's servers ignore it.
 */
function anchor({ raw }: X509Certificate): string {
  const lines = Buffer.concat([raw, TRUSTED_FOR_CLIENTS])
    .toString('base64')
    .match(/.{1,64}/g)!
  return `-----BEGIN TRUSTED CERTIFICATE-----\n${lines.join('\n')}\n-----END TRUSTED CERTIFICATE-----\n`
}

/** A certificate is used only after OpenSSL has accepted it together with its key. */
function check(context: SecureContextOptions, what: string, clock: Clock, logger: Logger): void {
  createSecureContext(context)
  const leaf = new X509Certificate(context.cert as string | Buffer)
  const expiresAt = Date.parse(leaf.validTo)
  if (expiresAt <= clock.now())
    logger.warn({ certificate: what, expired: leaf.validTo }, 'the TLS certificate has expired')
}
