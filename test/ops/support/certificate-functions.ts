/** Helm's certificate functions, implemented with openssl. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openssl } from '../../support/openssl.js'

/** A certificate and its key, in PEM. */
export interface Certificate {
  readonly Cert: string
  readonly Key: string
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

export function genCA(commonName: string, days: number): Certificate {
  return inFolder((path) => {
    const out = ['-keyout', path('key'), '-out', path('cert'), '-days', String(days), '-subj', `/CN=${commonName}`]
    openssl('req', '-x509', ...NEW_KEY, ...out)
    return { Cert: readFileSync(path('cert'), 'utf8'), Key: readFileSync(path('key'), 'utf8') }
  })
}

/** @param names in openssl's form, `DNS:localhost`. */
export function genSignedCert(
  commonName: string,
  names: readonly string[],
  days: number,
  ca: Certificate,
): Certificate {
  return inFolder((path) => {
    writeFileSync(path('ca'), ca.Cert)
    writeFileSync(path('ca-key'), ca.Key)
    writeFileSync(path('ext'), `subjectAltName=${names.join(',')}\nextendedKeyUsage=serverAuth,clientAuth\n`)
    openssl('req', '-new', ...NEW_KEY, '-keyout', path('key'), '-out', path('csr'), '-subj', `/CN=${commonName}`)
    const signing = ['-CA', path('ca'), '-CAkey', path('ca-key'), '-set_serial', '1', '-extfile', path('ext')]
    openssl('x509', '-req', '-in', path('csr'), '-out', path('cert'), '-days', String(days), ...signing)
    return { Cert: readFileSync(path('cert'), 'utf8'), Key: readFileSync(path('key'), 'utf8') }
  })
}

function inFolder<T>(work: (path: (name: string) => string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-chart-'))
  try {
    return work((name) => join(folder, name))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
