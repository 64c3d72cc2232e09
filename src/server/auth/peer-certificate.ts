/**
 * The facts taken from a client's TLS certificate and from the authority that signed it. One server accepts
 * certificates of two kinds (users, front proxies), and OpenSSL only reports that *some* authority of the union signed
 * a certificate. Each authenticator therefore checks the certificate against its own bundle again.
 */
import { X509Certificate } from 'node:crypto'
// Loaded only for its side effect. In Node 20, if nothing has loaded node:tls before, toLegacyObject() of a certificate
// leaves it without createSecureContext.
import 'node:tls'
import type { TLSSocket } from 'node:tls'
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
 * only that one, so a connection that resumes a session shows no intermediate. And Node 20 leaks the chain that a client
 * has sent each time it is asked for.
 */
const issuersOf = recentEntries<string, readonly X509Certificate[]>(MAX_REMEMBERED)
const sharedIssuers = recentEntries<string, X509Certificate>(MAX_SHARED_ISSUERS)

/**
 * Returns null when the client presented no certificate. It is read once for each connection, and renegotiation, which
 * could change it, is disabled.
 *
 * `getPeerCertificate` is not used: before Node 24 it ends the process if any certificate that the client sent, trusted
 * or not, names a usage by an object identifier of more than 586 bytes. In Node 24.21.0 a server sees no issuers at all,
 * so a certificate is valid only if an authority of the bundle signed it directly.
 */
export const peerCertificateOf = oncePer((socket: TLSSocket): PeerCertificate | null => {
  const leaf = ownCertificate(socket)
  if (leaf === null) return null
  if (socket.authorized) return describePeer([leaf, ...issuersFor(leaf, socket)], true)
  return { commonName: '', organizations: [], chain: [leaf], verified: false, expiresAt: endOf(leaf) }
})

/** DER's tag of `[3]`, the peer's certificate in OpenSSL's `SSL_SESSION`. */
const PEER_TAG = 0xa3

/** The client's own certificate, which OpenSSL keeps with the session; null without one. */
function ownCertificate(socket: TLSSocket): X509Certificate | null {
  // Null once the connection is closed, whatever the types say.
  const session: Buffer | null = socket.getSession() ?? null
  if (session === null) return null
  for (let { start } = fieldAt(session, 0); start < session.length;) {
    const field = fieldAt(session, start)
    if (field.tag === PEER_TAG) return new X509Certificate(session.subarray(field.start, field.end))
    start = field.end
  }
  return null
}

/** The tag of a DER field, and where its content starts and ends. */
function fieldAt(der: Buffer, at: number): { readonly tag: number; readonly start: number; readonly end: number } {
  const first = der[at + 1]!
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f
  const start = at + 2 + lengthBytes
  return { tag: der[at]!, start, end: start + (lengthBytes === 0 ? first : der.readUIntBE(at + 2, lengthBytes)) }
}

/** Authenticators check the signatures, so a remembered issuer proves no more than one that was sent. */
function issuersFor(leaf: X509Certificate, socket: TLSSocket): readonly X509Certificate[] {
  const known = issuersOf.get(leaf.fingerprint256)
  if (known?.every((issuer) => endOf(issuer) > Date.now()) === true) return known
  const issuers: X509Certificate[] = []
  let next = socket.getPeerX509Certificate()?.issuerCertificate
  while (next !== undefined && issuers.length < MAX_CHAIN - 1) {
    const issuer = next
    issuers.push(getOrMake<string, X509Certificate>(sharedIssuers, issuer.fingerprint256, () => issuer))
    next = issuer.issuerCertificate
  }
  if (issuers.length > 0) issuersOf.set(leaf.fingerprint256, issuers)
  return issuers
}

/** @param chain leaf first. @returns null when the chain is empty. */
export function describePeer(chain: readonly X509Certificate[], verified: boolean): PeerCertificate | null {
  const [leaf] = chain
  if (leaf === undefined) return null
  // Undefined if a part of it is of no type of text.
  const subject = (leaf.toLegacyObject().subject ?? {}) as Readonly<
    Record<string, string | readonly string[] | undefined>
  >
  return {
    // Go, and therefore the API server, takes the last of several common names.
    commonName: listOf(subject['CN']).at(-1) ?? '',
    organizations: listOf(subject['O']),
    chain,
    verified,
    expiresAt: Math.min(...chain.map(endOf)),
  }
}

/**
 * Returns until when signatures lead from the leaf to a certificate of this bundle, in milliseconds since the epoch: the
 * earliest end of a certificate on the way. Null if they do not.
 */
export function trustedUntil(peer: PeerCertificate, authorities: readonly X509Certificate[]): number | null {
  let [current] = peer.chain
  for (const next of [...peer.chain.slice(1), undefined]) {
    if (current === undefined) return null
    const issued = current
    const signers = authorities.filter((authority) => issues(authority, issued))
    // The old and the new certificate of an authority with the same key.
    if (signers.length > 0) return Math.min(peer.expiresAt, Math.max(...signers.map(endOf)))
    if (next === undefined || !issues(next, issued)) return null
    current = next
  }
  return null
}

function endOf({ validTo }: X509Certificate): number {
  return Date.parse(validTo)
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
