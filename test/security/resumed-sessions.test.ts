/**
 * Clients with certificates. One that resumes its TLS session shows the server only its own certificate: the issuers
 * that it sent with the first handshake are missing. Others are hostile.
 */
import { once } from 'node:events'
import { connect } from 'node:http2'
import { type IncomingMessage, get } from 'node:http'
import { type ConnectionOptions, type TLSSocket, connect as connectTls } from 'node:tls'
import t from 'tap'
import { Folder, issue } from '../server/auth/fixtures.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { secureFlags } from '../support/secure-flags.js'
import { startServer } from '../support/server-process.js'

const PATH = '/api/v1/pods'
const root = issue('an authority')
const middle = issue('an intermediate', root, { isAuthority: true })
const leaf = issue('ann', middle)

/** Returns a connection and, once the server has issued it, the session with which to resume. */
async function open(port: number, options: ConnectionOptions) {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options })
  const session = once(socket, 'session').then(([issued]) => issued as Buffer)
  await once(socket, 'secureConnect')
  return { socket, session }
}

async function statusOver(socket: TLSSocket, headers: Record<string, string>): Promise<number | undefined> {
  if (socket.alpnProtocol === 'h2') {
    const session = connect('https://localhost', { createConnection: () => socket })
    const [answer] = (await once(session.request({ ':path': PATH, ...headers }), 'response')) as [
      { ':status'?: number },
    ]
    session.destroy()
    return answer[':status']
  }
  const asked = get(`http://localhost${PATH}`, { createConnection: () => socket, headers })
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  socket.destroy()
  return answer.statusCode
}

const hidesIssuers = process.version === 'v24.21.0' && 'this Node shows a server no issuers (docs/guide/access.md)'

for (const { kind, flag, headers } of [
  { kind: 'a user', flag: '--client-ca-file', headers: {} },
  { kind: 'a front proxy', flag: '--requestheader-client-ca-file', headers: { 'X-Remote-User': 'ann' } },
] as const) {
  void t.test(
    `${kind} with a certificate of an intermediate resumes its session`,
    { skip: hidesIssuers },
    async (t) => {
      const flags = [...secureFlags(), flag, new Folder(t).write('ca.crt', root.cert)]
      const h = await startApp(t, { flags, objects: { 'pods/default/a': pod('a') } })
      const port = Number(new URL(h.secureUrl).port)
      for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
        for (const protocol of ['http/1.1', 'h2']) {
          const own = { cert: leaf.cert + middle.cert, key: leaf.key, ALPNProtocols: [protocol] }
          const options = { ...own, minVersion: version, maxVersion: version }
          const first = await open(port, options)
          t.equal(await statusOver(first.socket, headers), 200, `${version}, ${protocol}: the first connection`)
          const resumed = await open(port, { ...options, session: await first.session })
          t.ok(resumed.socket.isSessionReused(), 'the session is resumed')
          t.equal(await statusOver(resumed.socket, headers), 200, `${version}, ${protocol}: a resumed one`)
        }
      }
    },
  )
}

void t.test('a session is resumed after a connection without a request', { skip: hidesIssuers }, async (t) => {
  const flags = [...secureFlags(), '--client-ca-file', new Folder(t).write('ca.crt', root.cert)]
  const h = await startApp(t, { flags, objects: { 'pods/default/a': pod('a') } })
  const port = Number(new URL(h.secureUrl).port)
  const { cert, key } = issue('bob', middle)
  const options = { cert: cert + middle.cert, key }
  const first = await open(port, options)
  const session = await first.session
  first.socket.destroy()
  const resumed = await open(port, { ...options, session })
  t.ok(resumed.socket.isSessionReused(), 'the session is resumed')
  t.equal(await statusOver(resumed.socket, {}), 200)
})

/** A usage whose object identifier has 600 bytes, which end a Node before 24 that shows them. */
const LONG_USAGE = `DER:${Buffer.concat([Buffer.from('3082025c06820258', 'hex'), Buffer.alloc(600, 1)]).toString('hex')}`

void t.test('no certificate that a client makes up ends the server', async (t) => {
  const ca = new Folder(t).write('ca.crt', root.cert)
  for (const flag of ['--client-ca-file', '--requestheader-client-ca-file']) {
    const server = await startServer(t, { flags: [...secureFlags(), flag, ca, '--authorization-mode=RBAC'] })
    const port = Number(new URL(server.secureUrl).port)
    for (const protocol of ['http/1.1', 'h2']) {
      const { cert, key } = issue('ann', undefined, { usage: LONG_USAGE })
      const { socket } = await open(port, { cert, key, ALPNProtocols: [protocol] })
      t.equal(await statusOver(socket, {}), 401, `${flag}, ${protocol}`)
    }
    t.equal((await fetch(`${server.url}/livez`)).status, 200)
    t.equal(await server.kill('SIGTERM'), 0)
  }
})

void t.test('a client cannot replace its certificate by renegotiation', async (t) => {
  const flags = [...secureFlags(), '--client-ca-file', new Folder(t).write('ca.crt', root.cert)]
  const h = await startApp(t, { flags, objects: { 'pods/default/a': pod('a') } })
  const { cert, key } = issue('ann', root)
  const { socket } = await open(Number(new URL(h.secureUrl).port), { cert, key, maxVersion: 'TLSv1.2' })
  const closed = new Promise((resolve) => socket.on('error', () => {}).once('close', resolve))
  socket.renegotiate({}, () => {})
  await closed
  t.ok(socket.destroyed)
})
