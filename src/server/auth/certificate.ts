/**
 * Makes X.509 certificates for trying out the server and for tests: Node can read certificates but not make them. The
 * few DER forms that an ECDSA P-256 certificate needs are written here in about a hundred lines. The libraries for it
 * would bring a dozen packages into a server that makes at most one certificate. Use these certificates for short-lived
 * purposes only.
 *
 * Source: RFC 5280 (certificate profile), RFC 5480 (keys), X.690 (DER).
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto'
import { isIP } from 'node:net'

export interface CertificateRequest {
  readonly commonName: string
  readonly organizations?: readonly string[]
  /** DNS names and IP addresses. */
  readonly altNames?: readonly string[]
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
  readonly isAuthority?: boolean
  /** The certificate that signs this one. Default: it signs itself. */
  readonly issuer?: IssuedCertificate
}

export interface IssuedCertificate {
  /** PEM. */
  readonly cert: string
  /** PEM, PKCS #8. */
  readonly key: string
  readonly subject: Pick<CertificateRequest, 'commonName' | 'organizations'>
}

const DAY_MS = 86_400_000

/** Makes the certificate for `--tls-self-signed`, valid for a month, for loopback and for the given names. */
export function selfSignedCertificate(names: readonly string[], nowMs: number): IssuedCertificate {
  return issueCertificate({
    commonName: 'distributary',
    altNames: [...new Set(['localhost', '127.0.0.1', '::1', ...names])],
    notBefore: nowMs - DAY_MS,
    notAfter: nowMs + 30 * DAY_MS,
  })
}

export function issueCertificate(request: CertificateRequest): IssuedCertificate {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuerKey = request.issuer === undefined ? pair.privateKey : createPrivateKey(request.issuer.key)
  const algorithm = sequence(oid(1, 2, 840, 10_045, 4, 3, 2))
  const body = sequence(
    tagged(0, integer(Buffer.from([2]))),
    // The leading 1 makes the serial number positive and not zero, whatever the random bytes are.
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    name(request.issuer?.subject ?? request),
    sequence(time(request.notBefore), time(request.notAfter)),
    name(request),
    publicKeyInfo(pair.publicKey),
    tagged(3, sequence(...keyIdentifiers(pair.publicKey, createPublicKey(issuerKey)), ...extensions(request))),
  )
  const signature = sign('sha256', body, issuerKey)
  const der = sequence(body, algorithm, bitString(signature))
  return {
    cert: pem('CERTIFICATE', der),
    key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    subject: request,
  }
}

/** Strict verifiers demand that a certificate identifies its own key and the key that signed it. */
function keyIdentifiers(own: KeyObject, issuer: KeyObject): Buffer[] {
  const id = (key: KeyObject): Buffer => createHash('sha1').update(publicKeyInfo(key).subarray(-65)).digest()
  return [
    extension([2, 5, 29, 14], der(0x04, id(own)), false),
    extension([2, 5, 29, 35], sequence(der(0x80, id(issuer))), false),
  ]
}

function extensions({ isAuthority = false, altNames = [] }: CertificateRequest): Buffer[] {
  const basicConstraints = extension(
    [2, 5, 29, 19],
    sequence(...(isAuthority ? [der(0x01, Buffer.from([0xff]))] : [])),
    true,
  )
  // Bits count from the left: an authority signs certificates and revocation lists (5, 6), other certificates sign data
  // (0).
  const keyUsage = extension([2, 5, 29, 15], der(0x03, Buffer.from(isAuthority ? [1, 0x06] : [7, 0x80])), true)
  if (isAuthority) return [basicConstraints, keyUsage]
  const serverAndClient = sequence(oid(1, 3, 6, 1, 5, 5, 7, 3, 1), oid(1, 3, 6, 1, 5, 5, 7, 3, 2))
  const names = altNames.map((one) =>
    isIP(one) === 0 ? der(0x82, Buffer.from(one, 'latin1')) : der(0x87, addressBytes(one)),
  )
  return [
    basicConstraints,
    keyUsage,
    extension([2, 5, 29, 37], serverAndClient, false),
    ...(names.length === 0 ? [] : [extension([2, 5, 29, 17], sequence(...names), false)]),
  ]
}

function extension(id: readonly [number, number, ...number[]], value: Buffer, critical: boolean): Buffer {
  return sequence(oid(...id), ...(critical ? [der(0x01, Buffer.from([0xff]))] : []), der(0x04, value))
}

function name({ commonName, organizations = [] }: Pick<CertificateRequest, 'commonName' | 'organizations'>): Buffer {
  const attribute = (id: Buffer, text: string): Buffer => der(0x31, sequence(id, der(0x0c, Buffer.from(text, 'utf8'))))
  return sequence(
    ...organizations.map((organization) => attribute(oid(2, 5, 4, 10), organization)),
    ...(commonName === '' ? [] : [attribute(oid(2, 5, 4, 3), commonName)]),
  )
}

function publicKeyInfo(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}

function time(ms: number): Buffer {
  // RFC 5280 demands UTCTime, with a two-digit year, before 2050 and GeneralizedTime from then on.
  const digits = new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)
  return digits < '2050' ? der(0x17, Buffer.from(`${digits.slice(2)}Z`)) : der(0x18, Buffer.from(`${digits}Z`))
}

function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number))
  const [head = '', tail] = address.split('::')
  const groups = (text: string | undefined): number[] =>
    text ? text.split(':').map((group) => Number.parseInt(group, 16)) : []
  const left = groups(head)
  const right = groups(tail)
  const all = tail === undefined ? left : [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right]
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 0xff]))
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const bytes = length < 0x80 ? [length] : length < 0x1_00 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...bytes]), content])
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function tagged(number: number, content: Buffer): Buffer {
  return der(0xa0 + number, content)
}

function integer(bytes: Buffer): Buffer {
  return der(0x02, bytes)
}

function bitString(bytes: Buffer): Buffer {
  return der(0x03, Buffer.concat([Buffer.from([0]), bytes]))
}

function oid(first: number, second: number, ...rest: readonly number[]): Buffer {
  const base128 = (value: number): number[] => {
    const digits = [value & 0x7f]
    for (let left = value >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80)
    return digits
  }
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
