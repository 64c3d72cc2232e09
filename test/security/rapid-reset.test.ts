/**
 * HTTP/2 requests that are cancelled as soon as they are sent, on ever new connections: the attacker's connections are
 * closed, and other clients, at the same address or another, notice nothing.
 */
import type { EventEmitter } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from 'node:http2'
import { connect } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { needsNode } from '../support/program.js'
import { startServer } from '../support/server-process.js'
import { secureFlags } from '../support/secure-flags.js'

const ATTACKER = '127.0.0.2'
const ROUNDS = 40
const RESETS = 50
/** The fewest answers that an honest client must get. */
const ANSWERS = 20
/** How long a client waits for an answer or an end before it gives up. */
const PATIENCE_MS = 30_000

interface Target {
  readonly port: number
  readonly isSecure: boolean
}

/** The codes of the GOAWAY frames. */
type Told = readonly number[]

interface Options {
  readonly address?: string
  readonly headers?: Readonly<Record<string, string>>
}

function open({ port, isSecure }: Target, localAddress: string): ClientHttp2Session {
  const to = { port, host: '127.0.0.1', localAddress }
  const createConnection = () =>
    isSecure ? connectTls({ ...to, ALPNProtocols: ['h2'], rejectUnauthorized: false }) : connect(to)
  const session = connectHttp2(`${isSecure ? 'https' : 'http'}://127.0.0.1:${port}`, { createConnection })
  session.on('error', () => {})
  return session
}

/** Like `once`, but does not reject when an error comes first, and resolves when `PATIENCE_MS` have passed. */
function event(emitter: EventEmitter, name: string): Promise<unknown> {
  return new Promise((resolve) => {
    const giveUp = setTimeout(resolve, PATIENCE_MS).unref()
    emitter.once(name, () => {
      clearTimeout(giveUp)
      resolve(undefined)
    })
  })
}

/** Opens connections one after another, and cancels fifty requests on each. */
async function attack(target: Target, { headers = {} }: Options = {}): Promise<Told> {
  const told: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const session = open(target, ATTACKER)
    session.on('goaway', (code) => told.push(code))
    const closed = event(session, 'close')
    await Promise.race([event(session, 'remoteSettings'), closed])
    if ('authorization' in headers) {
      const stream = session.request({ ':path': '/api/v1/pods', ...headers }).resume()
      await event(stream, 'close')
    }
    const ended: Promise<unknown>[] = []
    for (let i = 0; i < RESETS && !session.closed && !session.destroyed; i++) {
      const stream = session.request({ ':path': '/api/v1/pods?watch=true', ...headers })
      stream.on('error', () => {})
      ended.push(event(stream, 'close'))
      // The request's frames leave before its reset.
      await new Promise((resolve) => setImmediate(resolve))
      stream.close(constants.NGHTTP2_CANCEL)
    }
    await Promise.race([Promise.all(ended), closed])
    session.destroy()
  }
  return told
}

/**
 * Runs well-behaved clients one after another, each with two requests on its own connection, next to one that watches.
 * Ends when it has been stopped and there are enough answers to judge; on a slow machine there are few during the
 * attack.
 * @returns the codes of all answers; undefined for none.
 */
async function behave(
  target: Target,
  until: AbortSignal,
  { address = '127.0.0.1', headers = {} }: Options = {},
): Promise<readonly (number | undefined)[]> {
  const codes: (number | undefined)[] = []
  const ask = async (session: ClientHttp2Session, path: string): Promise<ClientHttp2Stream | null> => {
    if (session.destroyed) {
      codes.push(undefined)
      return null
    }
    const stream = session.request({ ':path': path, ...headers })
    stream.on('error', () => {})
    let code: number | undefined
    stream.on('response', (answer) => (code = answer[':status']))
    await Promise.race([event(stream, 'response'), event(stream, 'close')])
    codes.push(code)
    return stream
  }
  const watching = open(target, address)
  const watch = await ask(watching, '/api/v1/pods?watch=true')
  while (!until.aborted || codes.length < ANSWERS) {
    const session = open(target, address)
    for (const path of ['/api/v1/pods', '/livez']) (await ask(session, path))?.resume()
    session.close()
  }
  codes.push(watch === null || watch.closed ? undefined : 200)
  watching.destroy()
  return codes
}

async function check(t: Test, target: Target, options: Options = {}, honest: Options = options): Promise<Told> {
  const done = new AbortController()
  const others = [behave(target, done.signal, honest), behave(target, done.signal, { ...honest, address: ATTACKER })]
  const told = await attack(target, options)
  done.abort()
  const [elsewhere = [], neighbours = []] = await Promise.all(others)
  for (const [name, codes] of Object.entries({ elsewhere, neighbours })) {
    t.same([...new Set(codes)], [200], `the clients ${name} are answered`)
  }
  return told
}

for (const isSecure of [false, true]) {
  void t.test(
    `the connections of a client that resets its requests end, and its neighbours’ do not, ${isSecure ? 'over TLS' : 'in the open'}`,
    { skip: isSecure ? false : needsNode },
    async (t) => {
      const server = await startServer(t, { flags: isSecure ? secureFlags() : [] })
      const told = await check(t, { port: isSecure ? server.securePort : server.port, isSecure })
      t.ok(told.includes(constants.NGHTTP2_ENHANCE_YOUR_CALM), `told ${told.join()}`)
      const ended = (await server.metrics()).get('distributary_http_rejected_total{limit="resets"}') ?? 0
      t.ok(ended > ROUNDS / 4, `${ended} connections have been ended`)
    },
  )
}

void t.test('an authenticated client is counted by its name, on all of its connections', async (t) => {
  const folder = t.testdir({ 'tokens.csv': 'bad-token,bad,1\ngood-token,good,2\n' })
  const flags = [`--token-auth-file=${join(folder, 'tokens.csv')}`, '--requests-per-second=100000']
  const { app, url } = await startApp(t, { flags, objects: { 'pods/default/a': pod('a') } })
  const target = { port: Number(new URL(url).port), isSecure: false }
  const headers = (token: string): Options => ({ headers: { authorization: `Bearer ${token}` } })
  await check(t, target, headers('bad-token'), headers('good-token'))
  const { text } = await app.metrics.expose()
  const ended = Number(/distributary_http_rejected_total\{limit="resets"\} (\d+)/.exec(text)?.[1])
  t.ok(ended > ROUNDS / 4, `${ended} connections have been ended`)
})

void t.test('all workers suspect it, whichever of them it reached', { skip: needsNode }, async (t) => {
  const { port } = await startServer(t, { flags: ['--workers', '3'], ready: false })
  await check(t, { port, isSecure: false })
})
