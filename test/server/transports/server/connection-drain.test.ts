/** A draining server sends its clients elsewhere, on every kind of port; running answers finish on their own. */
import { createServer, type ServerResponse } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, type Socket, connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { ConnectionDrain } from '../../../../src/server/transports/server/connection-drain.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { EventReader } from '../../../support/event-reader.js'
import { secureFlags } from '../../../support/secure-flags.js'

const SECURE = [...secureFlags(), '--shutdown-watch-termination-grace-period', '300ms']
const PODS = '/api/v1/pods'

/** An HTTP/1.1 connection and the bytes received on it. */
class Talk {
  text = ''
  isEnded = false

  constructor(
    t: Test,
    readonly socket: Socket,
  ) {
    t.teardown(() => socket.destroy())
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => (this.text += text))
    socket.on('end', () => (this.isEnded = true))
    socket.on('close', () => (this.isEnded = true))
    socket.on('error', () => {})
  }

  ask(path: string): void {
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
  }
}

const ports: readonly { name: string; open: (h: AppHarness) => Socket; url: (h: AppHarness) => string }[] = [
  { name: 'in plain', open: (h) => connectTcp(h.port, '127.0.0.1'), url: (h) => h.url },
  {
    name: 'over TLS',
    open: (h) =>
      connectTls({
        port: Number(new URL(h.secureUrl).port),
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ALPNProtocols: ['http/1.1'],
      }),
    url: (h) => h.secureUrl,
  },
]

for (const { name, open, url } of ports) {
  void t.test(`over HTTP/1.1 ${name}, idle connections end, and watches end with their connections`, async (t) => {
    const h = await startApp(t, { flags: SECURE, objects: { 'pods/default/a': pod('a') } })
    const idle = new Talk(t, open(h))
    idle.ask('/version')
    await until(() => idle.text.includes('gitVersion'), 'it is answered')
    const watching = new Talk(t, open(h))
    watching.ask(`${PODS}?watch=1&allowWatchBookmarks=true&resourceVersion=1`)
    await until(() => watching.text.includes('"ADDED"'), 'it has all there is, so a bookmark can be its last word')
    const drained = h.app.drain()
    await until(() => idle.isEnded, 'the idle one ends')
    await until(() => watching.isEnded, 'the watch ends, and its connection')
    t.match(watching.text, /"type":"BOOKMARK".*\r\n0\r\n\r\n$/s, 'after a last bookmark, whole')
    await drained

    const late = new Talk(t, open(h))
    late.ask(`${PODS}?watch=1`)
    await until(() => late.isEnded, 'who comes now is answered, and sent away')
    t.match(late.text, /^HTTP\/1.1 503 /)
    t.match(late.text, /\r\nconnection: close\r\n/i)
    t.match(late.text, /\r\nretry-after: \d+\r\n/i)
    const probing = new Talk(t, open(h))
    probing.ask('/livez')
    await until(() => probing.isEnded, 'a probe is answered')
    t.match(probing.text, /^HTTP\/1.1 200 .*connection: close\r\n/is)
  })

  void t.test(`over HTTP/1.1 ${name}, an answer whose head is not sent yet says that it is the last`, async (t) => {
    const h = await startApp(t, { flags: SECURE })
    const source = [...h.app.sources].find(({ resource }) => resource.plural === 'pods')
    const next = h.put('pods/default/a', pod('a')) + 1
    const waiting = new Talk(t, open(h))
    waiting.ask(`${PODS}?resourceVersion=${next}&resourceVersionMatch=NotOlderThan`)
    await until(() => source?.cache.reads.waiting === 1, 'it waits for a revision')
    await h.app.drain()
    h.put('pods/default/a', pod('a'))
    await until(() => waiting.isEnded, 'it is answered in its own time')
    t.match(waiting.text, /^HTTP\/1.1 (200|504) .*connection: close\r\n/is)
  })

  void t.test(`over HTTP/1.1 ${name}, also if the body of the request ends later`, async (t) => {
    const h = await startApp(t, { flags: [...SECURE, '--enable-writes'] })
    const writing = new Talk(t, open(h))
    const body = JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'late' } })
    const head = `POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`
    writing.socket.write(`${head}Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`)
    await until(() => writing.text.includes('100 Continue'), 'the request has begun')
    const drained = h.app.drain()
    writing.socket.write(body)
    await until(() => writing.isEnded, 'it is answered, and the connection ends')
    t.match(writing.text, /HTTP\/1.1 201 .*connection: close\r\n/is)
    await drained
  })

  void t.test(`over HTTP/2 ${name}, GOAWAY is sent at once, and streams end by themselves`, async (t) => {
    const h = await startApp(t, { flags: SECURE })
    const { client, goaway } = sessionOf(t, url(h))
    const stream = client.request({ ':path': `${PODS}?watch=1&allowWatchBookmarks=true&resourceVersion=1` })
    const events = new EventReader(stream)
    await until(() => h.watchers === 1, 'it watches')
    // Only a watch that has caught up gets a bookmark at its end.
    h.put('pods/default/a', pod('a'))
    await events.first(1)
    const drained = h.app.drain()
    t.equal(await goaway, 0, 'GOAWAY without an error')
    t.match(await events.all(), [{ type: 'ADDED' }, { type: 'BOOKMARK' }])
    t.equal(events.ending, 'clean')
    await drained

    const late = sessionOf(t, url(h))
    const probe = late.client.request({ ':path': '/livez' })
    let code = 0
    probe.on('response', (headers) => (code = headers[':status'] ?? 0))
    probe.resume()
    t.equal(await late.goaway, 0, 'who comes now is answered once')
    await until(() => code === 200, 'and answered it is')
  })
}

for (const { name, url } of ports) {
  void t.test(`over HTTP/2 ${name}, --goaway-chance moves a client, and its watch continues`, async (t) => {
    const h = await startApp(t, { flags: SECURE, config: { goawayChance: 1 } })
    const { client, goaway } = sessionOf(t, url(h))
    const events = new EventReader(client.request({ ':path': `${PODS}?watch=1&resourceVersion=1` }))
    t.equal(await goaway, 0, 'GOAWAY without an error')
    await until(() => h.watchers === 1, 'it watches')
    h.put('pods/default/a', pod('a'))
    t.match(await events.first(1), [{ type: 'ADDED' }])
    t.equal(events.ending, null)
  })
}

interface Asked {
  text: string
  isEnded: boolean
  pause(): void
  resume(): void
}

type Ask = (t: Test, h: AppHarness, path: string, body?: string) => Asked

/** The ways to send a request on a new connection. */
const ways = ports.flatMap(({ name, open, url }): { readonly way: string; readonly ask: Ask }[] => [
  {
    way: `over HTTP/1.1 ${name}`,
    ask: (t, h, path, body = '') => {
      const talk = new Talk(t, open(h))
      const head = body === '' ? `GET ${path}` : `POST ${path}`
      talk.socket.write(`${head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      return Object.assign(talk, { pause: () => talk.socket.pause(), resume: () => talk.socket.resume() })
    },
  },
  {
    way: `over HTTP/2 ${name}`,
    ask: (t, h, path, body = '') => {
      const stream = sessionOf(t, url(h)).client.request({ ':method': body === '' ? 'GET' : 'POST', ':path': path })
      const asked = { text: '', isEnded: false, pause: () => stream.pause(), resume: () => stream.resume() }
      if (body !== '') stream.end(body)
      stream.setEncoding('latin1')
      stream.on('data', (text: string) => (asked.text += text))
      stream.on('error', () => {})
      stream.on('close', () => (asked.isEnded = true))
      return asked
    },
  },
])

const THINGS = '/apis/other.example/v1/things'
/** More than what sockets and windows hold. */
const LARGE = Object.fromEntries(
  Array.from({ length: 24 }, (_, i) => [
    `pods/default/p${i}`,
    pod(`p${i}`, { annotations: { a: 'x'.repeat(1_000_000) } }),
  ]),
)

for (const { way, ask } of ways) {
  void t.test(`${way}, a stopping server finishes the requests in progress, but not forwarded watches`, async (t) => {
    const held: ServerResponse[] = []
    const behind = createServer((request, response) => {
      if (request.method === 'POST') held.push(response)
      else if (request.url?.includes('watch') === true) response.write('forwarded')
      else response.end('{}')
    })
    await new Promise<void>((resolve) => behind.listen(0, '127.0.0.1', resolve))
    t.teardown(() => void (behind.closeAllConnections(), behind.close()))
    const { port } = behind.address() as AddressInfo
    const flags = [...SECURE, '--passthrough', `http://127.0.0.1:${port}`]
    const h = await startApp(t, { flags, objects: LARGE })
    const watch = ask(t, h, `${THINGS}?watch=1`)
    await until(() => watch.text.includes('forwarded'), 'the watch runs')
    const large = ask(t, h, `${PODS}?resourceVersion=0`)
    await until(() => large.text.includes('xxx'), 'the list is being sent')
    large.pause()
    const next = h.put('pods/default/b', pod('b')) + 1
    const list = ask(t, h, `${PODS}?resourceVersion=${next}&resourceVersionMatch=NotOlderThan&limit=1`)
    const write = ask(t, h, THINGS, '{"kind":"Thing"}')
    const source = [...h.app.sources].find(({ resource }) => resource.plural === 'pods')
    await until(() => source?.cache.reads.waiting === 1 && held.length === 1, 'the list and the write wait')
    await h.app.drain()
    const stopped = h.app.stop()
    await until(() => connectTcpFails(h.port), 'no new connections')
    h.put('pods/default/b', pod('b'))
    held[0]!.end('written')
    large.resume()
    await until(() => large.isEnded && list.isEnded && write.isEnded, 'all have ended')
    t.match(list.text, /"kind":"PodList".*"name":"b"/s)
    t.match(write.text, /written/)
    t.match(large.text.slice(-40), /\]\}\s*(0\r\n\r\n)?$/)
    await stopped
    await until(() => watch.isEnded, 'the watch ends with the server')
  })

  void t.test(`${way}, a client that does not read does not keep a stopping server`, async (t) => {
    const h = await startApp(t, { flags: SECURE, objects: LARGE, config: { shutdownGracePeriod: 1_000 } })
    const large = ask(t, h, `${PODS}?resourceVersion=0`)
    await until(() => large.text.includes('xxx'), 'the list is being sent')
    large.pause()
    await h.app.drain()
    await h.app.stop()
    large.resume()
    await until(() => large.isEnded, 'it is cut off')
    t.notMatch(large.text.slice(-40), /\]\}\s*(0\r\n\r\n)?$/)
  })
}

void t.test('a watch that waited for its slot when the drain began is refused', async (t) => {
  const h = await startApp(t, { flags: SECURE, objects: { 'pods/default/a': pod('a') } })
  const next = h.put('pods/default/a', pod('a')) + 1
  const watch = new Talk(t, connectTcp(h.port, '127.0.0.1'))
  watch.ask(
    `${PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=${next}&allowWatchBookmarks=true`,
  )
  const source = [...h.app.sources].find(({ resource }) => resource.plural === 'pods')
  await until(() => source?.cache.reads.waiting === 1, 'it waits for its initial state')
  await h.app.drain()
  h.put('pods/default/a', pod('a'))
  await until(() => watch.isEnded, 'it is answered')
  t.match(watch.text, /^HTTP\/1.1 503 /)
})

async function connectTcpFails(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connectTcp(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.on('error', () => resolve(true))
  })
}

void t.test('--goaway-chance leaves HTTP/1.1 alone, and 0 moves nobody', async (t) => {
  const h = await startApp(t, { flags: SECURE, config: { goawayChance: 1 } })
  const talk = new Talk(t, connectTcp(h.port, '127.0.0.1'))
  for (let i = 1; i <= 3; i++) {
    talk.ask('/version')
    await until(() => talk.text.split('gitVersion').length === i + 1, 'it is answered on the same connection')
  }
  t.notMatch(talk.text, /connection: close/i)
  const never = await startApp(t, { flags: SECURE })
  const { client } = sessionOf(t, never.url)
  let moved = 0
  client.on('goaway', () => moved++)
  for (let i = 0; i < 20; i++) {
    const stream = client.request({ ':path': '/version' })
    stream.resume()
    await new Promise((resolve) => stream.once('close', resolve))
  }
  t.equal(moved, 0)
})

function sessionOf(t: Test, url: string): { client: ClientHttp2Session; goaway: Promise<number> } {
  const client = connectHttp2(url, { rejectUnauthorized: false })
  client.on('error', () => {})
  t.teardown(() => client.destroy())
  return { client, goaway: new Promise((resolve) => client.once('goaway', (code) => resolve(code))) }
}

void t.test('an answer that promised a reusable connection keeps the promise until the drain begins', async (t) => {
  const drain = new ConnectionDrain()
  const running: ServerResponse[] = []
  const server = createServer(
    drain.wrap((request, response) => {
      if (request.url === '/long') running.push(response as ServerResponse)
      response.setHeader('content-length', 2)
      response.write('a')
      if (request.url !== '/long') response.end('b')
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const talks = [new Talk(t, connectTcp(port, '127.0.0.1')), new Talk(t, connectTcp(port, '127.0.0.1'))]
  const [first, second] = talks as [Talk, Talk]
  for (const talk of talks) talk.ask('/long')
  await until(() => talks.every(({ text }) => text.endsWith('a')), 'both heads are out')
  drain.announce()
  running[0]!.end('b')
  await until(() => first.text.endsWith('ab'), 'the answer is whole')
  first.ask('/again')
  await until(() => /connection: close\r\n[^]*ab$/i.test(first.text), 'the next answer ends the connection')
  drain.begin(() => server.closeIdleConnections())
  running[1]!.end('b')
  await until(() => second.isEnded, 'once the drain has begun, so does the running one')
  t.match(second.text, /ab$/)
})
