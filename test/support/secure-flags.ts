/** The flags of a server that also speaks HTTPS, on any port, with a self-signed certificate. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { selfSignedCertificate } from './issue-certificate.js'

let flags: readonly string[] | null = null

/** Returns the flags. All tests of a process share one certificate. */
export function secureFlags(): readonly string[] {
  if (flags !== null) return flags
  const folder = mkdtempSync(join(tmpdir(), 'distributary-secure-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const [certFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  const { cert, key } = selfSignedCertificate()
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key)
  flags = ['--secure-port', '0', '--tls-cert-file', certFile, '--tls-private-key-file', keyFile]
  return flags
}
