/** A certificate authority for one test, run by openssl: a server at 127.0.0.1 and localhost, and clients by name. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { openssl } from './openssl.js'

/** Paths of PEM files. */
export interface CertificatePair {
  readonly cert: string
  readonly key: string
}

export interface CertificateAuthority {
  /** Path of the authority's certificate. */
  readonly ca: string
  /**
   * Issues a certificate for 127.0.0.1 and localhost, or only for these names, in openssl's form: `DNS:example.org`.
   */
  server(names?: string): CertificatePair
  /** `organizations` are the groups a Kubernetes authenticator reads. */
  client(commonName: string, organizations?: readonly string[]): CertificatePair
}

export function createAuthority(t: Test): CertificateAuthority {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-tls-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = (name: string): string => join(directory, name)
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

  const [ca, caKey] = [path('ca.pem'), path('ca-key.pem')]
  openssl('req', '-x509', ...newKey, '-keyout', caKey, '-out', ca, '-days', '2', '-subj', '/CN=distributary test ca')

  let serial = 1
  const issue = (subject: string, extensions: string): CertificatePair => {
    const id = serial++
    const [cert, key, request, extensionFile] = ['cert', 'key', 'csr', 'ext'].map((kind) =>
      path(`${id}-${kind}.pem`),
    ) as [string, string, string, string]
    writeFileSync(extensionFile, extensions)
    openssl('req', '-new', ...newKey, '-keyout', key, '-out', request, '-subj', subject)
    const signing = ['-CA', ca, '-CAkey', caKey, '-set_serial', String(id), '-days', '2', '-extfile', extensionFile]
    openssl('x509', '-req', '-in', request, '-out', cert, ...signing)
    return { cert, key }
  }
  return {
    ca,
    server: (names = 'IP:127.0.0.1,DNS:localhost') =>
      // etcd's own gateway connects to etcd with the server's certificate
      issue('/CN=localhost', `subjectAltName=${names}\nextendedKeyUsage=serverAuth,clientAuth\n`),
    client: (commonName, organizations = []) =>
      issue(
        `${organizations.map((organization) => `/O=${organization}`).join('')}/CN=${commonName}`,
        'extendedKeyUsage=clientAuth\n',
      ),
  }
}
