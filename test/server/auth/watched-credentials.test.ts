/** Credentials that this server presents to others: renewed files are used at once, half-renewed ones never. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { TLSSocket } from 'node:tls'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { JsonClient } from '../../../src/server/auth/https-json.js'
import { watchCredentials, watchKubeconfig } from '../../../src/server/auth/watched-credentials.js'
import { silentLogger } from '../../../src/support/log.js'
import { type CertificateAuthority, type CertificatePair, createAuthority } from '../../support/certificates.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const LOOK_MS = 2_100

function folderOf(t: Test): (name: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-watched-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return (name) => join(folder, name)
}

/** An API server that answers with the common name of the client certificate. */
async function judgeOf(t: Test, authority: CertificateAuthority): Promise<string> {
  const { cert, key } = authority.server()
  const tls = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(authority.ca), requestCert: true }
  const server = createServer({ ...tls, rejectUnauthorized: true }, (request, response) => {
    const { subject } = (request.socket as TLSSocket).getPeerCertificate()
    response.end(JSON.stringify({ name: subject.CN }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function put(path: (name: string) => string, pair: CertificatePair): void {
  copyFileSync(pair.cert, path('cert'))
  copyFileSync(pair.key, path('key'))
}

void t.test(
  'a webhook presents the renewed certificate of its kubeconfig, even over connections kept alive',
  async (t) => {
    const path = folderOf(t)
    const authority = createAuthority(t)
    const server = await judgeOf(t, authority)
    put(path, authority.client('first'))
    const kubeconfig = {
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server, 'certificate-authority': authority.ca } }],
      users: [{ name: 'u', user: { 'client-certificate': 'cert', 'client-key': 'key' } }],
    }
    writeFileSync(path('kubeconfig'), JSON.stringify(kubeconfig))
    const clock = new VirtualClock()
    const client = new JsonClient(watchKubeconfig(path('kubeconfig'), { clock, logger: silentLogger }))
    t.teardown(() => client.close())
    const shown = async (): Promise<unknown> => (await client.post('/', {})).body
    t.same(await shown(), { name: 'first' })
    t.same(await shown(), { name: 'first' })

    const second = authority.client('second')
    copyFileSync(second.cert, path('cert'))
    clock.advance(LOOK_MS)
    t.same(await shown(), { name: 'first' }, 'a certificate without its key is not taken')
    copyFileSync(second.key, path('key'))
    clock.advance(LOOK_MS)
    t.same(await shown(), { name: 'second' })

    writeFileSync(path('kubeconfig'), '{')
    clock.advance(LOOK_MS)
    t.same(await shown(), { name: 'second' }, 'a broken file leaves the last one in force')
    const third = authority.client('third')
    const user = { 'client-certificate': third.cert, 'client-key': third.key }
    writeFileSync(path('kubeconfig'), JSON.stringify({ ...kubeconfig, users: [{ name: 'u', user }] }))
    clock.advance(LOOK_MS)
    t.same(await shown(), { name: 'third' }, 'a kubeconfig may name other files')
  },
)

void t.test('credential files are watched together, and a broken file stops the start', async (t) => {
  const path = folderOf(t)
  const authority = createAuthority(t)
  put(path, authority.client('first'))
  const clock = new VirtualClock()
  const deps = { clock, logger: silentLogger }
  const watched = watchCredentials({ ca: authority.ca, cert: path('cert'), key: path('key') }, '--flags', deps)
  t.teardown(() => watched.close())
  let changes = 0
  watched.onChange(() => changes++)
  put(path, authority.client('second'))
  clock.advance(LOOK_MS)
  t.equal(changes, 1)
  t.same(watched.value.cert, readFileSync(path('cert')))
  copyFileSync(authority.client('other').key, path('key'))
  t.throws(() => watchCredentials({ ca: null, cert: path('cert'), key: path('key') }, '--flags', deps), /key/)
})

void t.test('unreadable authorities are not adopted, and stop the start', async (t) => {
  const path = folderOf(t)
  const authority = createAuthority(t)
  copyFileSync(authority.ca, path('ca'))
  const clock = new VirtualClock()
  const deps = { clock, logger: silentLogger }
  const files = { ca: path('ca'), cert: null, key: null }
  const watched = watchCredentials(files, '--flags', deps)
  t.teardown(() => watched.close())
  for (const broken of ['', 'none', readFileSync(authority.ca).subarray(0, 100)]) {
    writeFileSync(path('ca'), broken)
    clock.advance(LOOK_MS)
    t.same(watched.value.ca, readFileSync(authority.ca))
    t.throws(() => watchCredentials(files, '--flags', deps), /no readable CA certificate/)
  }
  writeFileSync(path('ca'), `a comment\n${readFileSync(authority.ca, 'utf8')}`)
  clock.advance(LOOK_MS)
  t.same(watched.value.ca, readFileSync(path('ca')))
})
