/**
 * Tries to end the process: every kind of request in every state that its body can be in, over each transport, and
 * configuration files that are rewritten with garbage meanwhile. The same process must answer `/livez` after each case,
 * and print nothing that is not a line of its log.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { type Random, randomInteger, seededRandom } from '../../../src/support/random.js'
import { type Bomb, bombs } from '../../fuzz/bombs.js'
import { type CertificatePair, createAuthority } from '../../support/certificates.js'
import { startEtcd } from '../../support/etcd-process.js'
import { type ServerProcess, startServer } from '../../support/server-process.js'
import { FLAG, frame, headerBlock, type Headers, PREFACE, settings, TYPE } from './http2-frames.js'
import { type Layer, open } from './raw.js'

const LANES = 6
/** `--request-timeout` is a second: until then a late body is waited for. */
const LATE_MS = 1_400
const LIVE_MS = 60_000

const POLICY = `rules:
  - users: [admin]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - users: [admin]
    verbs: ["*"]
    paths: ["*"]
`
const ENCRYPTION = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets]
    providers: [{identity: {}}]
`
const MAPS = '/api/v1/namespaces/default/configmaps'

const ROUTES = [
  MAPS,
  `${MAPS}/b`,
  `${MAPS}?watch=true&timeoutSeconds=3`,
  `${MAPS}?watch=true&timeoutSeconds=3&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`,
  '/api/v1/configmaps?limit=1',
  '/api/v1/namespaces/default/pods/p/eviction',
  '/apis/apps/v1/namespaces/default/deployments/d/scale',
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
  '/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews',
  '/apis/authentication.k8s.io/v1/tokenreviews',
  '/apis/authentication.k8s.io/v1/selfsubjectreviews',
  '/apis/forwarded.example/v1/things',
  '/tickets',
  '/consistency-check',
  '/metrics',
  '/livez',
  '/readyz/ping',
  '/ui/',
  '/ui/events',
  '/version',
  '/openapi/v3',
  '/nowhere',
] as const
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
const LAYERS: readonly (Layer | 'metrics')[] = ['plain', 'tls', 'h2', 'h2c', 'metrics']
const STATES = [
  'whole',
  'late',
  'short',
  'long',
  'small',
  'trailers',
  'aborted',
  'refused',
  'too large',
  'upgrade',
] as const

interface Case {
  readonly layer: Layer | 'metrics'
  readonly method: string
  readonly path: string
  readonly state: (typeof STATES)[number]
  readonly bomb: Bomb
  readonly headers: Headers
}

export interface SurvivalOptions {
  readonly seed: number
  readonly isEnough: (cases: number) => boolean
}

export interface SurvivalReport {
  readonly cases: number
  /** Everything that should not have happened; empty when all is well. */
  readonly problems: readonly string[]
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, 0, from.length - 1)]!
}

function caseOf(random: Random, of: readonly Bomb[]): Case {
  const state = pick(random, STATES)
  const bomb = pick(random, of)
  const path = pick(random, ROUTES)
  const headers: (readonly [string, string])[] = [
    ['authorization', `Bearer ${state === 'refused' || random.next() < 0.05 ? 'wrong' : 'admin-token'}`],
    ['content-type', bomb.contentType],
    ['accept', pick(random, ['*/*', 'application/yaml', 'application/vnd.kubernetes.protobuf', 'text/event-stream', 'application/cbor', 'application/json;as=Table;v=v1;g=meta.k8s.io'])],
  ] // prettier-ignore
  // Most bombs are for writes of their own kind.
  const isPatch = bomb.contentType.includes('patch')
  const method = random.next() < 0.5 ? pick(random, METHODS) : isPatch ? 'PATCH' : pick(random, ['POST', 'PUT'])
  return {
    layer: pick(random, LAYERS),
    method,
    path: isPatch && random.next() < 0.7 ? ROUTES[1] : path,
    state,
    bomb,
    headers,
  }
}

export function describe({ layer, method, path, state, bomb }: Case): string {
  return `${method} ${path} over ${layer}, ${state}, ${bomb.contentType}: ${bomb.name}`
}

/** Writes in turn, as long as the server takes it. */
async function write(socket: Socket, bytes: Buffer | string): Promise<void> {
  if (!socket.writable) return
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, 2_000)
    const done = (): void => {
      clearTimeout(timer)
      resolve()
    }
    socket.once('close', done)
    socket.write(bytes, () => {
      socket.off('close', done)
      done()
    })
  })
}

const pause = async (ms: number): Promise<void> => await new Promise((resolve) => setTimeout(resolve, ms))
const SMALL = '1\r\n \r\n'.repeat(2_200)

async function overHttp1(socket: Socket, { method, path, state, bomb: { body }, headers }: Case): Promise<void> {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const head = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${lines}`
  const chunk = (bytes: Buffer): Buffer =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
  const counted = (length: number): string => `${head}Content-Length: ${length}\r\n\r\n`
  const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n`
  switch (state) {
    case 'whole':
      await write(socket, counted(body.length))
      return await write(socket, body)
    case 'late':
      await write(socket, `${chunked}1\r\n{\r\n`)
      await pause(LATE_MS)
      await write(socket, SMALL)
      return await write(socket, '0\r\n\r\n')
    case 'short':
      await write(socket, counted(body.length + 10))
      await write(socket, body)
      return void socket.end()
    case 'long':
      await write(socket, counted(Math.floor(body.length / 2)))
      return await write(socket, body)
    case 'small':
      await write(socket, chunked)
      return await write(socket, SMALL)
    case 'trailers':
      await write(socket, chunked)
      if (body.length > 0) await write(socket, chunk(body))
      return await write(
        socket,
        '0\r\nA: b\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nAuthorization: Bearer x\r\n\r\n',
      )
    case 'aborted':
      await write(socket, `${chunked}${body.length.toString(16)}\r\n`)
      await write(socket, body.subarray(0, 1_000))
      return void (socket instanceof TLSSocket ? socket.destroy() : socket.resetAndDestroy())
    case 'refused':
      await write(socket, `${chunked}1\r\n{\r\n`)
      await pause(50)
      await write(socket, SMALL)
      return await write(socket, `0\r\n\r\n${counted(0)}`)
    case 'too large':
      await write(socket, counted(9 * 2 ** 20))
      for (let i = 0; i < 70; i++) await write(socket, Buffer.alloc(2 ** 16, 0x20))
      return
    case 'upgrade':
      await write(
        socket,
        `${head}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nContent-Length: 4\r\n\r\n`,
      )
      return await write(socket, body.subarray(0, 10_000))
  }
}

async function overHttp2(socket: Socket, { method, path, state, bomb: { body }, headers }: Case): Promise<void> {
  const pseudo: Headers = [
    [':method', method],
    [':scheme', 'https'],
    [':authority', 'localhost'],
    [':path', path],
  ]
  const data = (bytes: Buffer, flags = 0): Buffer => frame(TYPE.data, flags, 1, bytes)
  const counted: Headers = state === 'short' ? [['content-length', String(body.length + 10)]] : []
  await write(
    socket,
    Buffer.concat([
      PREFACE,
      settings(),
      frame(TYPE.headers, FLAG.endHeaders, 1, headerBlock([...pseudo, ...headers, ...counted])),
    ]),
  )
  const small = Buffer.concat(Array<Buffer>(2_200).fill(data(Buffer.from(' '))))
  switch (state) {
    case 'late':
    case 'refused':
      await write(socket, data(Buffer.from('{')))
      await pause(state === 'late' ? LATE_MS : 50)
      await write(socket, small)
      return await write(socket, data(Buffer.alloc(0), FLAG.endStream))
    case 'small':
      return await write(socket, small)
    case 'aborted':
      await write(socket, data(body.subarray(0, 1_000)))
      return await write(socket, frame(TYPE.reset, 0, 1, Buffer.from([0, 0, 0, 8])))
    case 'trailers':
      await write(socket, data(body.subarray(0, 16_000)))
      return await write(
        socket,
        frame(
          TYPE.headers,
          FLAG.endHeaders | FLAG.endStream,
          1,
          headerBlock([
            ['a', 'b'],
            ['content-length', '5'],
          ]),
        ),
      )
    default:
      // As much as the first window of a stream takes.
      for (let at = 0; at < Math.min(body.length, 65_000); at += 16_000) {
        await write(socket, data(body.subarray(at, Math.min(at + 16_000, 65_000))))
      }
      return await write(socket, data(Buffer.alloc(0), FLAG.endStream))
  }
}

/** Resolves when the server has had a moment to answer. */
async function attempt(server: ServerProcess, one: Case): Promise<void> {
  const metricsPort = Number(new URL(server.metricsUrl).port)
  const port = one.layer === 'metrics' ? metricsPort : server.port
  const layer = one.layer === 'metrics' ? 'plain' : one.layer
  let socket: Socket
  try {
    socket = await open({ port, securePort: server.securePort }, layer)
  } catch {
    return
  }
  let heard = 0
  socket.on('data', ({ length }: Buffer) => (heard += length))
  const closed = new Promise((resolve) => socket.once('close', resolve))
  await (layer === 'h2' || layer === 'h2c' ? overHttp2(socket, one) : overHttp1(socket, one))
  const before = heard
  for (let i = 0; i < 20 && heard === before; i++) await Promise.race([closed, pause(20)])
  socket.destroy()
}

async function isAlive({ url }: ServerProcess): Promise<boolean> {
  try {
    return (await fetch(`${url}/livez`, { signal: AbortSignal.timeout(LIVE_MS) })).status === 200
  } catch {
    return false
  }
}

/** A server that answers at once, late, in part or not at all, whatever the body. */
async function capriciousServer(t: Test, random: Random, { cert, key }: CertificatePair): Promise<string> {
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
    const whim = randomInteger(random, 0, 5)
    request.on('error', () => {})
    if (whim === 0) response.writeHead(403).end('no')
    else if (whim === 1) request.resume().on('end', () => response.end('yes'))
    else if (whim === 2) response.writeHead(200).write('part')
    else if (whim === 3) request.socket.destroy()
    else if (whim === 4) response.writeHead(200, { 'content-length': '10' }).end('short')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function kubeconfig(server: string, ca: string): string {
  return `clusters: [{name: a, cluster: {server: '${server}', certificate-authority: '${ca}'}}]
users: [{name: a, user: {token: t}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`
}

/** Everything that stands on standard error and is no line of the log, and lines about errors that nobody caught. */
function strayLines(log: string): readonly string[] {
  return log.split('\n').filter((line) => {
    if (line === '') return false
    return !line.startsWith('{"level":') || /uncaught|unhandled/i.test(line) || /"level":60/.test(line)
  })
}

export async function survive(t: Test, folder: string, options: SurvivalOptions): Promise<SurvivalReport> {
  const random = seededRandom(options.seed)
  const authority = createAuthority(t)
  const pair = authority.server()
  const upstream = await capriciousServer(t, random, pair)
  const contents: Readonly<Record<string, string>> = {
    'tokens.csv': 'admin-token,admin,1\n',
    'policy.yaml': POLICY,
    'encryption.yaml': ENCRYPTION,
    'config.yaml': 'bookmarkInterval: 30s\n',
    'tls.crt': readFileSync(pair.cert, 'utf8'),
    'tls.key': readFileSync(pair.key, 'utf8'),
    'ca.crt': readFileSync(authority.ca, 'utf8'),
    'authentication.kubeconfig': kubeconfig(upstream, authority.ca),
    'authorization.kubeconfig': kubeconfig(upstream, authority.ca),
  }
  const file = (name: string): string => `${folder}/${name}`
  for (const [name, content] of Object.entries(contents)) writeFileSync(file(name), content)
  const etcd = await startEtcd(t)
  const server = await startServer(t, {
    // prettier-ignore
    flags: [
      '--config', file('config.yaml'), '--etcd-servers', etcd.url, '--enable-writes', '--resource', 'api/all', '--request-timeout', '1s',
      '--metrics-bind-address', '127.0.0.1:0', '--secure-port', '0',
      '--tls-cert-file', file('tls.crt'), '--tls-private-key-file', file('tls.key'), '--client-ca-file', file('ca.crt'),
      '--token-auth-file', file('tokens.csv'), '--authentication-kubeconfig', file('authentication.kubeconfig'),
      '--authorization-mode', 'Policy,Webhook', '--authorization-policy-file', file('policy.yaml'), '--authorization-kubeconfig', file('authorization.kubeconfig'),
      '--encryption-provider-config', file('encryption.yaml'), '--passthrough-cafile', file('ca.crt'), '--apiservice', `forwarded.example/v1=${upstream}`,
      '--requests-per-second', '100000',
    ],
  })
  const problems: string[] = []
  const all = bombs([510, 513, 6_000, 60_000])
  let cases = 0
  let isOver = false
  void server.exited.then(() => (isOver = true))
  const going = new Set<string>()
  const lane = async (): Promise<void> => {
    while (!isOver && !options.isEnough(cases)) {
      const one = caseOf(random, all)
      const name = describe(one)
      cases++
      going.add(name)
      await attempt(server, one)
      if (!isOver && !(await isAlive(server)) && !isOver) problems.push(`no answer to /livez after ${name}`)
      if (isOver) return
      going.delete(name)
    }
  }
  const files = async (): Promise<void> => {
    const garbage = [...all.map(({ body }) => body), Buffer.alloc(2 ** 20), Buffer.from('\ufeff%YAML 9\n--- !!x')]
    for (let i = 0; !isOver && !options.isEnough(cases); i++) {
      const name = pick(random, Object.keys(contents))
      if (i % 4 === 3) rmSync(file(name), { force: true })
      else writeFileSync(file(name), pick(random, garbage))
      await pause(2_500)
      writeFileSync(file(name), contents[name]!)
      await pause(1_000)
    }
  }
  await Promise.all([files(), ...Array.from({ length: LANES }, lane)])
  if (isOver) {
    problems.push(`the server has ended with ${await server.exited} during: ${[...going].join('; ')}`)
    problems.push(server.log().slice(-4_000))
  }
  problems.push(...strayLines(server.log()).slice(0, 20))
  if (!isOver && (await server.kill('SIGTERM')) !== 0) problems.push('it does not end cleanly')
  return { cases, problems }
}
