/**
 * Helpers shared by several of these tests: files in a temporary folder, requests, certificates, and an HTTP server.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { X509Certificate } from 'node:crypto'

import type { Test } from 'tap'

import type { AuthenticationRequest } from '../../../src/server/auth/authn/authenticator.js'
import { type CertificateRequest, issueCertificate, type IssuedCertificate } from '../../support/issue-certificate.js'
import { describePeer, type PeerCertificate } from '../../../src/server/auth/peer-certificate.js'
import { WatchedFiles } from '../../../src/server/auth/watched-file.js'
import { silentLogger } from '../../../src/support/log.js'
import { VirtualClock } from '../../support/virtual-clock.js'

export class Folder {
  readonly path = mkdtempSync(path.join(tmpdir(), 'distributary-auth-'))
  constructor(t: Pick<Test, 'teardown'>) {
    t.teardown(() => rmSync(this.path, { recursive: true, force: true }))
  }
  write(name: string, content: string | Buffer): string {
    const file = path.join(this.path, name)
    writeFileSync(file, content)
    return file
  }
}

export function request(
  headers: readonly (readonly [string, string])[],
  peer: PeerCertificate | null = null,
): AuthenticationRequest {
  return { rawHeaders: headers.flat(), tlsPeerCertificate: peer }
}

export const bearer = (token: string): AuthenticationRequest => request([['Authorization', `Bearer ${token}`]])

/** A stand-in for a watched file: the test changes its content, which is seen at the next check. */
export function changeable<T>(parse: (text: string) => T, first: string, clock = new VirtualClock()) {
  let content = first
  const files = new WatchedFiles(
    { paths: ['memory'], clock, logger: silentLogger, readFile: () => Buffer.from(content) },
    (bytes) => parse(bytes.toString('utf8')),
  )
  return {
    files,
    change: (text: string): void => {
      content = text
      clock.advance(2_100)
    },
  }
}

export const NOW = Date.now()
const HOUR = 3_600_000

export function issue(
  commonName: string,
  issuer?: IssuedCertificate,
  more: Partial<CertificateRequest> = {},
): IssuedCertificate {
  return issueCertificate({
    commonName,
    notBefore: NOW - HOUR,
    notAfter: NOW + HOUR,
    ...(issuer === undefined ? { isAuthority: true } : { issuer }),
    ...more,
  })
}

/** Returns a certificate in the form that the TLS layer reports; `verified` is the layer's verdict. */
export function peerOf(certificates: readonly IssuedCertificate[], verified = true): PeerCertificate {
  const peer = describePeer(
    certificates.map(({ cert }) => new X509Certificate(cert)),
    verified,
  )
  if (peer === null) throw new Error('no certificate')
  return peer
}

/** An HTTP server on loopback that answers with `answer` and records the requests. */
export async function jsonServer(
  t: Pick<Test, 'teardown'>,
  answer: (path: string, body: unknown, accept: string) => { status?: number; body: unknown } | null,
) {
  const asked: { path: string; body: unknown; authorization: string | undefined }[] = []
  const server = http.createServer((incoming, outgoing) => {
    let text = ''
    incoming.setEncoding('utf8')
    incoming.on('data', (chunk: string) => {
      text += chunk
    })
    incoming.on('end', () => {
      const body: unknown = text === '' ? null : JSON.parse(text)
      asked.push({ path: incoming.url ?? '', body, authorization: incoming.headers.authorization })
      const said = answer(incoming.url ?? '', body, incoming.headers.accept ?? '')
      if (said === null) {
        incoming.socket.destroy()
        return
      }
      outgoing.writeHead(said.status ?? 200, { 'content-type': 'application/json' })
      outgoing.end(typeof said.body === 'string' ? said.body : JSON.stringify(said.body))
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const closeConnections = (): void => server.closeAllConnections()
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, closeConnections }
}
