/**
 * The facts taken from a client's TLS certificate and from the authority that signed it. One server accepts
 * certificates of two kinds (users, front proxies), and OpenSSL only reports that *some* authority of the union signed
 * a certificate. Each authenticator therefore checks the certificate against its own bundle again.
 */
import { X509Certificate } from 'node:crypto'
// Loaded only for its side effect. In Node 20, if nothing has loaded node:tls before, toLegacyObject() of a certificate
// leaves it without createSecureContext.
import 'node:tls'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'

export interface PeerCertificate {
  /** '' when the subject has no common name. */
  readonly commonName: string
  readonly organizations: readonly string[]
  /** The chain, leaf first, as the client sent it and OpenSSL completed it. */
  readonly chain: readonly X509Certificate[]
  /** OpenSSL's own verdict on signatures, dates and purpose, against all authorities of the server. */
  readonly verified: boolean
  /** The earliest time at which a certificate of the chain expires, in milliseconds since the epoch. */
  readonly expiresAt: number
}

/** Longer chains are cut. */
const MAX_CHAIN = 8

/**
 * Returns null when the client presented no certificate. This walks the chain, so call it once for each connection.
 *
 * `getPeerX509Certificate` would be the natural choice. But on a server in Node 20 its result has no issuers, and after
 * one call of it the result of `getPeerCertificate` has none either. In Node 24.21.0 a server sees no issuers at all,
 * so a certificate is valid only if an authority of the bundle signed it directly.
 */
export function peerCertificateOf(socket: TLSSocket): PeerCertificate | null {
  const chain: X509Certificate[] = []
  let next: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
  // Node returns an empty object when there is no certificate, and a root certificate is its own issuer.
  while (next?.raw !== undefined && chain.length < MAX_CHAIN) {
    chain.push(new X509Certificate(next.raw))
    next = next.issuerCertificate === next ? undefined : next.issuerCertificate
  }
  return describePeer(chain, socket.authorized)
}

/** @param chain leaf first. @returns null when the chain is empty. */
export function describePeer(chain: readonly X509Certificate[], verified: boolean): PeerCertificate | null {
  const [leaf] = chain
  if (leaf === undefined) return null
  const subject = leaf.toLegacyObject().subject as Readonly<Record<string, string | readonly string[] | undefined>>
  return {
    // Go, and therefore the API server, takes the last of several common names.
    commonName: listOf(subject['CN']).at(-1) ?? '',
    organizations: listOf(subject['O']),
    chain,
    verified,
    expiresAt: Math.min(...chain.map(({ validTo }) => Date.parse(validTo))),
  }
}

/** Whether signatures lead from the leaf to a certificate of this bundle. */
export function isSignedBy(peer: PeerCertificate, authorities: readonly X509Certificate[]): boolean {
  let [current] = peer.chain
  for (const next of [...peer.chain.slice(1), undefined]) {
    if (current === undefined) return false
    const issued = current
    if (authorities.some((authority) => issues(authority, issued))) return true
    if (next === undefined || !issues(next, issued)) return false
    current = next
  }
  return false
}

function issues(issuer: X509Certificate, issued: X509Certificate): boolean {
  return issuer.ca && issued.checkIssued(issuer) && issued.verify(issuer.publicKey)
}

/** Returns every certificate of a PEM file. @throws Error when there is none or one is broken. */
export function parseCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  if (blocks.length === 0) throw new Error('no certificate in PEM form')
  return blocks.map((block) => new X509Certificate(block))
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  return value === undefined ? [] : typeof value === 'string' ? [value] : value
}
