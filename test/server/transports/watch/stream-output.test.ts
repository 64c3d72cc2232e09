/** Tests HTTP/2, by ALPN over TLS and by prior knowledge on the plain port, with HTTP/1.1 next to it on both. */
import { execFile } from 'node:child_process'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants, createServer } from 'node:http2'
import { get as httpsGet } from 'node:https'
import { type AddressInfo, type Socket, connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Agent, request } from 'undici'
import { LINGER_MS } from '../../../../src/server/limits/fixed-limits.js'
import { StreamOutput } from '../../../../src/server/transports/watch/stream-output.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { curlBinary } from '../../../support/curl.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { EventReader, brief } from '../../../support/event-reader.js'
import { secureFlags } from '../../../support/secure-flags.js'

const SECURE = secureFlags()
const PODS = '/api/v1/pods'

function session(t: Test, url: string): ClientHttp2Session {
  const client = connect(url, { rejectUnauthorized: false })
  client.on('error', () => {})
  t.teardown(() => client.destroy())
  return client
}

function watch(client: ClientHttp2Session, query: string): { stream: ClientHttp2Stream; events: EventReader } {
  const stream = client.request({ ':path': `${PODS}?watch=1${query}` })
  return { stream, events: new EventReader(stream) }
}

const transports: readonly { name: string; url: (h: AppHarness) => string }[] = [
  { name: 'over TLS', url: (h) => h.secureUrl },
  { name: 'by prior knowledge on the plain port', url: (h) => h.url },
]

for (const { name, url } of transports) {
  void t.test(`lists and watches share one connection ${name}`, async (t) => {
    const h = await startApp(t, { flags: SECURE, objects: { 'pods/default/a': pod('a') } })
    const client = session(t, url(h))
    const all = watch(client, '')
    const web = watch(client, '&labelSelector=app%3Dweb&resourceVersion=1')
    const marked = watch(client, '&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true')
    await all.events.first(1)
    t.match((await marked.events.first(2))[1], {
      type: 'BOOKMARK',
      object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } },
    })
    const put = h.put('pods/default/b', pod('b', { labels: { app: 'web' } }))
    t.same((await all.events.first(2)).map(brief), ['ADDED a@2', `ADDED b@${put}`])
    t.same((await web.events.first(1)).map(brief), [`ADDED b@${put}`])
    const expired = watch(client, '&resourceVersion=1&timeoutSeconds=1')
    t.same((await expired.events.all()).map(brief), ['ADDED a@2', `ADDED b@${put}`])
    t.equal(expired.events.ending, 'clean', 'a watch with a timeout ends cleanly')
  })

  void t.test(`a reset stream is forgotten, and the connection continues ${name}`, async (t) => {
    const h = await startApp(t, { flags: SECURE })
    const client = session(t, url(h))
    const watches = Array.from({ length: 50 }, () => watch(client, '&resourceVersion=1'))
    await until(() => h.watchers === 50, 'all are open')
    for (const { stream } of watches.slice(1)) stream.close(constants.NGHTTP2_CANCEL)
    await until(() => h.watchers === 1, 'one is left')
    const put = h.put('pods/default/a', pod('a'))
    t.same((await watches[0]!.events.first(1)).map(brief), [`ADDED a@${put}`])
    client.destroy()
    await until(() => h.watchers === 0, 'none is left when the connection goes')
  })

  void t.test(`a stalled stream does not delay the others on its connection ${name}`, async (t) => {
    const h = await startApp(t, { flags: [...SECURE, '--watch-cache-bytes', '256Mi'] })
    const client = session(t, url(h))
    const slow = watch(client, '&resourceVersion=1')
    slow.stream.pause()
    const fast = watch(client, '&resourceVersion=1')
    await until(() => h.watchers === 2, 'both are open')
    const filler = 'x'.repeat(64 * 1024)
    for (let i = 0; i < 100; i++) {
      h.put(`pods/default/p${i}`, pod(`p${i}`, { spec: { filler } }))
      if (i % 10 === 9) await fast.events.first(i + 1)
    }
    t.ok(slow.events.events.length < 100, 'the slow one has not read all')
    slow.stream.resume()
    t.same((await slow.events.first(100)).map(brief), (await fast.events.first(100)).map(brief))
  })
}

void t.test('a 410 in the stream is an ERROR event and a clean end', async (t) => {
  const h = await startApp(t, {
    flags: [...SECURE, '--backfill-revisions', '0'],
    objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') },
  })
  const { events } = watch(session(t, h.secureUrl), '&resourceVersion=1')
  t.match(await events.all(), [{ type: 'ERROR', object: { code: 410, reason: 'Expired' } }])
  t.equal(events.ending, 'clean')
})

void t.test('a watch that ends before its slow client has read everything is seen as broken off', async (t) => {
  const server = createServer().on('stream', (stream) => {
    stream.on('error', () => {})
    stream.respond({ ':status': 200 })
    const output = new StreamOutput(stream)
    output.write(Buffer.alloc(2 ** 20))
    const { setTimeout: real } = globalThis
    const sooner = (callback: () => void, ms?: number): NodeJS.Timeout => real(callback, ms === LINGER_MS ? 100 : ms)
    globalThis.setTimeout = sooner as typeof real
    output.end(null)
    globalThis.setTimeout = real
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const stream = session(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`).request({ ':path': '/' })
  stream.on('error', () => {})
  let heard = 0
  stream.on('data', (bytes: Buffer) => {
    heard += bytes.length
    stream.pause()
  })
  await new Promise((resolve) => stream.once('close', resolve))
  t.ok(heard > 0 && heard < 2 ** 20, `${heard} bytes`)
  t.equal(stream.rstCode, constants.NGHTTP2_CANCEL)
})

void t.test(
  'TLS clients get HTTP/2 in preference to HTTP/1.1, and those that know only the latter get that',
  async (t) => {
    const h = await startApp(t, { flags: SECURE, objects: { 'pods/default/a': pod('a') } })
    const { port, hostname } = new URL(h.secureUrl)
    const negotiated = async (protocols: string[]): Promise<string | false | null> => {
      const socket = connectTls({
        port: Number(port),
        host: hostname,
        rejectUnauthorized: false,
        ALPNProtocols: protocols,
      })
      t.teardown(() => socket.destroy())
      await new Promise((resolve) => socket.once('secureConnect', resolve))
      return socket.alpnProtocol
    }
    t.equal(await negotiated(['http/1.1', 'h2']), 'h2', 'whatever the client prefers')
    t.equal(await negotiated(['http/1.1']), 'http/1.1')
    const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      httpsGet(`${h.secureUrl}${PODS}?watch=1`, { rejectUnauthorized: false, agent: false }, resolve).on(
        'error',
        reject,
      )
    })
    t.equal(response.httpVersion, '1.1')
    const events = new EventReader(response)
    await events.first(1)
    const put = h.put('pods/default/b', pod('b'))
    t.same((await events.first(2)).map(brief), ['ADDED a@2', `ADDED b@${put}`])
    response.destroy()
    await until(() => h.watchers === 0, 'forgotten')
  },
)

void t.test('one connection may have as many streams as the option allows', async (t) => {
  const h = await startApp(t, { flags: [...SECURE, '--http2-max-streams-per-connection', '7'] })
  const client = session(t, h.secureUrl)
  await new Promise((resolve) => client.once('remoteSettings', resolve))
  t.equal(client.remoteSettings.maxConcurrentStreams, 7)
})

void t.test('a large list keeps its length under flow control', async (t) => {
  const objects = Object.fromEntries(
    Array.from({ length: 500 }, (_, i) => [
      `pods/default/p${i}`,
      pod(`p${i}`, { spec: { filler: 'x'.repeat(2_000) } }),
    ]),
  )
  const h = await startApp(t, { flags: SECURE, objects })
  const client = session(t, h.secureUrl)
  const lists = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const stream = client.request({ ':path': PODS })
      let text = ''
      for await (const part of stream.setEncoding('utf8')) text += part as string
      return (JSON.parse(text) as { items: unknown[] }).items.length
    }),
  )
  t.same(
    lists,
    Array.from({ length: 8 }, () => 500),
  )
})

void t.test('undici watches over HTTP/2', async (t) => {
  const h = await startApp(t, { flags: SECURE, objects: { 'pods/default/a': pod('a') } })
  const dispatcher = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } })
  t.teardown(() => dispatcher.destroy())
  const { statusCode, body } = await request(`${h.secureUrl}${PODS}?watch=1`, { dispatcher })
  t.equal(statusCode, 200)
  const events = new EventReader(body)
  await events.first(1)
  const put = h.put('pods/default/b', pod('b'))
  t.same((await events.first(2)).map(brief), ['ADDED a@2', `ADDED b@${put}`])
  body.destroy()
})

void t.test('curl is served in the version it requests', async (t) => {
  const h = await startApp(t, { flags: SECURE, objects: { 'pods/default/a': pod('a') } })
  const curl = async (...args: string[]): Promise<readonly string[]> => {
    const format = ['--silent', '--insecure', '--max-time', '10', '--write-out', '%{http_version} %{http_code}']
    const { stdout } = await promisify(execFile)(curlBinary, [...format, ...args])
    return stdout.trim().split('\n')
  }
  const path = `${PODS}?watch=1&timeoutSeconds=1`
  const asked: readonly [string, string, string][] = [
    ['--http2', h.secureUrl, '2'],
    ['--http1.1', h.secureUrl, '1.1'],
    ['--http2-prior-knowledge', h.url, '2'],
    ['--http1.1', h.url, '1.1'],
    // A server may ignore an offer to upgrade to h2c, and ours does.
    ['--http2', h.url, '1.1'],
  ]
  for (const [flag, url, version] of asked) {
    const [event, status] = await curl(flag, `${url}${path}`)
    t.match(JSON.parse(event!), { type: 'ADDED', object: { metadata: { name: 'a' } } }, `${flag} ${url}`)
    t.equal(status, `${version} 200`)
  }
})

void t.test('a silent connection is waited for', async (t) => {
  const h = await startApp(t)
  const socket = connectTcp(h.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const say = async (text: string): Promise<void> => {
    await new Promise<void>((resolve) => void socket.write(text, () => resolve()))
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await say('P')
  await say('RI')
  // The bytes turn out not to be a preface, and the HTTP/1.1 parser rejects them.
  socket.write('ME / HTTP/1.1\r\n\r\n')
  t.match(await firstLine(socket), /^HTTP\/1\.1 400/)
  const patient = connectTcp(h.port, '127.0.0.1')
  t.teardown(() => patient.destroy())
  for (const letter of 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n') patient.write(letter)
  t.equal(await firstLine(patient), 'HTTP/1.1 200 OK', 'a request letter by letter is understood')
})

void t.test('silent connections do not delay a stop', async (t) => {
  const h = await startApp(t, { flags: SECURE })
  const ports = [h.port, Number(new URL(h.secureUrl).port)]
  const sockets = await Promise.all(
    ports.map(async (port) => {
      const socket = connectTcp(port, '127.0.0.1')
      socket.on('error', () => {})
      t.teardown(() => socket.destroy())
      await new Promise((resolve) => socket.once('connect', resolve))
      return socket
    }),
  )
  // A later connection has been accepted, so these have been too.
  await request(`${h.url}/livez`)
  const closed = Promise.all(sockets.map((socket) => new Promise((resolve) => socket.resume().once('close', resolve))))
  const startedMs = performance.now()
  await h.app.stop()
  await closed
  t.ok(performance.now() - startedMs < 9_000, 'sooner than their own time is over')
})

async function firstLine(socket: Socket): Promise<string> {
  let heard = ''
  for await (const bytes of socket) {
    heard += (bytes as Buffer).toString('latin1')
    if (heard.includes('\r\n')) break
  }
  return heard.slice(0, heard.indexOf('\r\n'))
}
