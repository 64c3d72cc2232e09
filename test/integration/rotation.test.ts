/**
 * Every credential of a server is replaced while clients watch and read, as an administrator would: first the new
 * authority is trusted along with the old one, then each certificate, key, token and password is replaced, then those
 * of the servers behind, and finally the old authority is no longer trusted. Watches continue and no read fails. Only
 * clients with an old credential are rejected, and their watches end with 401.
 *
 * The server reads a real etcd (TLS, user and password) and publishes to a real NATS (TLS, user and password). An edge
 * is fed from there, and another server is fed by the first (`--upstream`, `--kubeconfig`).
 */
import { execFileSync } from 'node:child_process'
import { get as getPlain, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, get, type RequestOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import type { IssuedCertificate } from '../support/issue-certificate.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { Folder, issue } from '../server/auth/fixtures.js'
import { pod } from '../support/pod.js'
import { startEtcd } from '../support/etcd-process.js'
import { startNats } from '../support/nats-process.js'
import { only } from '../support/only.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'

/** `JWKS_COOLDOWN_MS` in `src/server/auth/authn/oidc.ts`. */
const KEYS_ARE_KEPT_MS = 30_000
const DAY_MS = 86_400_000
const LOOPBACK = { altNames: ['127.0.0.1', 'localhost'] }
const OLD = issue('old authority', undefined, { notAfter: Date.now() + 9 * DAY_MS })
const NEW = issue('new authority', undefined, { notAfter: Date.now() + 9 * DAY_MS })
/** The trust of a client that knows both. */
const BOTH = `${OLD.cert}${NEW.cert}`

/** When the certificates of each authority expire: the metric has to follow. */
const ends = new Map([
  [OLD, Math.floor(Date.now() / 1_000) + 3 * 86_400],
  [NEW, Math.floor(Date.now() / 1_000) + 7 * 86_400],
])
const leaf = (name: string, by: IssuedCertificate, more: Parameters<typeof issue>[2] = {}): IssuedCertificate =>
  issue(name, by, { ...more, notAfter: ends.get(by)! * 1_000 })

/** The discovery document of the server behind (`--passthrough`). */
const DISCOVERY: Readonly<Record<string, object>> = {
  '/api': { kind: 'APIVersions', versions: ['v1'] },
  '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [] },
  '/api/v1': {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: 'v1',
    resources: [{ name: 'pods', singularName: 'pod', namespaced: true, kind: 'Pod', verbs: ['get', 'list', 'watch'] }],
  },
}

/**
 * An HTTPS server that requires a client certificate; its own certificate and the authority that it trusts change while
 * it runs.
 */
async function standIn(t: Test, answer: (request: IncomingMessage, body: string, from: string) => unknown) {
  const contextOf = (by: IssuedCertificate, trusted: string) => {
    const { cert, key } = leaf('localhost', by, LOOPBACK)
    return { cert, key, ca: trusted }
  }
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => {
      const from = (request.socket as TLSSocket).getPeerCertificate().subject?.CN ?? ''
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(answer(request, body, String(from))))
    })
  }
  const server = createServer({ ...contextOf(OLD, BOTH), requestCert: true, rejectUnauthorized: false }, respond)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** From the next connection on, the server uses and trusts only the new authority. */
    rotate: (): void => {
      server.setSecureContext(contextOf(NEW, NEW.cert))
      server.closeIdleConnections()
    },
  }
}

/** Watches the pods, and records the events and how it ended. */
class Watch {
  readonly seen = new Set<string>()
  end: string | null = null
  #text = ''

  constructor(
    readonly name: string,
    t: Test,
    options: RequestOptions & { readonly url: string },
    opened = get,
  ) {
    const request = opened(new URL('/api/v1/pods?watch=1', options.url), { agent: false, ...options }, (response) => {
      if (response.statusCode !== 200) this.end = `refused: ${response.statusCode}`
      else response.setEncoding('utf8').on('data', (text: string) => this.#take(text))
      response.on('close', () => (this.end ??= 'closed'))
    })
    request.on('error', (error) => (this.end ??= error.message))
    t.teardown(() => request.destroy())
  }

  #take(text: string): void {
    const lines = (this.#text + text).split('\n')
    this.#text = lines.pop() ?? ''
    for (const line of lines) {
      const { type, object } = JSON.parse(line) as {
        type: string
        object: { code?: number; metadata: { name: string } }
      }
      if (type === 'ERROR') this.end = `ended with ${object.code}`
      else this.seen.add(object.metadata.name)
    }
  }
}

interface Answer {
  readonly status: number
  readonly text: string
}

/** Sends one request on its own connection. @throws Error when there is no response. */
async function ask(url: string, path: string, options: RequestOptions = {}): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    get(new URL(path, url), { agent: false, ca: BOTH, ...options }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (more: string) => (text += more))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    }).on('error', reject)
  })
}

/** Reads from the cache continuously, and records answers other than 200. */
function readOn(server: ServerProcess, name: string, options: () => RequestOptions) {
  const state = { answered: 0, failures: [] as string[], isStopped: false }
  const run = async (): Promise<void> => {
    for (; !state.isStopped; await pause(20)) {
      try {
        const { status, text } = await ask(server.secureUrl, '/api/v1/pods?resourceVersion=0', options())
        if (status === 200) state.answered++
        else state.failures.push(`${name}: ${status} ${text}`)
      } catch (error) {
        state.failures.push(`${name}: ${String(error)}`)
      }
    }
  }
  const done = run()
  return {
    state,
    stop: async (): Promise<void> => {
      state.isStopped = true
      await done
    },
  }
}

void t.test('every credential is replaced during watches, and clients with the new one stay connected', async (t) => {
  const folder = new Folder(t)
  const path = (name: string): string => join(folder.path, name)
  const put = (name: string, pair: IssuedCertificate): void => {
    folder.write(`${name}.key`, pair.key)
    folder.write(`${name}.crt`, pair.cert)
  }
  const AUTHORITIES = [
    'client-ca',
    'front-ca',
    'etcd-ca',
    'nats-ca',
    'passthrough-ca',
    'oidc-ca',
    'webhook-ca',
    'own-ca',
  ]
  const trust = (certificates: string): void => {
    for (const name of AUTHORITIES) folder.write(`${name}.crt`, certificates)
  }
  /** The server's own certificates by the option that names them, each with the name that others see. */
  const putOwn = (by: IssuedCertificate): void => {
    put('serving', leaf('localhost', by, LOOPBACK))
    for (const name of ['etcd', 'nats', 'proxy', 'webhook', 'upstream']) {
      put(name, leaf(`${name}-${by === OLD ? 'old' : 'new'}`, by))
    }
  }
  trust(OLD.cert)
  putOwn(OLD)

  // The servers around it.
  put('etcd-server', leaf('localhost', OLD, LOOPBACK))
  folder.write('etcd-trusted.crt', BOTH)
  const etcd = await startEtcd(t, {
    tls: { cert: path('etcd-server.crt'), key: path('etcd-server.key'), clientCa: path('etcd-trusted.crt') },
  })
  const admin = leaf('root', NEW)
  put('admin', admin)
  folder.write('both.crt', BOTH)
  const etcdctl = (args: readonly string[], input = ''): void => {
    const tls = ['--cacert', path('both.crt'), '--cert', path('admin.crt'), '--key', path('admin.key')]
    execFileSync('etcdctl', ['--endpoints', etcd.url, ...tls, ...args], { input, stdio: ['pipe', 'pipe', 'pipe'] })
  }
  etcdctl(['user', 'add', 'root:root'])
  etcdctl(['user', 'grant-role', 'root', 'root'])
  etcdctl(['user', 'add', 'server:first'])
  etcdctl(['user', 'grant-role', 'server', 'root'])
  etcdctl(['auth', 'enable'])
  folder.write('etcd-password', 'first\n')
  const writer = connectEtcd({
    endpoints: [etcd.url],
    tls: { ca: Buffer.from(BOTH), cert: Buffer.from(admin.cert), key: Buffer.from(admin.key) },
    user: { name: 'root', password: 'root' },
  })
  t.teardown(() => writer.close())
  const write = async (name: string): Promise<void> => {
    const key = keyFromText(`/registry/pods/default/${name}`)
    await writer.write([], [{ type: 'put', key, value: Buffer.from(JSON.stringify(pod(name))) }])
  }

  put('nats-server', leaf('localhost', OLD, LOOPBACK))
  folder.write('nats-trusted.crt', BOTH)
  folder.write('nats-password', 'first\n')
  const natsConfig = (password: string): string => `
    authorization { user: server, password: ${password} }
    tls { cert_file: "${path('nats-server.crt')}", key_file: "${path('nats-server.key')}", ca_file: "${path('nats-trusted.crt')}", verify: true }`
  const nats = await startNats(t, { config: natsConfig('first') })

  const behind = await standIn(t, ({ url = '' }, _body, from) => DISCOVERY[url.split('?')[0]!] ?? { from })
  const reviewers = new Set<string>()
  const webhooks = await standIn(t, ({ url }, body, from) => {
    if (url === '/readyz') return 'ok'
    reviewers.add(from)
    const review = JSON.parse(body) as { kind: string; spec: { token?: string } }
    const status =
      review.kind === 'TokenReview'
        ? { authenticated: review.spec.token === 'reviewed', user: { username: 'reviewed' } }
        : { allowed: true }
    return { ...review, status }
  })
  const makeKey = async (kid: string) => ({ kid, ...(await generateKeyPair('RS256')) })
  const keys = [await makeKey('first')]
  const published = new Map<string, object>()
  const publish = async ({ kid, publicKey }: { kid: string; publicKey: CryptoKey }): Promise<void> =>
    void published.set(kid, { ...(await exportJWK(publicKey)), kid, use: 'sig' })
  await publish(keys[0]!)
  const oidc = await standIn(t, ({ url }) =>
    url === '/keys' ? { keys: [...published.values()] } : { issuer: oidc.url, jwks_uri: `${oidc.url}/keys` },
  )
  const tokenOf = async ({ kid, privateKey }: { kid: string; privateKey: CryptoKey }): Promise<string> =>
    await new SignJWT({ iss: oidc.url, aud: 'distributary', sub: 'oidc', exp: Math.floor(Date.now() / 1_000) + 3_600 })
      .setProtectedHeader({ alg: 'RS256', kid })
      .sign(privateKey)

  const kubeconfig = (server: string, cert: string, ca: string): string =>
    JSON.stringify({
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server, 'certificate-authority': `${ca}.crt` } }],
      users: [{ name: 'u', user: { 'client-certificate': `${cert}.crt`, 'client-key': `${cert}.key` } }],
    })
  folder.write('webhook.kubeconfig', kubeconfig(webhooks.url, 'webhook', 'webhook-ca'))
  folder.write('tokens.csv', 'static-old,static,1\n')

  const natsFlags = [
    `--nats-servers=tls://127.0.0.1:${nats.port}`,
    '--nats-lease=5s',
    '--nats-stream-bytes=1MiB',
    '--nats-username=server',
    `--nats-password-file=${path('nats-password')}`,
    `--nats-cafile=${path('nats-ca.crt')}`,
    `--nats-certfile=${path('nats.crt')}`,
    `--nats-keyfile=${path('nats.key')}`,
  ]
  const server = await startServer(t, {
    flags: [
      ...only('pods'),
      `--etcd-servers=${etcd.url}`,
      `--etcd-cafile=${path('etcd-ca.crt')}`,
      `--etcd-certfile=${path('etcd.crt')}`,
      `--etcd-keyfile=${path('etcd.key')}`,
      '--etcd-username=server',
      `--etcd-password-file=${path('etcd-password')}`,
      ...natsFlags,
      '--secure-port=0',
      '--metrics-bind-address=127.0.0.1:0',
      `--tls-cert-file=${path('serving.crt')}`,
      `--tls-private-key-file=${path('serving.key')}`,
      `--client-ca-file=${path('client-ca.crt')}`,
      `--requestheader-client-ca-file=${path('front-ca.crt')}`,
      `--token-auth-file=${path('tokens.csv')}`,
      `--oidc-issuer-url=${oidc.url}`,
      '--oidc-client-id=distributary',
      `--oidc-ca-file=${path('oidc-ca.crt')}`,
      `--authentication-kubeconfig=${path('webhook.kubeconfig')}`,
      '--authentication-token-webhook-cache-ttl=1s',
      '--authorization-mode=Webhook',
      `--authorization-kubeconfig=${path('webhook.kubeconfig')}`,
      '--authorization-webhook-cache-authorized-ttl=1s',
      `--passthrough=${behind.url}`,
      `--passthrough-cafile=${path('passthrough-ca.crt')}`,
      `--proxy-client-cert-file=${path('proxy.crt')}`,
      `--proxy-client-key-file=${path('proxy.key')}`,
      '--requests-per-second=100000',
    ],
  })
  folder.write('upstream.kubeconfig', kubeconfig(server.secureUrl, 'upstream', 'own-ca'))
  const chained = await startServer(t, {
    flags: [`--upstream=${server.secureUrl}`, `--kubeconfig=${path('upstream.kubeconfig')}`, '--resource=pods'],
  })
  const edge = await startServer(t, { flags: [...only('pods'), '--nats-role=edge', ...natsFlags] })

  // Clients of every kind.
  const bearer = (token: string): RequestOptions => ({ headers: { authorization: `Bearer ${token}` } })
  const [userOld, userNew] = [leaf('ann', OLD), leaf('ann', NEW)]
  const [frontOld, frontNew] = [leaf('front', OLD), leaf('front', NEW)]
  const shown = ({ cert, key }: IssuedCertificate, headers = {}): RequestOptions => ({ cert, key, headers })
  const asFront = { 'x-remote-user': 'through' }
  const open = (name: string, options: RequestOptions): Watch =>
    new Watch(name, t, { url: server.secureUrl, ca: BOTH, ...options })
  const plain = (name: string, url: string): Watch => new Watch(name, t, { url }, getPlain as typeof get)
  const firstToken = await tokenOf(keys[0]!)
  const staying = [
    open('reviewed token', bearer('reviewed')),
    open('OIDC token', bearer(firstToken)),
    plain('of the server behind', chained.url),
    plain('of the edge', edge.url),
  ]
  const leaving = [
    open('old client certificate', shown(userOld)),
    open('old front proxy', shown(frontOld, asFront)),
    open('old token', bearer('static-old')),
  ]
  const all = (): Watch[] => [...staying, ...leaving]
  let written = 0
  const arrives = async (watches: readonly Watch[], what: string): Promise<void> => {
    const name = `p${written++}`
    await write(name)
    const missing = (): string[] =>
      watches.filter(({ seen, end }) => end !== null || !seen.has(name)).map(({ name, end }) => `${name} (${end})`)
    await until(
      () => missing().length === 0,
      () => `${what}: ${missing().join()}; ${server.log().slice(-2_000)}`,
    )
  }
  await arrives(all(), 'before')
  const keysReadMs = performance.now()
  let hasRotated = false
  const readers = [
    readOn(server, 'a client certificate', () => shown(hasRotated ? userNew : userOld)),
    readOn(server, 'a reviewed token', () => bearer('reviewed')),
  ]
  for (const { stop } of readers) t.teardown(stop)
  // A caller with only a certificate is named by the front proxy's headers, which only the proxy's certificate makes
  // credible.
  const passed = async (): Promise<Answer> =>
    await ask(server.secureUrl, '/apis/other.example/v1/things', shown(hasRotated ? userNew : userOld))
  t.match(await passed(), { status: 200, text: /proxy-old/ })

  // The new authority is trusted as well: once all know it, either may be presented.
  trust(BOTH)
  await until(async () => (await statusOf(server, shown(userNew))) === 200, 'users of the new authority are let in')
  await until(
    async () => (await statusOf(server, shown(frontNew, asFront))) === 200,
    'a front proxy of the new authority is let in',
  )
  await arrives(all(), 'with both authorities')

  // Replace the server's own credentials.
  putOwn(NEW)
  etcdctl(['--user', 'root:root', 'user', 'passwd', 'server', '--interactive=false'], 'second\n')
  folder.write('etcd-password', 'second\n')
  folder.write('tokens.csv', 'static-old,static,1\nstatic-new,static,1\n')
  keys.push(await makeKey('second'))
  await publish(keys[1]!)
  hasRotated = true
  const USES = ['clients', 'etcd', 'nats', 'passthrough', 'authentication', 'authorization']
  const endsOf = async (of: ServerProcess): Promise<Record<string, number>> => {
    const base = of === server ? server.metricsUrl : of.url
    const text = await (await fetch(`${base}/metrics`)).text()
    const found = text.matchAll(/^distributary_certificate_expiry_timestamp_seconds\{use="(\w+)",[^}]*\} (\d+)$/gm)
    return Object.fromEntries([...found].map(([, use, end]) => [use, Number(end)]))
  }
  const wanted = Object.fromEntries(USES.map((use) => [use, ends.get(NEW)!]))
  const isAll = (found: object, of: object): boolean =>
    Object.entries(of).every(([use, end]) => (found as Record<string, number>)[use] === end)
  await until(async () => isAll(await endsOf(server), wanted), 'the metric follows every certificate')
  await until(async () => isAll(await endsOf(chained), { upstream: ends.get(NEW)! }), 'and that of the kubeconfig')
  await until(async () => /proxy-new/.test((await passed()).text), 'the new proxy certificate is shown')
  await until(() => reviewers.has('webhook-new'), 'the new certificate is shown to the webhooks')
  await until(async () => (await servingEnd(server)) === ends.get(NEW), 'the new certificate is shown to clients')
  staying.push(open('new client certificate', shown(userNew)), open('new front proxy', shown(frontNew, asFront)))
  await until(async () => (await statusOf(server, bearer('static-new'))) === 200, 'the new token is taken')
  staying.push(open('new token', bearer('static-new')))
  await arrives(all(), 'with new credentials')

  // The servers behind it: from now on they use and trust only the new authority.
  for (const peer of [behind, webhooks, oidc]) peer.rotate()
  put('etcd-server', leaf('localhost', NEW, LOOPBACK))
  folder.write('etcd-trusted.crt', NEW.cert)
  put('nats-server', leaf('localhost', NEW, LOOPBACK))
  folder.write('nats-trusted.crt', NEW.cert)
  folder.write('nats-password', 'second\n')
  await etcd.restart()
  await nats.restart(natsConfig('second'))
  await until(
    async () => (await ask(server.secureUrl, '/api/v1/pods', bearer('reviewed'))).status === 200,
    'consistent reads go to etcd again',
  )
  t.match(await passed(), { status: 200, text: /proxy-new/ })
  reviewers.clear()
  await until(() => reviewers.has('webhook-new'), 'the webhooks are asked')
  await arrives(all(), 'after those behind')

  // The old authority is no longer trusted.
  trust(NEW.cert)
  folder.write('tokens.csv', 'static-new,static,1\n')
  await until(
    () => leaving.every(({ end }) => end !== null),
    () => `old watches end: ${leaving.map(({ name, end }) => `${name} (${end})`).join()}`,
  )
  for (const { name, end } of leaving) t.equal(end, 'closed', name)
  t.equal(await statusOf(server, shown(userOld)), 401, 'an old client certificate')
  t.equal(await statusOf(server, shown(frontOld, asFront)), 401, 'an old front proxy')
  t.equal(await statusOf(server, bearer('static-old')), 401, 'an old token')
  await arrives(staying, 'with the new authority alone')

  // A key set is not refetched for a while, whatever tokens arrive.
  const secondToken = await tokenOf(keys[1]!)
  await until(() => performance.now() - keysReadMs > KEYS_ARE_KEPT_MS, 'an unknown key is looked for again')
  await until(async () => (await statusOf(server, bearer(secondToken))) === 200, 'the new key of the issuer is known')

  for (const { state, stop } of readers) {
    await stop()
    t.ok(state.answered > 50, `${state.answered} answers`)
    t.same(state.failures, [], 'no read has failed')
  }
  t.same([...reviewers], ['webhook-new'])
  const names = Array.from({ length: written }, (_, i) => `p${i}`)
  for (const { name, seen } of staying.slice(0, 4))
    t.same([...seen].toSorted(), names.toSorted(), `${name}: all was seen`)
})

async function statusOf(server: ServerProcess, options: RequestOptions): Promise<number> {
  return (await ask(server.secureUrl, '/api/v1/pods?resourceVersion=0', options)).status
}

/** When the serving certificate expires, in seconds since the epoch. */
async function servingEnd(server: ServerProcess): Promise<number> {
  return await new Promise((resolve, reject) => {
    const request = get(new URL('/livez', server.secureUrl), { agent: false, ca: BOTH }, (response) => {
      const { valid_to: end } = (response.socket as TLSSocket).getPeerCertificate()
      response.resume()
      resolve(Math.floor(Date.parse(end) / 1_000))
    })
    request.on('error', reject)
  })
}
