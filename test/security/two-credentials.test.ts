/**
 * A caller with two credentials has one identity: the one counted and logged here is the one that the server
 * behind sees. A front proxy's headers take precedence over a certificate, and a certificate over a token; the token is
 * then not forwarded.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http2 from 'node:http2'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { type ApiServerStandIn, type SeenRequest, startApiServer } from '../support/api-server-stand-in.js'
import { type CertificatePair, createAuthority } from '../support/certificates.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { Folder } from '../server/auth/fixtures.js'

type Behind = 'the API server' | 'an aggregated API'

interface Scene {
  readonly h: AppHarness
  readonly behind: ApiServerStandIn
  /** Certificates by caller. */
  readonly pairs: Readonly<Record<string, CertificatePair | null>>
  /** The lines of the access log. */
  readonly log: () => readonly { readonly user: string; readonly path: string }[]
  readonly logText: () => string
}

const GROUP_VERSION = 'other.example/v1'
const PATHS: Readonly<Record<Behind, { readonly things: string; readonly exec: string }>> = {
  'the API server': { things: '/api/v1/namespaces/a/secrets', exec: '/api/v1/namespaces/a/pods/x/exec?command=sh' },
  'an aggregated API': {
    things: `/apis/${GROUP_VERSION}/namespaces/a/things`,
    exec: `/apis/${GROUP_VERSION}/namespaces/a/things/x/exec?command=sh`,
  },
}

async function scene(t: Test, kind: Behind, hasProxyCertificate: boolean): Promise<Scene> {
  const authority = createAuthority(t)
  const gateways = createAuthority(t)
  const server = authority.server()
  const files = { cert: readFileSync(server.cert), key: readFileSync(server.key), ca: readFileSync(authority.ca) }
  const behind = await startApiServer(t, { ...files, requestCert: true, rejectUnauthorized: false })
  const folder = new Folder(t)
  const audit = folder.write('audit.jsonl', '')
  const proxy = authority.client('our-proxy')
  const h = await startApp(t, {
    objects: { 'pods/a/x': pod('x', { namespace: 'a' }) },
    flags: [
      ['--secure-port', '0', '--tls-cert-file', server.cert, '--tls-private-key-file', server.key],
      ['--client-ca-file', authority.ca, '--requestheader-client-ca-file', gateways.ca],
      ['--token-auth-file', folder.write('tokens.csv', 'sesame,ali,1\n'), '--anonymous-auth'],
      ['--audit-log-path', audit, '--requests-per-second', '100000'],
      kind === 'the API server'
        ? ['--passthrough', behind.url, '--passthrough-cafile', authority.ca]
        : ['--apiservice', `${GROUP_VERSION}=${behind.url}`, '--passthrough-cafile', authority.ca],
      hasProxyCertificate ? ['--proxy-client-cert-file', proxy.cert, '--proxy-client-key-file', proxy.key] : [],
    ].flat(),
  })
  const logText = (): string => readFileSync(audit, 'utf8')
  return {
    h,
    behind,
    pairs: { jane: authority.client('jane', ['dev']), gateway: gateways.client('gateway'), nobody: null },
    logText,
    log: () =>
      logText()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { user: string; path: string }),
  }
}

type Headers = readonly (readonly [name: string, value: string])[]
type Send = (s: Scene, path: string, pair: CertificatePair | null, headers: Headers) => Promise<number>

function connectionOptions(pair: CertificatePair | null): tls.ConnectionOptions {
  const own = pair === null ? {} : { cert: readFileSync(pair.cert), key: readFileSync(pair.key) }
  return { ...own, rejectUnauthorized: false }
}

/** Sends the lines verbatim, and returns the status code. */
const overHttp1: Send = async ({ h }, path, pair, headers) => {
  const socket = tls.connect({ ...connectionOptions(pair), port: Number(new URL(h.secureUrl).port), host: '127.0.0.1' })
  await once(socket, 'secureConnect')
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`)
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  await until(() => text.includes('\r\n\r\n'), 'the head of an answer')
  socket.destroy()
  return Number(text.split(' ')[1])
}

const overHttp2: Send = async ({ h }, path, pair, headers) => {
  const session = http2.connect(h.secureUrl, connectionOptions(pair))
  const stream = session.request({ ':path': path, ...Object.fromEntries(headers) })
  const [answer] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader]
  stream.resume()
  await once(stream, 'end')
  session.close()
  return answer[':status'] ?? 0
}

const UPGRADE: Headers = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
]
const SPDY: Headers = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'SPDY/3.1'],
  ['X-Stream-Protocol-Version', 'v4.channel.k8s.io'],
]
const IN_HEADER: Headers = [['Authorization', 'Bearer sesame']]
const encoded = Buffer.from('sesame').toString('base64url')
const IN_PROTOCOL: Headers = [
  ['Sec-WebSocket-Protocol', `base64url.bearer.authorization.k8s.io.${encoded}, v5.channel.k8s.io`],
]
const FORWARDED: Headers = [
  ['X-Remote-User', 'jane'],
  ['X-Remote-Group', 'dev'],
]

interface Form {
  readonly name: string
  readonly send: Send
  readonly isUpgrade: boolean
  readonly headers: Headers
  readonly token: Headers
}

const FORMS: readonly Form[] = [
  { name: 'HTTP/1.1', send: overHttp1, isUpgrade: false, headers: [], token: IN_HEADER },
  { name: 'HTTP/2', send: overHttp2, isUpgrade: false, headers: [], token: IN_HEADER },
  { name: 'a WebSocket', send: overHttp1, isUpgrade: true, headers: UPGRADE, token: IN_HEADER },
  { name: 'a WebSocket with a subprotocol', send: overHttp1, isUpgrade: true, headers: UPGRADE, token: IN_PROTOCOL },
  { name: 'SPDY', send: overHttp1, isUpgrade: true, headers: SPDY, token: IN_HEADER },
]

/** Whether a text that was logged here or received by the server behind contains the token in any form. */
function holdsToken(text: string): boolean {
  return text.includes('sesame') || text.includes(encoded)
}

function requestsOfCallers({ behind }: Scene): readonly SeenRequest[] {
  // Discovery requests for the aggregated API do not count.
  return behind.seen.filter(({ url }) => url.includes('/namespaces/'))
}

for (const kind of ['the API server', 'an aggregated API'] as const) {
  void t.test(
    `${kind} sees the user of a certificate or a front proxy, and not that of a token beside it`,
    async (t) => {
      const s = await scene(t, kind, true)
      s.behind.upgrade = (_request, socket) => {
        socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
      }
      for (const { name, send, isUpgrade, headers, token } of FORMS) {
        for (const [caller, own] of [
          ['jane', []],
          ['gateway', FORWARDED],
        ] as const) {
          const text = `${name}, ${caller}`
          const before = requestsOfCallers(s).length
          const path = PATHS[kind][isUpgrade ? 'exec' : 'things']
          const code = await send(s, path, s.pairs[caller]!, [...headers, ...own, ...token])
          t.equal(code, isUpgrade ? 101 : 200, text)
          const seen = requestsOfCallers(s)
          t.equal(seen.length, before + 1, text)
          const last = seen.at(-1)!
          t.match(last, { certificate: 'our-proxy', headers: { 'x-remote-user': 'jane' } }, text)
          t.notOk(holdsToken(last.rawHeaders.join('\n')), `${text}: no token`)
          if (token === IN_PROTOCOL) t.equal(last.headers['sec-websocket-protocol'], 'v5.channel.k8s.io', text)
        }
      }
      await until(() => s.log().length === 2 * FORMS.length, 'the lines of the log')
      t.same(new Set(s.log().map(({ user }) => user)), new Set(['jane']), 'the log names whom that server sees')
      t.notOk(holdsToken(s.logText()))
    },
  )

  void t.test(`without a proxy certificate ${kind} gets no request in the name of another’s token`, async (t) => {
    const s = await scene(t, kind, false)
    for (const { name, send, isUpgrade, headers, token } of FORMS) {
      const path = PATHS[kind][isUpgrade ? 'exec' : 'things']
      t.equal(await send(s, path, s.pairs['jane']!, [...headers, ...token]), 403, name)
    }
    t.same(requestsOfCallers(s), [])
  })

  void t.test(`a token that identifies the caller reaches ${kind} without a proxy certificate`, async (t) => {
    const s = await scene(t, kind, false)
    s.behind.upgrade = (_request, socket) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
    }
    for (const { name, send, isUpgrade, headers, token } of FORMS) {
      const path = PATHS[kind][isUpgrade ? 'exec' : 'things']
      t.equal(await send(s, path, null, [...headers, ...token]), isUpgrade ? 101 : 200, name)
      t.ok(holdsToken(requestsOfCallers(s).at(-1)!.rawHeaders.join('\n')), name)
    }
    await until(() => s.log().length === FORMS.length, 'the lines of the log')
    t.same(new Set(s.log().map(({ user }) => user)), new Set(['ali']))
  })
}

void t.test('a token in a subprotocol is forwarded even if Connection lists its header', async (t) => {
  const s = await scene(t, 'the API server', false)
  const headers = UPGRADE.map(([name, value]) =>
    name === 'Connection' ? ([name, 'Upgrade, Sec-WebSocket-Protocol'] as const) : ([name, value] as const),
  )
  t.equal(await overHttp1(s, PATHS['the API server'].exec, null, [...headers, ...IN_PROTOCOL]), 403, 'its answer')
  t.ok(holdsToken(requestsOfCallers(s).at(-1)!.rawHeaders.join('\n')), 'otherwise nobody would be seen there')
})

void t.test('credentials that are not read here are not forwarded for an anonymous caller', async (t) => {
  const s = await scene(t, 'the API server', true)
  for (const value of ['Basic amFuZTpzZXNhbWU=', 'Bearer', 'bearer\tsesame', 'Negotiate sesame']) {
    t.equal(await overHttp1(s, PATHS['the API server'].things, null, [['Authorization', value]]), 200, value)
    const last = requestsOfCallers(s).at(-1)!
    t.match(last, { certificate: null, headers: { authorization: undefined } }, value)
  }
})

const IDENTITIES: Headers = [
  ['X-Remote-User', 'system:admin'],
  ['X_Remote_Group', 'system:masters'],
  ['Authorization', 'Bearer sesame'],
  ['Impersonate-User', 'root'],
  ['Sec-WebSocket-Protocol', `base64url.bearer.authorization.k8s.io.${encoded}`],
  ['X-Forwarded-For', '10.0.0.1'],
]

/** Sends a body with trailers, and returns the status code. */
const withTrailers: readonly (readonly [name: string, send: Send])[] = [
  [
    'HTTP/1.1',
    async ({ h }, path, pair, headers) => {
      const port = Number(new URL(h.secureUrl).port)
      const socket = tls.connect({ ...connectionOptions(pair), port, host: '127.0.0.1' })
      await once(socket, 'secureConnect')
      const trailers = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
      socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nTrailer: X-Sum\r\n`)
      socket.write(`Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n${trailers}X-Sum: 42\r\n\r\n`)
      let text = ''
      socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
      await until(() => text.includes('\r\n\r\n'), 'the head of an answer')
      socket.destroy()
      return Number(text.split(' ')[1])
    },
  ],
  [
    'HTTP/2',
    async ({ h }, path, pair, headers) => {
      const session = http2.connect(h.secureUrl, connectionOptions(pair))
      const stream = session.request({ ':method': 'POST', ':path': path }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ ...Object.fromEntries(headers), 'x-sum': '42' }))
      stream.end('{}')
      const [answer] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader]
      stream.resume()
      await once(stream, 'end')
      session.close()
      return answer[':status'] ?? 0
    },
  ],
]

for (const [name, send] of withTrailers) {
  void t.test(`over ${name}, trailers do not change the caller's identity, here or behind`, async (t) => {
    const s = await scene(t, 'the API server', true)
    const things = PATHS['the API server'].things
    t.equal(await send(s, things, s.pairs['jane']!, IDENTITIES), 200)
    const { headers, trailers, certificate } = requestsOfCallers(s).at(-1)!
    t.equal(certificate, 'our-proxy')
    t.equal(headers['x-remote-user'], 'jane')
    t.same(trailers, { 'x-sum': '42' }, 'others are passed on')
    t.equal(await send(s, things, null, IDENTITIES), 200, 'nobody')
    t.match(requestsOfCallers(s).at(-1)!, { certificate: null, trailers: { 'x-sum': '42' } })
    t.equal(await send(s, things, s.pairs['gateway']!, IDENTITIES), 401, 'a front proxy that names nobody')
    t.equal(requestsOfCallers(s).length, 2)
    await until(() => s.log().length === 3, 'the lines of the log')
    t.same(
      s.log().map(({ user }) => user),
      ['jane', 'system:anonymous', ''],
    )
  })
}

void t.test('a token in a subprotocol counts only in a complete upgrade request', async (t) => {
  const s = await scene(t, 'the API server', true)
  const watch = '/api/v1/pods?watch=1'
  const without = (...names: readonly string[]): Headers => UPGRADE.filter(([name]) => !names.includes(name))
  const rows: readonly (readonly [name: string, send: Send, headers: Headers, user: string])[] = [
    ['a complete one', overHttp1, UPGRADE, 'ali'],
    ['without Connection', overHttp1, without('Connection'), 'system:anonymous'],
    ['without Upgrade', overHttp1, without('Upgrade'), 'system:anonymous'],
    [
      'Connection lists something else',
      overHttp1,
      [...without('Connection'), ['Connection', 'close']],
      'system:anonymous',
    ],
    ['another protocol', overHttp1, [...without('Upgrade'), ['Upgrade', 'SPDY/3.1']], 'system:anonymous'],
    ['two protocols', overHttp1, [...UPGRADE, ['Upgrade', 'h2c']], 'system:anonymous'],
    ['over HTTP/2, which has none', overHttp2, without('Connection', 'Upgrade'), 'system:anonymous'],
  ]
  for (const [i, [name, send, headers, user]] of rows.entries()) {
    const path = send === overHttp2 ? '/api/v1/pods' : `${watch}&timeoutSeconds=1`
    await send(s, path, null, [...headers, ...IN_PROTOCOL])
    await until(() => s.log().length === i + 1, `the line of the log: ${name}`)
    t.equal(s.log().at(-1)!.user, user, name)
  }
})
