/**
 * HTTP/2 requests that are given up as soon as they are made, over new connections again and again: the address is refused for
 * a while, and clients of other addresses notice nothing.
 */
import { type EventEmitter, once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from 'node:http2'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { startServer } from '../support/server-process.js'
import { secureFlags } from '../support/secure-flags.js'

const ATTACKER = '127.0.0.2'
const ROUNDS = 40
const RESETS = 50

interface Target {
  readonly port: number
  readonly isSecure: boolean
}

interface Attacked {
  /** Requests that were sent before their connection ended. */
  readonly sent: number
  /** The codes of the GOAWAY frames. */
  readonly told: readonly number[]
  /** Connections that were closed without a word of HTTP/2. */
  readonly refused: number
}

function open({ port, isSecure }: Target, localAddress: string): ClientHttp2Session {
  const raw = connect({ port, host: '127.0.0.1', localAddress })
  raw.on('error', () => {})
  const createConnection = () =>
    isSecure ? connectTls({ socket: raw, ALPNProtocols: ['h2'], rejectUnauthorized: false }) : raw
  const session = connectHttp2(`${isSecure ? 'https' : 'http'}://127.0.0.1:${port}`, { createConnection })
  session.on('error', () => {})
  return session
}

/** Unlike `once`, does not reject when there is an error first. */
function event(emitter: EventEmitter, name: string): Promise<unknown> {
  return new Promise((resolve) => emitter.once(name, resolve))
}

/** Opens connections one after the other, and gives up fifty requests on each. */
async function attack(target: Target): Promise<Attacked> {
  let sent = 0
  let refused = 0
  const told: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const session = open(target, ATTACKER)
    session.on('goaway', (code) => told.push(code))
    const closed = event(session, 'close')
    const isThere = await Promise.race([event(session, 'remoteSettings').then(() => true), closed.then(() => false)])
    if (!isThere) {
      refused++
      continue
    }
    const ended: Promise<unknown>[] = []
    for (let i = 0; i < RESETS && !session.closed && !session.destroyed; i++) {
      const stream = session.request({ ':path': '/api/v1/pods?watch=true' })
      stream.on('error', () => {})
      ended.push(event(stream, 'close'))
      sent++
      // The frames of the request leave before those of its end.
      await new Promise((resolve) => setImmediate(resolve))
      stream.close(constants.NGHTTP2_CANCEL)
    }
    await Promise.race([Promise.all(ended), closed])
    session.destroy()
  }
  return { sent, told, refused }
}

/** A client that watches and makes requests until it is told to stop. @returns the codes of all answers. */
async function behave(target: Target, until: AbortSignal): Promise<readonly (number | undefined)[]> {
  const session = open(target, '127.0.0.1')
  const codes: (number | undefined)[] = []
  const ask = async (path: string): Promise<ClientHttp2Stream> => {
    const stream = session.request({ ':path': path })
    const [headers] = (await once(stream, 'response')) as [Readonly<Record<string, number>>]
    codes.push(headers[':status'])
    return stream
  }
  const watch = await ask('/api/v1/pods?watch=true')
  while (!until.aborted) {
    for (const path of ['/api/v1/pods', '/livez']) (await ask(path)).resume()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  codes.push(watch.closed ? undefined : 200)
  session.destroy()
  return codes
}

/** @param isTold whether the connection that exceeds the bound is told so: of several workers, another one may count to the end. */
async function check(t: Test, target: Target, isTold = true): Promise<void> {
  const done = new AbortController()
  const honest = behave(target, done.signal)
  const { sent, told, refused } = await attack(target)
  done.abort()
  const codes = await honest
  t.ok(sent < 500, `${sent} of ${ROUNDS * RESETS} requests were taken`)
  if (isTold) t.ok(told.includes(constants.NGHTTP2_ENHANCE_YOUR_CALM), `told ${told.join()}`)
  t.ok(refused > ROUNDS / 2, `${refused} connections were refused`)
  t.ok(codes.length > 0, `${codes.length} answers`)
  t.same([...new Set(codes)], [200], 'the client beside it is answered')
}

const objects = { 'pods/default/a': pod('a') }

for (const isSecure of [false, true]) {
  void t.test(
    `an address that gives up its requests is refused, ${isSecure ? 'over TLS' : 'in the open'}`,
    async (t) => {
      const flags = isSecure ? secureFlags() : []
      const { app, url, secureUrl } = await startApp(t, { flags, objects })
      const port = Number(new URL(isSecure ? secureUrl : url).port)
      await check(t, { port, isSecure })
      const { text } = await app.metrics.expose()
      t.ok(Number(/distributary_http_rejected_total\{limit="resets"\} (\d+)/.exec(text)?.[1]) > ROUNDS / 2)
    },
  )
}

void t.test('it is refused by all workers, whichever of them it reached', async (t) => {
  const { port } = await startServer(t, { flags: ['--workers', '3'], ready: false })
  await check(t, { port, isSecure: false }, false)
})
