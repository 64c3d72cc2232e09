/**
 * The temporary directory of one run: etcd's data, the objects to write, keys and certificates. It is in memory if the
 * machine has /dev/shm, so that a disk's fsync does not affect the figures; the same for every peer.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openssl } from '../../test/support/openssl.js'

export interface Workspace {
  readonly directory: string
  path(name: string): string
  /**
   * Returns a self-signed certificate for loopback, which is made on first use. It uses EC P-256, with which handshakes
   * are fast.
   */
  tls(): { readonly certFile: string; readonly keyFile: string }
  remove(): void
}

export function createWorkspace(): Workspace {
  const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'distributary-bench-'))
  const removeNow = (): void => rmSync(directory, { recursive: true, force: true })
  process.once('exit', removeNow) // also when a signal ends the run
  const path = (name: string): string => join(directory, name)
  return {
    directory,
    path,
    tls() {
      const pair = { certFile: path('tls.crt'), keyFile: path('tls.key') }
      if (existsSync(pair.certFile)) return pair
      const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
      const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', pair.keyFile]
      openssl('req', '-x509', ...key, '-out', pair.certFile, '-days', '2', ...subject)
      return pair
    },
    remove() {
      process.off('exit', removeNow)
      removeNow()
    },
  }
}
