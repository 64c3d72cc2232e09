/**
 * A foreign page never writes with a credential that a browser adds by itself, or with none: neither here nor on the
 * servers behind. Consoles keep working: their backends send a token, or are authenticated front proxies.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { type ApiServerStandIn, startApiServer } from '../support/api-server-stand-in.js'
import { type CertificatePair, createAuthority } from '../support/certificates.js'
import { endsWithUs } from '../support/ends-with-us.js'
import { kubectlBinary } from '../support/kubectl.js'
import { Folder } from '../server/auth/fixtures.js'

const ALLOWED = 'https://console.example'
const EVIL = 'https://evil.example'
const GROUP_VERSION = 'other.example/v1'
const REVIEW = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: {} }
const spec = { resourceAttributes: { verb: 'get', resource: 'pods' } }
const UPGRADE = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }

interface Action {
  readonly method: string
  readonly path: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The answer to those who may. */
  readonly status: number
}

/** What a server beside an API server answers or forwards. */
const FORWARDED: Readonly<Record<string, Action>> = {
  'a write by --passthrough': { method: 'POST', path: '/api/v1/namespaces/a/secrets', body: '{}', status: 200 },
  'a delete by --passthrough': { method: 'DELETE', path: '/api/v1/namespaces/a/pods/x', status: 200 },
  'an exec by --passthrough': {
    method: 'GET',
    path: '/api/v1/namespaces/a/pods/x/exec',
    headers: UPGRADE,
    status: 403,
  },
  'a ticket': { method: 'POST', path: '/tickets', body: '{"path":"/api/v1/pods"}', status: 201 },
  'a consistency check': { method: 'POST', path: '/consistency-check', status: 200 },
}

const configMap = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { generateName: 'c-' } })

/** What a server without an API server beside it writes or decides, and what it forwards to an aggregated API. */
const OWN: Readonly<Record<string, Action>> = {
  'a write by --apiservice': { method: 'PUT', path: `/apis/${GROUP_VERSION}/things/x`, body: '{}', status: 200 },
  'an own write': { method: 'POST', path: '/api/v1/namespaces/a/configmaps', body: configMap, status: 201 },
  'a review': {
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: JSON.stringify({ ...REVIEW, spec }),
    status: 201,
  },
}

interface Scene {
  readonly h: AppHarness
  readonly behind: ApiServerStandIn
  readonly ca: string
  readonly jane: CertificatePair
  readonly gateway: CertificatePair
}

async function scene(t: Test, kind: 'forwards' | 'writes', more: readonly string[] = []): Promise<Scene> {
  const authority = createAuthority(t)
  const gateways = createAuthority(t)
  const server = authority.server()
  const files = { cert: readFileSync(server.cert), key: readFileSync(server.key), ca: readFileSync(authority.ca) }
  const behind = await startApiServer(t, { ...files, requestCert: true, rejectUnauthorized: false })
  const folder = new Folder(t)
  const proxy = authority.client('our-proxy')
  const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'a', uid: 'uid-a' } }
  const h = await startApp(t, {
    objects: { 'namespaces/a': namespace },
    flags: [
      ['--secure-port', '0', '--tls-cert-file', server.cert, '--tls-private-key-file', server.key],
      ['--client-ca-file', authority.ca, '--requestheader-client-ca-file', gateways.ca],
      ['--token-auth-file', folder.write('tokens.csv', 'sesame,ali,1\n'), '--requests-per-second', '100000'],
      ['--ticket-key-file', folder.write('keys', 'the-key-of-all-replicas-0123456789\n')],
      ['--cors-allowed-origins', ALLOWED],
      kind === 'writes'
        ? ['--enable-writes', '--apiservice', `${GROUP_VERSION}=${behind.url}`]
        : ['--passthrough', behind.url],
      ['--passthrough-cafile', authority.ca],
      ['--proxy-client-cert-file', proxy.cert, '--proxy-client-key-file', proxy.key],
      more,
    ].flat(),
  })
  return { h, behind, ca: authority.ca, jane: authority.client('jane', ['dev']), gateway: gateways.client('gateway') }
}

interface Sent {
  readonly url: string
  readonly pair?: CertificatePair
  readonly headers: Readonly<Record<string, string>>
}

async function send({ method, path, body, headers: own }: Action, { url, pair, headers }: Sent): Promise<number> {
  const certificate = pair === undefined ? {} : { cert: readFileSync(pair.cert), key: readFileSync(pair.key) }
  const key = own === undefined ? {} : { 'sec-websocket-key': Buffer.alloc(16).toString('base64') }
  const start = url.startsWith('https:') ? https.request : http.request
  const request = start(`${url}${path}`, {
    method,
    agent: false,
    ...certificate,
    rejectUnauthorized: false,
    headers: { 'content-type': 'application/json', ...own, ...key, ...headers },
  })
  request.end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode ?? 0
}

for (const [kind, actions] of [
  ['forwards', FORWARDED],
  ['writes', OWN],
] as const) {
  void t.test(`a foreign page cannot use a visitor's certificate at a server that ${kind}`, async (t) => {
    const { h, behind, jane, gateway } = await scene(t, kind)
    const url = h.secureUrl
    const own = new URL(url).origin
    // An aggregated API's discovery is read too.
    const forwarded = (): number => behind.seen.filter(({ method, url }) => method !== 'GET' || /exec/.test(url)).length
    for (const [what, action] of Object.entries(actions)) {
      for (const origin of [EVIL, 'null', `${ALLOWED}:8443`, `http://localhost:${h.port}`]) {
        const before = forwarded()
        for (const headers of [{ origin }, { origin, cookie: 'a=b' }, { origin, authorization: 'Basic YTpi' }]) {
          const status = await send(action, { url, pair: jane, headers })
          t.equal(status, 403, `${what} from ${origin} with ${Object.keys(headers).join()}`)
        }
        t.equal(forwarded(), before, 'nothing is forwarded')
        const bearer = { origin, authorization: 'Bearer sesame' }
        t.equal(await send(action, { url, headers: bearer }), action.status, `${what} from ${origin} with a token`)
        const named = { origin, 'x-remote-user': 'ann' }
        t.equal(await send(action, { url, pair: gateway, headers: named }), action.status, `${what} by a front proxy`)
        t.equal(await send(action, { url, pair: jane, headers: named }), 403, 'which must be one')
      }
      for (const headers of [{ origin: own }, { origin: ALLOWED }, {}])
        t.equal(await send(action, { url, pair: jane, headers }), action.status, `${what} with ${headers.origin}`)
    }
  })
}

void t.test('a token in a subprotocol, which any page may choose, does not replace a certificate', async (t) => {
  const { h, behind, jane } = await scene(t, 'forwards')
  const protocol = `base64url.bearer.authorization.k8s.io.${Buffer.from('sesame').toString('base64url')}, v4.channel.k8s.io`
  const headers = { origin: EVIL, 'sec-websocket-protocol': protocol }
  t.equal(await send(FORWARDED['an exec by --passthrough']!, { url: h.secureUrl, pair: jane, headers }), 403)
  t.same(behind.seen, [])
})

void t.test('without authenticators, a foreign page neither writes nor forwards', async (t) => {
  const behind = await startApiServer(t)
  const h = await startApp(t, { flags: ['--passthrough', behind.url] })
  const action = FORWARDED['a write by --passthrough']!
  for (const origin of [EVIL, 'null', 'x'.repeat(400)])
    t.equal(await send(action, { url: h.url, headers: { origin } }), 403, origin)
  t.same(behind.seen, [])
  t.equal(await send(action, { url: h.url, headers: { origin: h.url } }), 200)
  t.equal(await send(action, { url: h.url, headers: { origin: EVIL, authorization: 'Bearer a' } }), 200)
})

/**
 * Stands in for Headlamp behind an ingress: the backend sends the user's token, the page's Origin and a Host of its
 * own, for requests and WebSockets. (headlamp-server: a httputil.ReverseProxy for each cluster, which keeps Origin.)
 */
async function startConsole(t: Test, target: string): Promise<string> {
  const { port } = new URL(target)
  const server = net.createServer((client) => {
    const behind = net.connect(Number(port), '127.0.0.1')
    client.once('data', (head: Buffer) => {
      const text = head.toString('latin1').replace(/^Host: .*$/im, `Host: distributary.internal:${port}`)
      behind.write(Buffer.from(text.replace('\r\n', '\r\nAuthorization: Bearer sesame\r\n'), 'latin1'))
      client.pipe(behind).pipe(client)
    })
    for (const socket of [client, behind]) socket.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`
}

void t.test('a console with a token behind a reverse proxy writes and opens WebSockets', async (t) => {
  for (const [kind, actions] of [
    ['forwards', FORWARDED],
    ['writes', OWN],
  ] as const) {
    const { h } = await scene(t, kind, ['--allowed-hosts', 'distributary.internal'])
    const url = await startConsole(t, h.url)
    for (const [what, action] of Object.entries(actions)) {
      const headers = { origin: 'https://headlamp.example', connection: 'close', ...action.headers }
      t.equal(await send(action, { url, headers }), action.status, what)
    }
  }
})

async function startKubectlProxy(t: Test, flags: readonly string[]): Promise<string> {
  const child = spawn(kubectlBinary, ['--kubeconfig=/dev/null', ...flags, 'proxy', '--port=0'])
  endsWithUs(child)
  t.teardown(() => child.kill())
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  return `http://${/127\.0\.0\.1:\d+/.exec(said.toString())![0]}`
}

void t.test('kubectl proxy in front: its page writes with a token, and with a certificate if allowed', async (t) => {
  const { h, ca, jane } = await scene(t, 'forwards')
  const server = ['--server', h.secureUrl, '--certificate-authority', ca]
  const action = FORWARDED['a write by --passthrough']!
  const byToken = await startKubectlProxy(t, [...server, '--token=sesame'])
  t.equal(await send(action, { url: byToken, headers: { origin: byToken } }), 200)
  const certificate = ['--client-certificate', jane.cert, '--client-key', jane.key]
  const byCertificate = await startKubectlProxy(t, [...server, ...certificate])
  t.equal(await send(action, { url: byCertificate, headers: {} }), 200, 'a program')
  t.equal(await send(action, { url: byCertificate, headers: { origin: byCertificate } }), 403)
  t.equal(await send(action, { url: byCertificate, headers: { origin: ALLOWED } }), 200)
})
