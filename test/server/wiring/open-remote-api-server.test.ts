/** The server behind --upstream receives the kubeconfig's current credentials. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { load } from '../../../src/server/config/load.js'
import { readBytes } from '../../../src/support/read-bytes.js'
import { openRemoteApiServer } from '../../../src/server/wiring/open-remote-api-server.js'
import { silentLogger as logger } from '../../../src/support/log.js'
import { createAuthority } from '../../support/certificates.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const LOOK_MS = 2_100

void t.test(
  'a renewed certificate is presented, even over connections kept alive; a running watch continues',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-remote-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const path = (name: string): string => join(folder, name)
    const authority = createAuthority(t)
    const { cert, key } = authority.server()
    const tls = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(authority.ca), requestCert: true }
    let goOn = (): void => {}
    const server = createServer({ ...tls, rejectUnauthorized: true }, (request, response) => {
      const name = (request.socket as TLSSocket).getPeerCertificate().subject.CN
      if (request.url !== '/watch') return void response.end(name)
      response.write('watch of ')
      goOn = () => response.end(name)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    const show = (name: string): void => {
      const pair = authority.client(name)
      copyFileSync(pair.cert, path('cert'))
      copyFileSync(pair.key, path('key'))
    }
    show('first')
    const kubeconfig = {
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: url, 'certificate-authority': authority.ca } }],
      users: [{ name: 'u', user: { 'client-certificate': 'cert', 'client-key': 'key' } }],
    }
    writeFileSync(path('kubeconfig'), JSON.stringify(kubeconfig))
    const loaded = load(['--upstream', url, '--kubeconfig', path('kubeconfig')], {}, (file) =>
      readFileSync(file, 'utf8'),
    )
    if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
    const clock = new VirtualClock()
    const remote = openRemoteApiServer(loaded.config, { clock, logger })
    t.teardown(() => remote.close())
    const send = async (at: string) =>
      await remote.transport.send({ path: at, query: {}, accept: '*/*', signal: AbortSignal.timeout(30_000) })
    const text = async (answer: Awaited<ReturnType<typeof send>>): Promise<string> =>
      Buffer.from(await readBytes(answer.body, 1_000)).toString()

    t.equal(await text(await send('/')), 'first')
    const watch = await send('/watch')
    show('second')
    clock.advance(LOOK_MS)
    t.equal(await text(await send('/')), 'second')
    goOn()
    t.equal(await text(watch), 'watch of first', 'the running watch continues')
    writeFileSync(path('kubeconfig'), '{')
    clock.advance(LOOK_MS)
    t.equal(await text(await send('/')), 'second', 'a broken file leaves the last one in force')
  },
)
