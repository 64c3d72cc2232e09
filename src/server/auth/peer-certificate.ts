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
import { getOrMake, oncePer } from '../../support/memo.js'
import { recentEntries } from '../../support/recent-entries.js'

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

/** Enough for every client of one server. An entry takes a few hundred bytes, since clients share their issuers. */
const MAX_REMEMBERED = 10_000
const MAX_SHARED_ISSUERS = 100

/**
 * The issuers that verified clients sent along, by the fingerprint of the client's own certificate. A TLS session keeps
 * only that one, so a connection that resumes a session shows no intermediate.
 */
const issuersOf = recentEntries<string, readonly X509Certificate[]>(MAX_REMEMBERED)
const sharedIssuers = recentEntries<string, X509Certificate>(MAX_SHARED_ISSUERS)

/**
 * Returns null when the client presented no certificate. A connection's certificate does not change, so it is read once.
 *
 * `getPeerX509Certificate` would be the natural choice. But on a server in Node 20 its result has no issuers, and after
 * one call of it the result of `getPeerCertificate` has none either. In Node 24.21.0 a server sees no issuers at all,
 * so a certificate is valid only if an authority of the bundle signed it directly.
 */
export const peerCertificateOf = oncePer((socket: TLSSocket): PeerCertificate | null => {
  const shown: X509Certificate[] = []
  let next: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
  // Node returns an empty object when there is no certificate, and a root certificate is its own issuer.
  while (next?.raw !== undefined && shown.length < MAX_CHAIN) {
    shown.push(new X509Certificate(next.raw))
    next = next.issuerCertificate === next ? undefined : next.issuerCertificate
  }
  return describePeer(socket.authorized ? completed(shown) : shown, socket.authorized)
})

/** Authenticators check the signatures, so a remembered issuer proves no more than one that was sent. */
function completed(shown: readonly X509Certificate[]): readonly X509Certificate[] {
  const [leaf, ...issuers] = shown
  if (leaf === undefined) return shown
  if (issuers.length === 0) return [leaf, ...(issuersOf.get(leaf.fingerprint256) ?? [])]
  // OpenSSL itself finds an issuer that is in the server's bundle.
  if (issuers.length > 1) {
    const shared = issuers.map((issuer) =>
      getOrMake<string, X509Certificate>(sharedIssuers, issuer.fingerprint256, () => issuer),
    )
    issuersOf.set(leaf.fingerprint256, shared)
  }
  return shown
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
