/** Activities of clients of one server: requests, watches over each transport, and how they end. */
import { createSign, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type HoldOptions, type Transport, ask, hold } from '../security/support/transports.js'
import { definitionObject, ESTABLISHED } from '../support/definition.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { selfSignedCertificate } from '../support/issue-certificate.js'
import { pod } from '../support/pod.js'
import { needsNode } from '../support/program.js'
import type { ServerProcess } from '../support/server-process.js'
import { rangesText, uidOf } from '../support/shards.js'
import { firstFigures } from '../support/status-page.js'
import { pause, until } from '../support/until.js'
import { type Activity, group, type Subject } from './activity.js'
import { measured } from './processes.js'
import { fillHistory, startMeasured } from './start-measured.js'

const PODS = '/api/v1/pods'
const FLAGS = '/apis/distributary.io/v1/flags'
const TOKEN = 'ann-token'
const ISSUER = 'https://kubernetes.default.svc'
const bearer = { authorization: `Bearer ${TOKEN}` }

const POLICY = `rules:
  - {users: [ann], verbs: ["*"], apiGroups: ["*"], resources: ["*"]}
  - {users: [ann], verbs: ["*"], paths: ["*"]}
  - {users: ["*"], verbs: [get, list, watch], apiGroups: [""], resources: [pods]}
`

const TOKENS = `${TOKEN},ann,1\nbob-token,bob,2\n`

export interface World extends Subject {
  readonly server: ServerProcess
  readonly etcd: EtcdProcess
  readonly writer: EtcdWriter
  /** Replaces a file that the server watches. */
  rewrite(name: string, text: string): void
  /** A token of the service account `default/agent` with this id. */
  serviceAccountToken(id: string): string
}

export async function startWorld(t: Test): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-growth-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const rewrite = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const namespace = (name: string): object => ({ kind: 'Namespace', apiVersion: 'v1', metadata: { name, uid: name } })
  const agent = { name: 'agent', namespace: 'default', uid: 'uid-of-agent' }
  await writer.fill(
    new Map<string, Written>([
      ['/registry/namespaces/default', namespace('default')],
      ['/registry/serviceaccounts/default/agent', { kind: 'ServiceAccount', apiVersion: 'v1', metadata: agent }],
      ...Array.from({ length: 60 }, (_, i): [string, object] => [
        `/registry/pods/default/p${i}`,
        pod(`p${i}`, { labels: { app: `a${i % 4}` } }),
      ]),
      ...Array.from({ length: 20 }, (_, i): [string, string] => [`/config/flags/f${i}`, `{"on":${i}}`]),
    ]),
  )
  const { cert, key } = selfSignedCertificate()
  const keys = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const server = await startMeasured(t, [
    '--etcd-servers',
    etcd.url,
    '--resource=flags=/config/flags/',
    '--enable-writes',
    '--secure-port=0',
    '--tls-cert-file',
    rewrite('tls.crt', cert),
    '--tls-private-key-file',
    rewrite('tls.key', key),
    '--client-ca-file',
    rewrite('ca.crt', cert),
    '--token-auth-file',
    rewrite('tokens.csv', TOKENS),
    '--authorization-mode=Policy',
    '--authorization-policy-file',
    rewrite('policy.yaml', POLICY),
    '--ticket-key-file',
    rewrite('tickets', `${'k'.repeat(32)}\n`),
    '--config',
    rewrite('config.yaml', CONFIG),
    '--service-account-issuer',
    ISSUER,
    '--api-audiences',
    ISSUER,
    '--service-account-key-file',
    rewrite('sa.pub', String(keys.publicKey.export({ type: 'spki', format: 'pem' }))),
    '--audit-log-path',
    join(folder, 'audit.log'),
  ])
  await fillHistory(writer, { '/registry/pods/default/p0': pod('p0'), '/config/flags/f0': 'true' })
  return {
    ...measured(server),
    server,
    etcd,
    writer,
    rewrite: (name, text) => void rewrite(name, text),
    serviceAccountToken: (id) => signed(keys.privateKey, id),
  }
}

const CONFIG = 'logLevel: info\n'

function signed(key: Parameters<ReturnType<typeof createSign>['sign']>[0], id: string): string {
  const now = Math.floor(Date.now() / 1_000)
  const account = { namespace: 'default', serviceaccount: { name: 'agent', uid: 'uid-of-agent' } }
  const claims = {
    iss: ISSUER,
    aud: [ISSUER],
    sub: 'system:serviceaccount:default:agent',
    iat: now,
    exp: now + 3_600,
    jti: id,
    'kubernetes.io': account,
  }
  const text = [{ alg: 'RS256' }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return `${text}.${createSign('RSA-SHA256').update(text).sign(key, 'base64url')}`
}

type Once = Activity<World>['once']

/** A response of any code but those that would make the activity another one. */
function request(
  path: string | ((i: number) => string),
  expected: number | readonly number[],
  options: {
    readonly method?: string
    readonly headers?: (i: number) => object
    readonly body?: (i: number) => unknown
  } = {},
): Once {
  return async ({ server }, i) => {
    const { method = 'GET', headers, body } = options
    const response = await fetch(server.url + (typeof path === 'string' ? path : path(i)), {
      method,
      headers: { ...bearer, connection: 'close', 'content-type': 'application/json', ...headers?.(i) },
      ...(body === undefined ? {} : { body: typeof body(i) === 'string' ? String(body(i)) : JSON.stringify(body(i)) }),
    })
    const text = await response.text()
    if (![expected].flat().includes(response.status))
      throw new Error(`${method} ${response.url}: ${response.status} ${text}`)
  }
}

const gzip = { 'accept-encoding': 'gzip' }
const watches: readonly (readonly [name: string, transport: Transport, options: HoldOptions])[] = [
  ['HTTP/1.1', 'HTTP/1.1', {}],
  ['HTTP/1.1 with gzip', 'HTTP/1.1', { headers: gzip }],
  ['HTTP/1.1 with protobuf', 'HTTP/1.1', { headers: { accept: 'application/vnd.kubernetes.protobuf;stream=watch' } }],
  ['HTTP/2', 'HTTP/2', {}],
  ['Server-Sent Events', 'SSE', {}],
  ['WebSocket', 'WebSocket', {}],
]

const open = ({ server }: World, transport: Transport, path: string, options: HoldOptions = {}) =>
  hold(server.url, transport, path, { token: TOKEN, ...options })

function* watchActivities(): Generator<Activity<World>> {
  for (const [name, transport, options] of watches) {
    if (transport === 'HTTP/2' && needsNode !== false) continue
    // Each transport in its plain form is enough for every change.
    const nightly = options.headers === undefined ? {} : ({ isNightly: true } as const)
    yield {
      ...nightly,
      name: `a quiet watch over ${name}, closed by its client`,
      async once(world) {
        const held = await open(world, transport, `${PODS}?watch=1&fieldSelector=metadata.name=none`, options)
        held.close()
      },
    }
    yield {
      ...nightly,
      name: `a watch over ${name} with events, closed by its client`,
      async once(world, i) {
        const held = await open(world, transport, `${PODS}?watch=1`, options)
        await world.writer.put('/registry/pods/default/p0', pod('p0', { labels: { i: `${i}` } }))
        const hasEvents = (): boolean =>
          held.bytes.length > 10_000 || (held.bytes.length > 500 && options.headers !== undefined)
        await until(() => hasEvents() || held.hasEnded, 'events')
        held.close()
        if (!hasEvents()) throw new Error('the watch has ended without events')
      },
    }
    yield {
      ...nightly,
      name: `a watch over ${name} that times out`,
      atOnce: 20,
      async once(world) {
        const held = await open(world, transport, `${PODS}?watch=1&timeoutSeconds=1`, options)
        await held.ended
      },
    }
    yield {
      name: `a watch over ${name} whose client vanishes without a FIN`,
      atOnce: 20,
      async once({ server }) {
        const proxy = await startFaultProxy({ targetPort: server.port })
        const headers = transport === 'HTTP/1.1' ? { connection: 'close' } : {}
        const held = await hold(`http://127.0.0.1:${proxy.port}`, transport, `${PODS}?watch=1&timeoutSeconds=1`, {
          token: TOKEN,
          headers: { ...headers, ...options.headers },
        })
        proxy.stall()
        // The server lets go of it while the client is still there.
        await pause(4_000)
        held.close()
        await proxy.close()
      },
      isNightly: true,
    }
  }
}

/** What a client sends before it goes away, in bytes of HTTP/1.1. */
const stages: Readonly<Record<string, string>> = {
  'after the connection is open': '',
  'in the middle of the head': 'GET /api/v1/pods HTT',
  'in the middle of a header': 'GET /api/v1/pods HTTP/1.1\r\nHost: local',
  'as soon as a list is requested': `GET ${PODS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`,
  'as soon as a watch is requested': `GET ${PODS}?watch=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`,
  'in the middle of a body': `POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"kind":`,
  'in the middle of a chunk': `POST /tickets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{`,
  'in the middle of an upgrade': `GET ${PODS}?watch=1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`,
  'after the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
}

/** Alternates between a FIN and a RST. */
async function leave(port: number, bytes: string, i: number): Promise<void> {
  const socket = net.connect(port, '127.0.0.1')
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.on('error', () => {})
  if (bytes !== '') await new Promise((resolve) => socket.write(bytes, resolve))
  await pause(2)
  if (i % 2 === 0) socket.destroy()
  else socket.resetAndDestroy()
}

/** Much like others. */
const nightlyStages = new Set([
  'after the connection is open',
  'in the middle of a header',
  'in the middle of a body',
  'in the middle of an upgrade',
])

const aborted = Object.entries(stages).map(([stage, bytes]): Activity<World> => ({
  ...(nightlyStages.has(stage) ? { isNightly: true } : {}),
  name: `a client that goes ${stage}`,
  once: ({ server }, i) => leave(server.port, bytes, i),
}))

const overTls: readonly Activity<World>[] = [
  {
    name: 'a client that goes in the middle of a TLS handshake',
    once: ({ server }, i) => leave(server.securePort, '\x16\x03\x01\x02\x00\x01\x00\x01', i),
  },
]

async function overHttp2(
  { server }: World,
  use: (session: http2.ClientHttp2Session) => Promise<unknown>,
): Promise<void> {
  const session = http2.connect(server.url)
  session.on('error', () => {})
  try {
    await use(session)
  } finally {
    session.destroy()
  }
}

const ofHttp2: readonly Activity<World>[] = [
  {
    name: 'a watch over HTTP/2 that its client resets',
    once: (world) =>
      overHttp2(world, async (session) => {
        const stream = session.request({ ':path': `${PODS}?watch=1`, ...bearer })
        stream.on('error', () => {})
        await new Promise((resolve) => stream.once('data', resolve))
        stream.close(http2.constants.NGHTTP2_CANCEL)
        await new Promise((resolve) => stream.once('close', resolve))
      }),
  },
  {
    // The connection is still the same in the next rounds, as that of an agent is for weeks.
    name: 'a PING to a quiet connection over HTTP/2',
    atOnce: 1,
    async once(world) {
      const session = await quietSession(world)
      await new Promise((resolve, reject) => {
        const onClose = (): void => reject(new Error('the connection was closed'))
        session.once('close', onClose).once('ping', () => {
          session.off('close', onClose)
          resolve(null)
        })
      })
    },
  },
  {
    // Watches that a client resets right after their request would be counted as an attack.
    name: 'watches that end on a connection over HTTP/2 that stays',
    atOnce: 20,
    async once(world) {
      const session = await quietSession(world)
      const stream = session.request({ ':path': `${PODS}?watch=1&timeoutSeconds=1`, ...bearer })
      stream.on('error', () => {})
      await new Promise((resolve) => stream.resume().once('close', resolve))
      if (stream.rstCode !== 0) throw new Error(`the watch ended with ${stream.rstCode}`)
    },
  },
]

const quietSessions = new WeakMap<World, Promise<http2.ClientHttp2Session>>()

async function quietSession(world: World): Promise<http2.ClientHttp2Session> {
  const known = quietSessions.get(world)
  if (known !== undefined && !(await known).destroyed) return await known
  const session = http2.connect(world.server.url)
  session.on('error', () => {})
  session.setMaxListeners(0)
  const stream = session.request({ ':path': `${PODS}?watch=1&fieldSelector=metadata.name=none`, ...bearer })
  const opened = new Promise<http2.ClientHttp2Session>((resolve) => stream.once('response', () => resolve(session)))
  stream.resume()
  stream.on('error', () => {})
  quietSessions.set(world, opened)
  return await opened
}

const configMap = (name: string, data: object = {}): object => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'default' },
  data,
})
const MAPS = '/api/v1/namespaces/default/configmaps'

const distinct: readonly Activity<World>[] = [
  {
    name: 'lists and watches with distinct selectors',
    async once(world, i) {
      await ask(world.server.url, 'HTTP/1.1', `${PODS}?labelSelector=app%3Dx${i}`, { token: TOKEN })
      const held = await open(world, 'HTTP/1.1', `${PODS}?watch=1&labelSelector=app%3Dx${i}`)
      held.close()
    },
  },
  {
    name: 'lists with distinct label keys',
    once: request((i) => `${PODS}?labelSelector=key${i}%3Dx`, 200),
    times: 40,
    isNightly: true,
  },
  {
    name: 'watches of distinct prefixes',
    async once(world, i) {
      const held = await open(world, 'SSE', `${FLAGS}?watch=1&prefix=p${i}/`)
      held.close()
    },
  },
  {
    name: 'lists of distinct shards',
    once: request((i) => `${PODS}?shardSelector=${encodeURIComponent(rangesText([[BigInt(i), 2n ** 63n]]))}`, 200),
  },
  {
    name: 'requests of distinct users',
    once: request(PODS, 200, {
      headers: (i) => ({ 'impersonate-user': `user-${i}`, 'impersonate-group': `group-${i}` }),
    }),
  },
  {
    name: 'requests with distinct tokens',
    once: async (world, i) =>
      await request(PODS, 200, { headers: () => ({ authorization: `Bearer ${world.serviceAccountToken(uidOf(i))}` }) })(
        world,
        i,
      ),
  },
  { name: 'unknown tokens', once: request(PODS, 401, { headers: (i) => ({ authorization: `Bearer t${i}` }) }) },
  {
    name: 'tickets',
    async once({ server }) {
      const asked = await fetch(`${server.url}/tickets`, {
        method: 'POST',
        headers: { ...bearer, 'content-type': 'application/json' },
        body: JSON.stringify({ path: FLAGS }),
      })
      const { ticket } = (await asked.json()) as { ticket: string }
      const held = await hold(server.url, 'SSE', `${FLAGS}?watch=1&ticket=${ticket}`)
      if (held.status !== 200) throw new Error(`a ticket: ${held.status}`)
      held.close()
    },
  },
  {
    name: 'requests from distinct addresses',
    async once({ server }, i) {
      const localAddress = `127.${1 + (i >> 16)}.${(i >> 8) & 255}.${1 + (i & 127)}`
      await new Promise((resolve, reject) => {
        const options = { localAddress, agent: false, headers: { authorization: 'Bearer wrong' } }
        http
          .get(`${server.url}${PODS}`, options, (response) => response.resume().once('close', resolve))
          .once('error', reject)
      })
    },
  },
  { name: 'names that do not exist', once: request((i) => `/api/v1/namespaces/default/pods/none-${i}`, 404) },
  { name: 'paths that do not exist', once: request((i) => `/nothing/${i}`, 404) },
  {
    name: 'namespaces that do not exist',
    once: request((i) => `/api/v1/namespaces/none-${i}/pods`, 200),
    isNightly: true,
  },
  {
    name: 'requests that are not allowed',
    once: request(FLAGS, 403, { headers: (i) => ({ 'impersonate-user': `user-${i % 7}` }) }),
  },
  {
    name: 'requests without credentials',
    once: request(PODS, 401, { headers: () => ({ authorization: '' }) }),
    isNightly: true,
  },
]

let etag = ''

const lists: readonly Activity<World>[] = [
  { name: 'lists', once: request(PODS, 200), isNightly: true },
  { name: 'lists with gzip', once: request(PODS, 200, { headers: () => gzip }) },
  { name: 'lists as tables', once: request(PODS, 200, { headers: () => ({ accept: TABLE }) }) },
  { name: 'lists whose further pages are never requested', once: request(`${PODS}?limit=7`, 200) },
  {
    name: 'lists whose pages are requested after changes',
    async once(world, i) {
      const read = async (query: string): Promise<Readonly<Record<string, string>>> => {
        const response = await fetch(`${world.server.url}${PODS}?limit=7${query}`, { headers: bearer })
        return ((await response.json()) as { metadata: Record<string, string> }).metadata
      }
      const { continue: token = '' } = await read('')
      await world.writer.put('/registry/pods/default/p1', pod('p1', { labels: { i: `${i}` } }))
      await read(`&continue=${encodeURIComponent(token)}`)
    },
  },
  {
    name: 'lists that have not changed',
    async once({ server }) {
      const headers = { ...bearer, ...(etag === '' ? {} : { 'if-none-match': etag }) }
      const response = await fetch(`${server.url}${FLAGS}`, { headers })
      await response.arrayBuffer()
      etag = response.headers.get('etag') ?? ''
    },
  },
  {
    name: 'polls that end without an event',
    atOnce: 20,
    async once({ server }) {
      const list = await fetch(`${server.url}${FLAGS}?history=`, { headers: bearer })
      await list.arrayBuffer()
      const position = list.headers.get('x-distributary-position') ?? ''
      const poll = `${FLAGS}?watch=1&resourceVersion=${position.split('.')[0]}&wait=1s&history=${position}`
      const response = await fetch(server.url + poll, { headers: bearer })
      await response.arrayBuffer()
      if (response.status !== 200) throw new Error(`a poll: ${response.status}`)
    },
  },
  {
    name: 'polls whose clients go',
    async once({ server }) {
      const list = await fetch(`${server.url}${FLAGS}?history=`, { headers: bearer })
      await list.arrayBuffer()
      const position = list.headers.get('x-distributary-position') ?? ''
      const poll = `${FLAGS}?watch=1&resourceVersion=${position.split('.')[0]}&wait=30s&history=${position}`
      const socket = net.connect(server.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(`GET ${poll} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`)
      await pause(50)
      socket.destroy()
    },
  },
  {
    name: 'watches from a revision that is gone',
    once: request(`${PODS}?watch=1&resourceVersion=1&timeoutSeconds=1`, 200),
  },
  {
    name: 'discovery and OpenAPI',
    once: async (world, i) => {
      for (const path of ['/api', '/apis', '/openapi/v2', '/openapi/v3/apis/apps/v1'])
        await request(path, 200)(world, i)
    },
    atOnce: 1,
  },
  { name: 'the status page', once: ({ server }) => firstFigures(server.url, bearer), atOnce: 10, times: 20 },
  { name: 'scrapes', once: request('/metrics', 200) },
  { name: 'health checks', once: request('/readyz?verbose', 200) },
]

const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
/** Larger than what the event loop handles. */
const LARGE = 'x'.repeat(300_000)

const writes: readonly Activity<World>[] = [
  {
    name: 'objects created and deleted',
    async once(world, i) {
      await request(MAPS, 201, { method: 'POST', body: () => configMap(`c${i}`) })(world, i)
      await request(`${MAPS}/c${i}`, 200, { method: 'DELETE' })(world, i)
    },
  },
  {
    name: 'objects written in threads',
    times: 10,
    async once(world, i) {
      await request(MAPS, 201, { method: 'POST', body: () => configMap(`l${i}`, { large: LARGE }) })(world, i)
      await request(`${MAPS}/l${i}`, 200, { method: 'DELETE' })(world, i)
    },
  },
  {
    name: 'writes that are malformed',
    once: request(MAPS, 400, { method: 'POST', body: () => '{"kind":' }),
  },
  {
    name: 'writes that are invalid',
    once: request(MAPS, 422, { method: 'POST', body: (i) => configMap(`Not A Name ${i}`) }),
  },
  {
    name: 'writes into namespaces that do not exist',
    isNightly: true,
    once: request((i) => `/api/v1/namespaces/none-${i}/configmaps`, 404, {
      method: 'POST',
      body: (i) => ({ ...configMap('a'), metadata: { name: 'a', namespace: `none-${i}` } }),
    }),
  },
  {
    name: 'conflicts',
    once: request('/api/v1/namespaces/default/serviceaccounts/agent', 409, {
      method: 'PUT',
      body: () => ({
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: 'agent', namespace: 'default', resourceVersion: '1' },
      }),
    }),
  },
  {
    name: 'patches by distinct managers',
    once: request((i) => `${MAPS}/applied-${i % 3}?fieldManager=m${i % 5}&force=true`, [200, 201], {
      method: 'PATCH',
      headers: () => ({ 'content-type': 'application/apply-patch+yaml' }),
      body: (i) => configMap(`applied-${i % 3}`, { [`k${i % 5}`]: `${i}` }),
    }),
    times: 20,
    atOnce: 1,
  },
]

const GROUP = 'growth.example.com'

const definitions: readonly Activity<World>[] = [
  {
    name: 'definitions created, changed, used and deleted',
    times: 8,
    atOnce: 1,
    async once(world, i) {
      const plural = `things${i}`
      const path = `/apis/${GROUP}/v1/${plural}`
      const key = `/registry/apiextensions.k8s.io/customresourcedefinitions/${plural}.${GROUP}`
      const put = (more: object): Promise<unknown> => {
        const definition = definitionObject({
          group: GROUP,
          kind: `Thing${i}`,
          plural,
          scope: 'Namespaced',
          versions: [{ name: 'v1', storage: true, ...more }],
        })
        return world.writer.put(key, { ...(definition as object), status: { ...ESTABLISHED } })
      }
      const isServed = async (): Promise<boolean> => (await fetch(world.server.url + path, { headers: bearer })).ok
      await put({})
      await until(isServed, `${plural} is served`)
      const metadata = { name: 'one', namespace: 'default', uid: `u${i}` }
      const object = `/registry/${GROUP}/${plural}/default/one`
      await world.writer.put(object, { apiVersion: `${GROUP}/v1`, kind: `Thing${i}`, metadata })
      const held = await open(world, 'HTTP/1.1', `${path}?watch=1`)
      await until(() => held.bytes.length > 0, 'the object')
      await put({ additionalPrinterColumns: [{ name: 'N', type: 'string', jsonPath: '.spec.n' }] })
      await pause(50)
      await world.writer.commit({ [object]: null })
      await world.writer.commit({ [key]: null })
      await until(async () => !(await isServed()), `${plural} is gone`)
      held.close()
    },
  },
]

const rewrites: readonly (readonly [name: string, text: (i: number) => string])[] = [
  ['tokens.csv', (i) => `${TOKENS}token-${i},user-${i},u${i}\n`],
  ['policy.yaml', (i) => `${POLICY}  - {users: [u${i}], verbs: [get], paths: [/metrics]}\n`],
  ['tickets', (i) => `${'k'.repeat(32)}${i}\n${'k'.repeat(32)}\n`],
  ['config.yaml', (i) => `${CONFIG}maxWatchers: ${40_000 + i}\n`],
  ['ca.crt', () => selfSignedCertificate().cert],
]

const files: readonly Activity<World>[] = [
  ...rewrites.map(([file, text]): Activity<World> => ({
    name: `${file} rewritten`,
    times: 8,
    atOnce: 1,
    // Each is watched in the same way.
    ...(file === 'tokens.csv' ? {} : { isNightly: true }),
    async once(world, i) {
      world.rewrite(file, text(i))
      await pause(250)
      await request(PODS, 200)(world, i)
    },
  })),
  {
    name: 'the certificate rewritten',
    times: 6,
    atOnce: 1,
    async once(world, i) {
      const { cert, key } = selfSignedCertificate()
      world.rewrite('tls.crt', cert)
      world.rewrite('tls.key', key)
      await pause(250)
      await request(PODS, 200)(world, i)
    },
  },
  {
    name: 'a file rewritten with what is not valid, and back',
    times: 5,
    atOnce: 1,
    isNightly: true,
    async once(world, i) {
      world.rewrite('policy.yaml', 'rules: {')
      await pause(250)
      world.rewrite('policy.yaml', POLICY)
      await pause(250)
      await request(PODS, 200)(world, i)
    },
  },
  {
    name: 'SIGHUP',
    times: 6,
    atOnce: 1,
    async once(world) {
      process.kill(world.server.pid, 'SIGHUP')
      await pause(100)
    },
  },
]

export const requests = group<World>({
  name: 'requests',
  start: startWorld,
  activities: [
    ...watchActivities(),
    ...aborted,
    ...overTls,
    ...(needsNode === false ? ofHttp2 : []),
    ...distinct,
    ...lists,
    ...writes,
    ...definitions,
    ...files,
  ],
})
