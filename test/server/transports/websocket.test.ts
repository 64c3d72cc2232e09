/** Watches over WebSocket, checked with the `ws` client and a browser. */
import { type IncomingMessage, request } from 'node:http'
import { type Socket, connect } from 'node:net'
import t, { type Test } from 'tap'
import { type ClientOptions, WebSocket } from 'ws'
import { type AppHarness, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { pause, until } from '../../support/until.js'
import { openPage } from '../../support/chromium.js'
import { type SeenEvent, brief } from '../../support/event-reader.js'
import { secureFlags } from '../../support/secure-flags.js'
import { get } from '../../security/support/http1-attacks.js'
import { send } from '../../security/support/raw.js'

const PODS = '/api/v1/pods'

class Client {
  readonly messages: (Buffer | SeenEvent)[] = []
  closed: { code: number; reason: string } | null = null
  refused: { status: number; body: string } | null = null
  pings = 0

  constructor(readonly socket: WebSocket) {
    socket.on('message', (data: Buffer, isBinary) => {
      this.messages.push(isBinary ? data : (JSON.parse(data.toString()) as SeenEvent))
    })
    socket.on('close', (code, reason) => (this.closed ??= { code, reason: reason.toString() }))
    socket.on('ping', () => this.pings++)
    socket.on('error', () => {})
    socket.on('unexpected-response', (_request, response: IncomingMessage) => {
      let body = ''
      response.on('data', (part: Buffer) => (body += part.toString()))
      response.on('end', () => (this.refused = { status: response.statusCode ?? 0, body }))
    })
  }

  get briefs(): readonly string[] {
    return this.messages.map((message) => (Buffer.isBuffer(message) ? 'binary' : brief(message)))
  }

  async has(count: number): Promise<void> {
    await until(() => this.messages.length >= count, `${count} messages, of ${this.briefs.join(', ')}`)
  }
}

interface OpenOptions {
  readonly query?: string
  readonly protocols?: readonly string[]
  readonly options?: ClientOptions
  readonly path?: string
}

function open(
  t: Test,
  h: AppHarness,
  { query = '', protocols = [], options = {}, path = PODS }: OpenOptions = {},
): Client {
  const url = `ws://127.0.0.1:${h.port}${path}?watch=1${query}`
  const client = new Client(new WebSocket(url, [...protocols], options))
  t.teardown(() => client.socket.terminate())
  return client
}

void t.test('each event is one message, and messages of the client are ignored', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const client = open(t, h)
  await client.has(1)
  client.socket.send('hello')
  client.socket.send(Buffer.alloc(1_000))
  client.socket.ping('are you there?')
  let pong = ''
  client.socket.on('pong', (data) => (pong = data.toString()))
  const lengths = [10, 125, 126, 60_000, 70_000]
  const revisions = lengths.map((length) => h.put('pods/default/b', pod('b', { spec: { filler: 'x'.repeat(length) } })))
  const several = h.commit({ 'pods/default/a': null, 'pods/default/c': pod('c') })
  await client.has(8)
  t.same(client.briefs, [
    'ADDED a@2',
    `ADDED b@${revisions[0]}`,
    ...revisions.slice(1).map((revision) => `MODIFIED b@${revision}`),
    `DELETED a@${several}`,
    `ADDED c@${several}`,
  ])
  await until(() => pong === 'are you there?', 'its ping is answered')
  client.socket.close(1000)
  await until(() => h.watchers === 0, 'forgotten')
  t.match(client.closed, { code: 1000 })
})

void t.test('selectors, bookmarks and timeouts work as for every watch; a close frame ends it', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a', { labels: { app: 'web' } }) } })
  h.put('pods/default/b', pod('b'))
  const query = '&labelSelector=app%3Dweb&allowWatchBookmarks=true&timeoutSeconds=1'
  const client = open(t, h, { query })
  await until(() => client.closed !== null, 'the end')
  t.match(client.messages.slice(0, 2), [
    { type: 'ADDED', object: { metadata: { name: 'a' } } },
    { type: 'BOOKMARK', object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } } },
  ])
  t.same(client.closed, { code: 1000, reason: '' })
  t.equal(h.watchers, 0)
})

void t.test('an error in the stream is a message, followed by a matching close', async (t) => {
  const objects = Object.fromEntries(['a', 'b'].map((name) => [`pods/default/${name}`, pod(name)]))
  const h = await startApp(t, { flags: ['--backfill-revisions', '0'], objects })
  const client = open(t, h, { query: '&resourceVersion=1' })
  await until(() => client.closed !== null, 'the end')
  t.match(client.messages, [{ type: 'ERROR', object: { code: 410, reason: 'Expired' } }])
  t.same(client.closed, { code: 1011, reason: 'Expired' })
})

void t.test('an error before the upgrade is an ordinary answer with a Status', async (t) => {
  const h = await startApp(t, { flags: ['--max-watchers', '1'] })
  const first = open(t, h)
  await until(() => h.watchers === 1, 'the first is open')
  const offering = (header: string): OpenOptions => ({ options: { headers: { 'Sec-WebSocket-Protocol': header } } })
  const rows: readonly [OpenOptions, number, string][] = [
    [{ query: '&resourceVersion=x' }, 400, 'BadRequest'],
    [{ path: '/api/v1/nothings' }, 404, 'NotFound'],
    [{}, 429, 'TooManyRequests'],
    [{ options: { headers: { origin: 'https://evil.example' } } }, 403, 'Forbidden'],
    [{ options: { headers: { origin: 'null' } } }, 403, 'Forbidden'],
    [{ protocols: ['one', 'two'] }, 400, 'BadRequest'],
    [offering(''), 400, 'BadRequest'],
    [offering(',one'), 400, 'BadRequest'],
    [offering('one,'), 400, 'BadRequest'],
    [offering('one,,two'), 400, 'BadRequest'],
    [{ protocols: ['base64url.bearer.authorization.k8s.io.dG9rZW4'] }, 401, 'Unauthorized'],
  ]
  for (const [options, status, reason] of rows) {
    const client = open(t, h, options)
    await until(() => client.refused !== null, `the answer to ${JSON.stringify(options)}`)
    t.equal(client.refused?.status, status, JSON.stringify(options))
    t.match(JSON.parse(client.refused!.body), { kind: 'Status', reason })
  }
  t.equal(h.watchers, 1)
  first.socket.close()
})

const TOKEN = 'base64url.bearer.authorization.k8s.io.dG9rZW4'

void t.test('the one subprotocol is echoed, and a token never is', async (t) => {
  const h = await startApp(t)
  const rows: readonly [readonly string[], string][] = [
    [[], ''],
    [['v1.example'], 'v1.example'],
    [[TOKEN, 'base64.binary.k8s.io'], 'base64.binary.k8s.io'],
  ]
  for (const [protocols, echoed] of rows) {
    const { socket } = open(t, h, { protocols })
    await new Promise((resolve, reject) => void socket.once('open', resolve).once('error', reject))
    t.equal(socket.protocol, echoed, JSON.stringify(protocols))
    t.equal(socket.extensions, '', 'not compressed')
  }
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13']
  const asked = get(
    '/api/v1/pods?watch=1',
    ...upgrade,
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    `Sec-WebSocket-Protocol: ${TOKEN}`,
  )
  const { text } = await send({ port: h.port, securePort: -1 }, 'plain', [asked])
  t.match(text, /^HTTP\/1\.1 \d{3} /)
  t.notMatch(text, TOKEN, 'not even if there is no other')
})

void t.test("pages of the server's own origin may connect, others only if configured", async (t) => {
  const h = await startApp(t, { flags: ['--cors-allowed-origins', 'https://app.example.org'] })
  for (const origin of [h.url, 'https://app.example.org']) {
    const { socket } = open(t, h, { options: { headers: { origin } } })
    await new Promise((resolve, reject) => void socket.once('open', resolve).once('error', reject))
    t.pass(origin)
  }
})

void t.test('a client that breaks off, or floods, is forgotten', async (t) => {
  const h = await startApp(t)
  const clients = Array.from({ length: 10 }, () => open(t, h))
  await until(() => h.watchers === 10, 'all are open')
  for (const { socket } of clients.slice(1)) socket.terminate()
  await until(() => h.watchers === 1, 'one is left')
  clients[0]!.socket.send(Buffer.alloc(1_000_000))
  await until(() => h.watchers === 0, 'a message beyond the bound ends it')
  t.match(clients[0]!.closed, { code: 1009 })
})

void t.test('a message in more than 16 fragments ends its connection', async (t) => {
  const h = await startApp(t)
  const [few, many] = [open(t, h), open(t, h)]
  for (const { socket } of [few, many]) await new Promise((resolve) => socket.once('open', resolve))
  for (let i = 1; i <= 16; i++) few.socket.send('x', { fin: i === 16 })
  for (let i = 1; i <= 17; i++) many.socket.send('x', { fin: false })
  await until(() => many.closed !== null, 'the end')
  t.match(many.closed, { code: 1008 })
  t.equal(h.watchers, 1)
  t.equal(few.closed, null)
})

void t.test('a frame that arrives in more than 128 parts ends its connection', async (t) => {
  const h = await startApp(t)
  const { socket } = open(t, h)
  const client = await new Promise<Socket>((resolve) => {
    socket.once('upgrade', (response: IncomingMessage) => resolve(response.socket))
  })
  await until(() => h.watchers === 1, 'it is open')
  client.write(Buffer.from([0x82, 0xfe, 0x10, 0x00, 0, 0, 0, 0]))
  for (let i = 0; h.watchers > 0; i++) {
    if (i > 1_000) throw new Error('it goes on')
    client.write('x')
    // Each message is read before the next one is sent.
    await pause(1)
  }
})

void t.test('more than 256 frames in one read end the connection', async (t) => {
  const h = await startApp(t)
  const messages = (count: number): Buffer => Buffer.from('81810000000078'.repeat(count), 'hex')
  const [few, many] = [open(t, h), open(t, h)]
  const [fewSocket, manySocket] = await Promise.all(
    [few, many].map(
      ({ socket }) =>
        new Promise<Socket>((resolve) => socket.once('upgrade', ({ socket: raw }: IncomingMessage) => resolve(raw))),
    ),
  )
  await until(() => h.watchers === 2, 'both are open')
  // The client's pongs count too: one may arrive in the same read.
  fewSocket!.write(messages(250))
  manySocket!.write(messages(257))
  await until(() => many.closed !== null && h.watchers === 1, 'the end')
  t.match(many.closed, { code: 1008 })
  h.put('pods/default/a', pod('a'))
  await few.has(1)
  // As many right behind the request.
  const raw = connect(h.port, '127.0.0.1')
  t.teardown(() => raw.destroy())
  const upgrade = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${'A'.repeat(22)}==`
  const head = Buffer.from(`GET ${PODS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n\r\n`)
  raw.write(Buffer.concat([head, messages(257)]))
  let heard = Buffer.alloc(0)
  raw.on('data', (bytes) => (heard = Buffer.concat([heard, bytes])))
  await until(() => heard.includes(Buffer.from('880203f0', 'hex')), 'it is closed with 1008')
  await until(() => h.watchers === 1, 'it is forgotten')
})

void t.test('a stalled client delays no other, and gets every event when it reads again', async (t) => {
  const h = await startApp(t, { flags: ['--watch-cache-bytes', '256Mi'] })
  const [slow, fast] = [open(t, h), open(t, h)]
  await until(() => h.watchers === 2, 'both are open')
  slow.socket.pause()
  for (let i = 0; i < 200; i++) {
    h.put(`pods/default/p${i}`, pod(`p${i}`, { spec: { filler: 'x'.repeat(64 * 1024) } }))
    if (i % 10 === 9) await fast.has(i + 1)
  }
  t.ok(slow.messages.length < 200)
  slow.socket.resume()
  await slow.has(200)
  t.same(slow.briefs, fast.briefs)
})

void t.test('a watch on a WebSocket works over TLS too', async (t) => {
  const h = await startApp(t, {
    flags: secureFlags(),
    objects: { 'pods/default/a': pod('a') },
  })
  const url = `${h.secureUrl.replace('https', 'wss')}${PODS}?watch=1`
  const client = new Client(new WebSocket(url, { rejectUnauthorized: false }))
  t.teardown(() => client.socket.terminate())
  await client.has(1)
  const put = h.put('pods/default/b', pod('b'))
  await client.has(2)
  t.same(client.briefs, ['ADDED a@2', `ADDED b@${put}`])
})

void t.test('an upgrade request that is not a watch is answered like an ordinary request', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  for (const upgrade of ['websocket', 'h2c']) {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { connection: 'Upgrade', upgrade }
      request(`${h.url}${PODS}`, { headers, agent: false }, resolve).on('error', reject).end()
    })
    let body = ''
    for await (const part of response.setEncoding('utf8')) body += part as string
    t.match(JSON.parse(body), { kind: 'PodList', items: [{ metadata: { name: 'a' } }] }, upgrade)
  }
})

void t.test('a browser watches on a WebSocket', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const page = await openPage(t, `${h.url}/livez`)
  await page.evaluate((path) => {
    const context = globalThis as unknown as { seen: string[]; location: { host: string }; WebSocket: typeof WebSocket }
    context.seen = []
    const socket = new context.WebSocket(`ws://${context.location.host}${path}`)
    socket.onmessage = ({ data }) => {
      const { type, object } = JSON.parse(data as string) as { type: string; object: { metadata: { name: string } } }
      context.seen.push(`${type} ${object.metadata.name}`)
    }
  }, `${PODS}?watch=1`)
  await until(() => h.watchers === 1, 'it is open')
  h.put('pods/default/b', pod('b'))
  await page.waitForFunction(() => (globalThis as unknown as { seen: string[] }).seen.length === 2)
  t.same(await page.evaluate(() => (globalThis as unknown as { seen: string[] }).seen), ['ADDED a', 'ADDED b'])
})
