/** Issues certificates with any names, authorities and times, using openssl. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openssl } from './openssl.js'

export interface CertificateRequest {
  readonly commonName: string
  readonly organizations?: readonly string[]
  /** DNS names and IP addresses. */
  readonly altNames?: readonly string[]
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
  readonly isAuthority?: boolean
  /** The extended key usage, in openssl's form. Default: those of servers and clients, and none of an authority. */
  readonly usage?: string
  /** The certificate that signs this one. Default: self-signed. */
  readonly issuer?: IssuedCertificate
}

/** A certificate and its key, in PEM. */
export interface IssuedCertificate {
  readonly cert: string
  readonly key: string
}

/** Only `openssl ca` accepts any start and end time. */
const CONFIG = `
[ca]
default_ca = own
[own]
new_certs_dir = FOLDER
database = FOLDER/database
rand_serial = yes
default_md = sha256
policy = any
[any]
organizationName = optional
commonName = optional
[req]
distinguished_name = empty
[empty]
`

export function issueCertificate(request: CertificateRequest): IssuedCertificate {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-certificate-'))
  const path = (name: string, content?: string): string => {
    const file = join(folder, name)
    if (content !== undefined) writeFileSync(file, content)
    return file
  }
  try {
    const { commonName, organizations = [], notBefore, notAfter, issuer } = request
    path('database', '')
    const config = ['-config', path('config', CONFIG.replaceAll('FOLDER', folder))]
    const subject = [...organizations.map((name) => `/O=${escaped(name)}`), commonName && `/CN=${escaped(commonName)}`]
    const [key, asked, cert] = [path('key'), path('asked'), path('cert')]
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
    openssl(
      'req',
      '-new',
      ...newKey,
      '-keyout',
      key,
      '-out',
      asked,
      '-utf8',
      '-subj',
      subject.join('') || '/',
      ...config,
    )
    const signer =
      issuer === undefined
        ? ['-selfsign', '-keyfile', key]
        : ['-cert', path('by', issuer.cert), '-keyfile', path('by-key', issuer.key)]
    const times = ['-startdate', asn1Time(notBefore), '-enddate', asn1Time(notAfter)]
    const extensions = ['-extfile', path('extensions', extensionsOf(request))]
    openssl(
      'ca',
      '-batch',
      '-notext',
      '-preserveDN',
      ...config,
      '-in',
      asked,
      ...signer,
      ...times,
      ...extensions,
      '-out',
      cert,
    )
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A self-signed server certificate for loopback and these names. */
export function selfSignedCertificate(names: readonly string[] = []): IssuedCertificate {
  return issueCertificate({
    commonName: 'distributary',
    altNames: ['localhost', '127.0.0.1', '::1', ...names],
    notBefore: Date.now() - 3_600_000,
    notAfter: Date.now() + 86_400_000,
  })
}

/** In a subject, a backslash escapes the next character. */
function escaped(name: string): string {
  return name.replace(/[\\/+=]/g, '\\$&')
}

function extensionsOf(request: CertificateRequest): string {
  const { isAuthority = false, altNames = [], usage = isAuthority ? null : 'serverAuth,clientAuth' } = request
  const names = altNames.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`)
  return [
    `basicConstraints=critical,CA:${isAuthority ? 'TRUE' : 'FALSE'}`,
    `keyUsage=critical,${isAuthority ? 'keyCertSign,cRLSign' : 'digitalSignature'}`,
    'subjectKeyIdentifier=hash',
    'authorityKeyIdentifier=keyid:always',
    ...(usage === null ? [] : [`extendedKeyUsage=${usage}`]),
    ...(names.length === 0 ? [] : [`subjectAltName=${names.join(',')}`]),
  ].join('\n')
}

/** `20261224180000Z`. */
function asn1Time(ms: number): string {
  return `${new Date(ms).toISOString().replace(/\D/g, '').slice(0, 14)}Z`
}
