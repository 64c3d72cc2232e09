/** Tests against the server of @grpc/grpc-js, which shares nothing with our client. */
import { Server, ServerCredentials, type ServerDuplexStream, type ServiceDefinition, status } from '@grpc/grpc-js'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http2, {
  type ClientHttp2Session,
  createSecureServer,
  createServer as createHttp2Server,
  type Http2Server,
  type ServerHttp2Session,
} from 'node:http2'
import { syncBuiltinESMExports } from 'node:module'
import { type AddressInfo, connect, createServer, type Server as NetServer, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import {
  GrpcEndpoint,
  type GrpcEndpointOptions,
  type GrpcStream,
} from '../../../../src/engine/upstream/etcd/grpc-endpoint.js'
import { type RpcError, RpcStatus } from '../../../../src/engine/upstream/etcd/rpc-status.js'
import { issue } from '../../../server/auth/fixtures.js'
import { createAuthority } from '../../../support/certificates.js'
import { freePort } from '../../../support/free-port.js'
import { until } from '../../../support/until.js'

type Call = ServerDuplexStream<Buffer, Buffer>

const bytes = (value: Buffer): Buffer => value
const wire = {
  requestStream: false,
  responseStream: false,
  requestSerialize: bytes,
  requestDeserialize: bytes,
  responseSerialize: bytes,
  responseDeserialize: bytes,
}
const service: ServiceDefinition = {
  ask: { ...wire, path: '/test/Ask' },
  talk: { ...wire, path: '/test/Talk', requestStream: true, responseStream: true },
}

/** `Ask` answers its request, unless that names something else; `Talk` echoes every request. */
async function listen(t: Test): Promise<{ port: number; cancelled: () => number }> {
  const server = new Server()
  let cancelled = 0
  server.addService(service, {
    ask: (
      call: { request: Buffer; on(event: 'cancelled', listener: () => void): void },
      answer: (error: object | null, value?: Buffer) => void,
    ) => {
      const text = call.request.toString()
      call.on('cancelled', () => cancelled++)
      if (text === 'refuse') answer({ code: status.PERMISSION_DENIED, details: 'no: 100 % “denied”' })
      else if (text !== 'hang') answer(null, call.request)
    },
    talk: (call: Call) => {
      call.on('cancelled', () => cancelled++)
      call.on('error', () => {})
      call.on('data', (message: Buffer) => {
        const text = message.toString()
        if (text === 'end') call.end()
        else if (text === 'fail') call.emit('error', { code: status.UNAVAILABLE, details: 'no leader' })
        else call.write(message)
      })
    },
  })
  const bound = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    ),
  )
  t.teardown(() => server.forceShutdown())
  return { port: bound, cancelled: () => cancelled }
}

function endpointAt(t: Test, port: number, options: Partial<GrpcEndpointOptions> = {}): GrpcEndpoint {
  const endpoint = new GrpcEndpoint({
    url: `http://127.0.0.1:${port}`,
    keepAliveTimeMs: 60_000,
    keepAliveTimeoutMs: 60_000,
    maxReceivedBytes: 100_000,
    ...options,
  })
  t.teardown(() => endpoint.close())
  return endpoint
}

function ask(endpoint: GrpcEndpoint, text: string, more: { timeoutMs?: number; signal?: AbortSignal } = {}) {
  return endpoint.unary('/test/Ask', Buffer.from(text), {
    metadata: {},
    timeoutMs: 30_000,
    isRepeatable: true,
    ...more,
  })
}

interface Talk {
  readonly stream: ReturnType<GrpcEndpoint['stream']>
  readonly said: string[]
  readonly ended: Promise<RpcError | null>
  /** Resolves with the next message. */
  readonly next: () => Promise<string>
}

function talk(endpoint: GrpcEndpoint): Talk {
  const said: string[] = []
  let wake: (text: string) => void = () => {}
  let stream!: Talk['stream']
  const ended = new Promise<RpcError | null>((onEnd) => {
    stream = endpoint.stream(
      '/test/Talk',
      { token: 'one' },
      {
        onMessage: (message) => {
          said.push(message.toString())
          wake(message.toString())
        },
        onEnd,
      },
    )
  })
  return { stream, said, ended, next: () => new Promise((resolve) => (wake = resolve)) }
}

void t.test('a call connects automatically, and is answered', async (t) => {
  const { port } = await listen(t)
  const endpoint = endpointAt(t, port)
  t.notOk(endpoint.isReady())
  t.equal((await ask(endpoint, 'hello')).toString(), 'hello')
  t.ok(endpoint.isReady())
  const large = 'x'.repeat(90_000)
  t.equal((await ask(endpoint, large)).toString(), large)
  t.equal(endpoint.receivedMessages, 2)
})

void t.test('a refusal has its code and its text', async (t) => {
  const { port } = await listen(t)
  const endpoint = endpointAt(t, port)
  await t.rejects(ask(endpoint, 'refuse'), { code: RpcStatus.PERMISSION_DENIED, details: 'no: 100 % “denied”' })
  await t.rejects(endpoint.unary('/test/None', Buffer.alloc(0), { metadata: {}, timeoutMs: 30_000 }), {
    code: RpcStatus.UNIMPLEMENTED,
  })
})

void t.test('an answer above the limit is refused', async (t) => {
  const { port } = await listen(t)
  const endpoint = endpointAt(t, port, { maxReceivedBytes: 10 })
  await t.rejects(ask(endpoint, 'eleven bytes'), { code: RpcStatus.RESOURCE_EXHAUSTED })
  t.equal((await ask(endpoint, 'ten bytes.')).toString(), 'ten bytes.')
})

void t.test(
  'a call ends by its time limit, its signal, by abandon and by close, and the server learns of it',
  async (t) => {
    const { port, cancelled } = await listen(t)
    const endpoint = endpointAt(t, port)
    await ask(endpoint, 'hello')
    await t.rejects(ask(endpoint, 'hang', { timeoutMs: 20 }), { code: RpcStatus.DEADLINE_EXCEEDED })
    const controller = new AbortController()
    const left = ask(endpoint, 'hang', { signal: controller.signal })
    controller.abort()
    await t.rejects(left, { code: RpcStatus.CANCELLED })
    await t.rejects(ask(endpoint, 'hello', { signal: controller.signal }), { code: RpcStatus.CANCELLED })
    const abandoned = ask(endpoint, 'hang')
    await ask(endpoint, 'behind it')
    endpoint.abandon()
    await t.rejects(abandoned, { code: RpcStatus.CANCELLED })
    await ask(endpoint, 'behind it')
    t.ok(cancelled() >= 2)
    const closed = ask(endpoint, 'hang')
    await ask(endpoint, 'behind it')
    endpoint.close()
    await t.rejects(closed, { code: RpcStatus.CANCELLED })
    await t.rejects(ask(endpoint, 'hello'), { code: RpcStatus.UNAVAILABLE })
  },
)

void t.test(
  'a stream that can be repeated elsewhere ends by abandon and by close, once, and not after cancel',
  async (t) => {
    const { port, cancelled } = await listen(t)
    const endpoint = endpointAt(t, port)
    await endpoint.connect(10_000)
    const ends: string[] = []
    const start = (name: string): Promise<GrpcStream> =>
      new Promise((resolve) => {
        const stream = endpoint.repeatableStream(
          '/test/Talk',
          {},
          {
            onMessage: () => resolve(stream),
            onEnd: (error) => ends.push(`${name}: ${error?.details}`),
          },
        )
        stream.send(Buffer.from('hello'))
      })
    const left = await start('left')
    await start('abandoned')
    left.cancel()
    endpoint.abandon()
    endpoint.abandon()
    t.same(ends, ['abandoned: the endpoint has gone silent'])
    await start('closed')
    endpoint.close()
    t.same(ends.slice(1), ['closed: the client was closed'])
    await until(() => cancelled() >= 2, 'the server learns of it')
  },
)

void t.test('a stream delivers its messages in order, then its end', async (t) => {
  const { port } = await listen(t)
  const endpoint = endpointAt(t, port)
  t.ok(await endpoint.connect(10_000))
  const ends = talk(endpoint)
  for (let i = 0; i < 100; i++) ends.stream.send(Buffer.from(String(i)))
  ends.stream.send(Buffer.from('end'))
  t.equal(await ends.ended, null)
  t.same(
    ends.said,
    Array.from({ length: 100 }, (_, i) => String(i)),
  )
  const fails = talk(endpoint)
  fails.stream.send(Buffer.from('fail'))
  t.match(await fails.ended, { code: RpcStatus.UNAVAILABLE, details: 'no leader' })
})

void t.test('a cancelled stream delivers no more messages', async (t) => {
  const { port, cancelled } = await listen(t)
  const endpoint = endpointAt(t, port)
  await endpoint.connect(10_000)
  const { stream, said, ended, next } = talk(endpoint)
  const first = next()
  stream.send(Buffer.from('first'))
  await first
  stream.send(Buffer.from('second'))
  stream.cancel()
  stream.send(Buffer.from('third'))
  while (cancelled() === 0) await ask(endpoint, 'a round trip')
  t.same(said, ['first'])
  t.equal(await Promise.race([ended, Promise.resolve('not told')]), 'not told')
})

void t.test('a paused stream waits while others continue; then everything arrives, in order', async (t) => {
  const { port, cancelled } = await listen(t)
  const endpoint = endpointAt(t, port)
  await endpoint.connect(10_000)
  const { stream, said, next } = talk(endpoint)
  stream.pause()
  const sent = Array.from({ length: 100 }, (_, i) => `${i} ${'x'.repeat(90_000)}`)
  for (const text of sent) stream.send(Buffer.from(text))
  for (let i = 0; i < 100; i++) await ask(endpoint, 'a round trip')
  t.same(said, [])
  stream.resume()
  while (said.length < 3) await next()
  stream.pause()
  const atPause = said.length
  for (let i = 0; i < 100; i++) await ask(endpoint, 'a round trip')
  t.ok(said.length <= atPause + 1, 'a message that was being read at most')
  stream.resume()
  while (said.length < sent.length) await next()
  t.ok(said.every((text, i) => text === sent[i]))
  stream.pause()
  stream.send(Buffer.from('never read'))
  stream.cancel()
  while (cancelled() === 0) await ask(endpoint, 'a round trip')
  t.equal(said.length, sent.length)
})

void t.test('a stream without a connection ends as unavailable, after the caller has it', async (t) => {
  const { port } = await listen(t)
  const { ended } = talk(endpointAt(t, port))
  t.match(await ended, { code: RpcStatus.UNAVAILABLE })
})

void t.test('a lost connection ends its calls, and reconnects on request', async (t) => {
  const { port } = await listen(t)
  const network = await networkTo(t, port)
  const endpoint = endpointAt(t, network.port)
  await endpoint.connect(10_000)
  const { ended } = talk(endpoint)
  const asked = ask(endpoint, 'hang')
  await ask(endpoint, 'behind it')
  network.server.close()
  for (const socket of network.passing) socket.destroy()
  t.match(await ended, { code: RpcStatus.UNAVAILABLE })
  await t.rejects(asked, { code: RpcStatus.UNAVAILABLE })
  t.notOk(endpoint.isReady())
  t.notOk(await endpoint.connect(10_000))
  await networkTo(t, port, network.port)
  while (!(await endpoint.connect(10_000))) await new Promise((resolve) => setImmediate(resolve))
  t.equal((await ask(endpoint, 'again')).toString(), 'again')
})

void t.test('a peer that accepts the connection and stays silent is not ready', async (t) => {
  const accepted: Socket[] = []
  const port = await listening(
    t,
    createServer((socket) => accepted.push(socket)),
  )
  const endpoint = endpointAt(t, port)
  t.notOk(await endpoint.connect(50))
  t.notOk(endpoint.isReady())
  await until(() => accepted.length === 1, 'the peer has accepted')
  for (const socket of accepted) socket.destroy()
})

void t.test('a silent peer is abandoned when a ping goes unanswered', async (t) => {
  const { port } = await listen(t)
  const network = await networkTo(t, port)
  const endpoint = endpointAt(t, network.port, { keepAliveTimeMs: 50, keepAliveTimeoutMs: 3_000 })
  await endpoint.connect(10_000)
  const { stream, ended, next } = talk(endpoint)
  // The connection survives many pings that are answered.
  for (let i = 0; i < 5; i++) {
    const heard = next()
    await new Promise((resolve) => setTimeout(resolve, 60))
    stream.send(Buffer.from('there?'))
    await heard
  }
  for (const socket of network.passing) socket.unpipe().pause()
  t.match(await ended, { code: RpcStatus.UNAVAILABLE })
  t.notOk(endpoint.isReady())
})

void t.test('a process that stands still while a ping is under way does not take its peer for silent', async (t) => {
  // The peer is in another thread, and its answers take so long that a ping is usually under way.
  const peer = new Worker(
    `const { createServer, connect } = require('node:net')
    const server = require('node:http2').createServer()
    server.on('stream', (stream) => stream.on('error', () => {}).respond({ 'content-type': 'application/grpc' }))
    server.listen(0, '127.0.0.1', () => {
      const network = createServer((socket) => {
        const onward = connect(server.address().port, '127.0.0.1')
        for (const one of [socket, onward]) one.on('error', () => {})
        socket.pipe(onward).on('data', (bytes) => setTimeout(() => socket.write(bytes), 50))
      })
      network.listen(0, '127.0.0.1', () => require('node:worker_threads').parentPort.postMessage(network.address().port))
    })`,
    { eval: true },
  )
  t.teardown(async () => await peer.terminate())
  const [port] = (await once(peer, 'message')) as [number]
  const endpoint = endpointAt(t, port, { keepAliveTimeMs: 20, keepAliveTimeoutMs: 200 })
  await endpoint.connect(10_000)
  const { ended } = talk(endpoint)
  let end: RpcError | null | undefined
  void ended.then((error) => (end = error))
  for (let i = 0; i < 8; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
  }
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(end, undefined)
  t.ok(endpoint.isReady())
})

/** The network between the endpoint and a server. */
async function networkTo(
  t: Test,
  serverPort: number,
  ownPort?: number,
): Promise<{ readonly port: number; readonly server: NetServer; readonly passing: ReadonlySet<Socket> }> {
  const passing = new Set<Socket>()
  const server = createServer((socket) => {
    const onward = connect(serverPort, '127.0.0.1')
    for (const one of [socket, onward]) {
      passing.add(one)
      one.on('error', () => {})
    }
    socket.pipe(onward).pipe(socket)
  })
  t.teardown(() => passing.forEach((socket) => socket.destroy()))
  // The port is bound again after a break.
  return { port: await listening(t, server, ownPort ?? (await freePort())), server, passing }
}

async function listening(t: Test, server: NetServer | Http2Server, port = 0): Promise<number> {
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

void t.test('an endpoint can be closed in the tick in which it connects', async (t) => {
  const { port } = await listen(t)
  const endpoint = endpointAt(t, port)
  let hasConnected = false
  const onSocket = (message: unknown): void => {
    const { socket } = message as { socket: Socket }
    // This listener runs before the session's own.
    socket.once('connect', () => {
      hasConnected = true
      process.nextTick(() => endpoint.close())
    })
  }
  subscribe('net.client.socket', onSocket)
  t.teardown(() => unsubscribe('net.client.socket', onSocket))
  t.notOk(await endpoint.connect(30_000))
  t.ok(hasConnected)
  await new Promise(setImmediate)
})

void t.test('an unconnected endpoint reports its name and the reason, until it connects', async (t) => {
  const closing = createServer((socket) => socket.end())
  closing.listen(0, '127.0.0.1')
  await once(closing, 'listening')
  t.teardown(() => closing.close())
  const port = (closing.address() as AddressInfo).port
  const ended = endpointAt(t, port)
  t.notOk(await ended.connect(30_000))
  t.match(ended.described(), new RegExp(`^http://127.0.0.1:${port} \\((it closed the connection|.*ECONNRESET.*)\\)$`))

  const free = await freePort()
  const refused = endpointAt(t, free)
  t.notOk(await refused.connect(30_000))
  t.equal(refused.described(), `http://127.0.0.1:${free} (connect ECONNREFUSED 127.0.0.1:${free})`)

  const authority = createAuthority(t)
  const { cert, key } = authority.server()
  const secure = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) })
  secure.listen(0, '127.0.0.1')
  await once(secure, 'listening')
  t.teardown(() => secure.close())
  const url = `https://127.0.0.1:${(secure.address() as AddressInfo).port}`
  const untrusting = endpointAt(t, 0, { url })
  t.notOk(await untrusting.connect(30_000))
  t.match(untrusting.described(), /\((unable to verify|self-signed|unable to get).*\)$/)
  const middle = issue('middle', issue('root'), { isAuthority: true })
  secure.setSecureContext(issue('etcd', middle, { altNames: ['127.0.0.1'] }))
  const trusting = endpointAt(t, 0, { url, tls: { ca: Buffer.from(middle.cert) } })
  t.ok(await trusting.connect(30_000), 'an intermediate is an authority')

  const { port: there } = await listen(t)
  const standing = endpointAt(t, there)
  t.ok(await standing.connect(30_000))
  t.equal(standing.described(), standing.url)
})

void t.test('a connection that ended after a GOAWAY is not pinged while its peer leaves the socket open', async (t) => {
  const server = createHttp2Server()
  let sessions = 0
  server.on('session', () => sessions++)
  server.on('stream', (stream, { ':path': path }) => {
    stream.on('error', () => {})
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { endStream: false })
    if (path !== '/test/GoAway') return
    stream.session?.goaway()
    stream.end()
  })
  const port = await listening(t, server)
  // This proxy does not propagate the end of a connection.
  const network = createServer({ allowHalfOpen: true }, (socket) => {
    const onward = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    for (const one of [socket, onward]) {
      one.on('error', () => {})
      t.teardown(() => one.destroy())
    }
    socket.pipe(onward, { end: false }).pipe(socket, { end: false })
  })
  const endpoint = endpointAt(t, await listening(t, network), { keepAliveTimeMs: 50 })
  await t.rejects(endpoint.unary('/test/GoAway', Buffer.alloc(0), { metadata: {}, timeoutMs: 30_000 }))
  t.ok(await endpoint.connect(10_000))
  t.equal(sessions, 2)
  // The new connection has a call, so that both would be pinged.
  const { stream } = talk(endpoint)
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.ok(endpoint.isReady())
  stream.cancel()
})

void t.test('a connection that runs out of stream ids is replaced, and its streams continue', async (t) => {
  const { connect: connectSession } = http2
  const sessions: ClientHttp2Session[] = []
  http2.connect = ((...to: Parameters<typeof connectSession>) => {
    const session = connectSession(...to)
    sessions.push(session)
    return session
  }) as typeof connectSession
  syncBuiltinESMExports()
  t.teardown(() => {
    http2.connect = connectSession
    syncBuiltinESMExports()
  })
  for (const id of [2 ** 30 + 1, 2 ** 31 - 1]) {
    sessions.length = 0
    const { port } = await listen(t)
    const endpoint = endpointAt(t, port)
    await endpoint.connect(10_000)
    const { stream, next, ended } = talk(endpoint)
    // Missing from the types.
    ;(sessions[0] as unknown as { setNextStreamID(id: number): void }).setNextStreamID(id)
    for (const text of ['the last', 'the next']) t.equal((await ask(endpoint, text)).toString(), text)
    t.equal(sessions.length, 2)
    const heard = next()
    stream.send(Buffer.from('still there'))
    t.equal(await heard, 'still there')
    stream.send(Buffer.from('end'))
    t.equal(await ended, null)
    await until(() => sessions[0]!.destroyed, 'the first connection is closed')
  }
})

void t.test('refused credentials are tried rarely, until the connection with the old ones is lost', async (t) => {
  const root = issue('root')
  const server = createSecureServer({
    ...issue('etcd', root, { altNames: ['127.0.0.1'] }),
    ca: root.cert,
    requestCert: true,
    rejectUnauthorized: true,
  })
  const sessions: ServerHttp2Session[] = []
  server.on('session', (session) => sessions.push(session))
  const tlsOf = ({ cert, key }: { readonly cert: string; readonly key: string }) => ({
    ca: Buffer.from(root.cert),
    cert: Buffer.from(cert),
    key: Buffer.from(key),
  })
  const url = `https://127.0.0.1:${await listening(t, server)}`
  const endpoint = endpointAt(t, 0, { url, tls: tlsOf(issue('known', root)) })
  t.ok(await endpoint.connect(30_000))
  const pauses: number[] = []
  const { setTimeout: wait } = globalThis
  t.teardown(() => (globalThis.setTimeout = wait))
  globalThis.setTimeout = ((callback: () => void, ms: number) => {
    // Only the pauses between attempts are random. Each is recorded, and none is waited for.
    if (!Number.isInteger(ms)) pauses.push(ms)
    return wait(callback, Number.isInteger(ms) ? ms : 0)
  }) as typeof setTimeout
  t.type(await endpoint.renew(tlsOf(issue('unknown')), 30_000), 'string')
  await until(() => pauses.length >= 20, 'many attempts fail')
  t.ok(pauses[0]! <= 120, `${pauses[0]}`)
  t.ok(
    pauses.slice(15).every((ms) => ms >= 24_000 && ms <= 36_000),
    pauses.join(' '),
  )
  t.ok(endpoint.isReady())

  sessions[0]!.destroy()
  await until(() => !endpoint.isReady(), 'the connection is lost')
  const before = pauses.length
  await until(() => pauses.length >= before + 10, 'attempts follow soon')
  t.ok(
    pauses.slice(before).every((ms) => ms <= 480),
    pauses.slice(before).join(' '),
  )
})

void t.test('the page of a proxy that cannot reach the server counts by its HTTP status', async (t) => {
  const server = createHttp2Server()
  server.on('stream', (stream) => {
    stream.respond({ ':status': 503, 'content-type': 'text/html' })
    stream.end('<html>no backend</html>')
  })
  const endpoint = endpointAt(t, await listening(t, server))
  await t.rejects(ask(endpoint, 'hello'), { code: RpcStatus.UNAVAILABLE, details: 'received HTTP status 503' })
})

void t.test('the port of a URL is used as written, even if it is the default of the scheme', async (t) => {
  for (const [url, address] of [
    ['http://[::1]:80', '::1:80'],
    ['https://[::1]:443/', '::1:443'],
    ['http://[::1]', '::1:2379'],
    ['http://[::1]:8080', '::1:8080'],
  ] as const) {
    const endpoint = endpointAt(t, 0, { url })
    t.notOk(await endpoint.connect(10_000))
    t.match(endpoint.described(), new RegExp(`connect E[A-Z]+ ${address}\\b`))
  }
})
