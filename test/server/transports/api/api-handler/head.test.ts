/**
 * HEAD is answered at once, without a body and without a watch, and leaves the connection clean for the next response.
 */
import { type ClientHttp2Session, connect as connectHttp2, type OutgoingHttpHeaders } from 'node:http2'
import { type Socket, connect } from 'node:net'
import t, { type Test } from 'tap'
import { createEmbeddedUpstream } from '../../../../support/faulty-store.js'
import { type AppHarness, startApp } from '../../../../support/app.js'
import { pod } from '../../../../support/pod.js'
import { until } from '../../../../support/until.js'
import { secureFlags } from '../../../../support/secure-flags.js'

const PODS = '/api/v1/pods'
const SSE = { accept: 'text/event-stream' }
const GZIP = { 'accept-encoding': 'gzip' }

interface Row {
  readonly promise: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly code: number
  readonly contentType: string
}

const rows: readonly Row[] = [
  { promise: 'a watch', path: `${PODS}?watch=1`, code: 200, contentType: 'application/json' },
  {
    promise: 'a watch with Accept-Encoding',
    path: `${PODS}?watch=1`,
    headers: GZIP,
    code: 200,
    contentType: 'application/json',
  },
  {
    promise: 'a watch with the initial state',
    path: `${PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`,
    code: 200,
    contentType: 'application/json',
  },
  {
    promise: 'a watch of a compacted revision',
    path: `${PODS}?watch=1&resourceVersion=1`,
    code: 200,
    contentType: 'application/json',
  },
  {
    promise: 'a watch as server-sent events',
    path: `${PODS}?watch=1`,
    headers: SSE,
    code: 200,
    contentType: 'text/event-stream; charset=utf-8',
  },
  {
    promise: 'a deprecated path',
    path: '/api/v1/watch/namespaces/default/pods',
    code: 200,
    contentType: 'application/json',
  },
  {
    promise: 'a deprecated path of one object',
    path: '/api/v1/watch/namespaces/default/pods/a',
    code: 200,
    contentType: 'application/json',
  },
  {
    promise: 'a rejected watch',
    path: `${PODS}?watch=1&timeoutSeconds=x`,
    code: 400,
    contentType: 'application/json',
  },
  {
    promise: 'a watch of an unknown resource',
    path: '/api/v1/nothings?watch=1',
    headers: SSE,
    code: 404,
    contentType: 'application/json',
  },
  { promise: 'a small list', path: '/api/v1/nodes', code: 200, contentType: 'application/json' },
  { promise: 'a large list', path: PODS, code: 200, contentType: 'application/json' },
  { promise: 'a large list, compressed', path: PODS, headers: GZIP, code: 200, contentType: 'application/json' },
  { promise: 'a list as server-sent events', path: PODS, headers: SSE, code: 406, contentType: 'application/json' },
  { promise: 'an object', path: '/api/v1/namespaces/default/pods/a', code: 200, contentType: 'application/json' },
  {
    promise: 'a missing object',
    path: '/api/v1/namespaces/default/pods/none',
    code: 404,
    contentType: 'application/json',
  },
  { promise: 'a document', path: '/apis', code: 200, contentType: 'application/json' },
]

/** Large enough for a list in several pieces. */
const objects = Object.fromEntries(
  ['a', 'b', 'c'].map((name) => [`pods/default/${name}`, pod(name, { status: { text: name.repeat(150_000) } })]),
)

class Connection {
  #heard = ''
  private constructor(private readonly socket: Socket) {
    socket.on('data', (bytes: Buffer) => (this.#heard += bytes.toString('latin1')))
  }

  static async open(t: Test, port: number): Promise<Connection> {
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    await new Promise((resolve) => socket.once('connect', resolve))
    return new Connection(socket)
  }

  ask(method: string, path: string, headers: Readonly<Record<string, string>> = {}): void {
    const lines = Object.entries({ host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  }

  /** Consumes the received bytes up to the empty line. */
  async head(): Promise<{ readonly code: number; readonly headers: ReadonlyMap<string, string> }> {
    await until(() => this.#heard.includes('\r\n\r\n'), 'an empty line')
    const end = this.#heard.indexOf('\r\n\r\n')
    const [status, ...lines] = this.#heard.slice(0, end).split('\r\n')
    this.#heard = this.#heard.slice(end + 4)
    const headers = new Map(lines.map((line) => [line.split(':')[0]!.toLowerCase(), line.replace(/^[^:]*: */, '')]))
    return { code: Number(/^HTTP\/1\.1 (\d+) /.exec(status!)?.[1]), headers }
  }

  async body(bytes: number): Promise<string> {
    await until(() => this.#heard.length >= bytes, 'a body')
    const body = this.#heard.slice(0, bytes)
    this.#heard = this.#heard.slice(bytes)
    return body
  }

  /** The received bytes that belong to no response. */
  get rest(): string {
    return this.#heard
  }

  get isOpen(): boolean {
    return !this.socket.destroyed && !this.socket.readableEnded
  }
}

async function answersCleanly(t: Test, connection: Connection, promise: string): Promise<void> {
  const { code, headers } = await connection.head()
  t.equal(code, 200, `${promise}: the next answer begins where it should`)
  const body = await connection.body(Number(headers.get('content-length')))
  t.type((JSON.parse(body) as { gitVersion: unknown }).gitVersion, 'string', `${promise}: and is whole`)
}

void t.test('over HTTP/1.1, HEAD requests are answered one after the other', async (t) => {
  const h = await startApp(t, { objects })
  const connection = await Connection.open(t, h.port)
  for (const [i, { promise, path, headers, code, contentType }] of rows.entries()) {
    connection.ask('HEAD', path, headers)
    const answer = await connection.head()
    t.equal(answer.code, code, promise)
    t.equal(answer.headers.get('content-type'), contentType, promise)
    t.notOk(answer.headers.has('transfer-encoding'), `${promise}: no body is promised`)
    t.equal(h.watchers, 0, `${promise}: nothing is watched`)
    h.put(`pods/default/new-${i}`, pod(`new-${i}`))
    connection.ask('GET', '/version')
    await answersCleanly(t, connection, promise)
  }
  t.equal(connection.rest, '')
  t.ok(connection.isOpen)
})

void t.test('over HTTP/1.1, pipelined HEAD requests are answered in order', async (t) => {
  const h = await startApp(t, { objects })
  const connection = await Connection.open(t, h.port)
  for (const { path, headers } of rows) {
    connection.ask('HEAD', path, headers)
    connection.ask('GET', '/version')
  }
  for (const { promise, code } of rows) {
    t.equal((await connection.head()).code, code, promise)
    await answersCleanly(t, connection, promise)
  }
  t.equal(h.watchers, 0)
  t.equal(connection.rest, '')
})

void t.test('HEAD is rejected where a GET would get the error in its stream', async (t) => {
  const upstream = createEmbeddedUpstream()
  upstream.setUnavailable(true)
  const h = await startApp(t, { upstream, ready: false })
  const connection = await Connection.open(t, h.port)
  connection.ask('HEAD', `${PODS}?watch=1`, SSE)
  t.equal((await connection.head()).code, 429)
  connection.ask('GET', '/version')
  await answersCleanly(t, connection, 'not listed yet')
  t.equal(connection.rest, '')
})

void t.test('HEAD does not open a WebSocket', async (t) => {
  const h = await startApp(t, { objects })
  const connection = await Connection.open(t, h.port)
  connection.ask('HEAD', `${PODS}?watch=1`, {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  })
  t.equal((await connection.head()).code, 400)
  await until(() => !connection.isOpen, 'the end of the connection')
  t.equal(connection.rest, '', 'and there is no body')
  t.equal(h.watchers, 0)
})

for (const [name, url] of [
  ['over HTTP/2 and TLS', (h: AppHarness) => h.secureUrl],
  ['over HTTP/2 on the plain port', (h: AppHarness) => h.url],
] as const) {
  void t.test(name, async (t) => {
    const h = await startApp(t, { flags: secureFlags(), objects })
    const session = connectHttp2(url(h), { rejectUnauthorized: false })
    session.on('error', () => {})
    t.teardown(() => session.destroy())
    for (const [i, { promise, path, headers, code, contentType }] of rows.entries()) {
      const answer = await askHttp2(session, { ':method': 'HEAD', ':path': path, ...headers })
      t.match(answer, { code, contentType, body: '' }, promise)
      t.equal(h.watchers, 0, `${promise}: nothing is watched`)
      h.put(`pods/default/new-${i}`, pod(`new-${i}`))
      const next = await askHttp2(session, { ':path': '/version' })
      t.equal(next.code, 200)
      t.type((JSON.parse(next.body) as { gitVersion: unknown }).gitVersion, 'string', `${promise}: the next is whole`)
    }
  })
}

async function askHttp2(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
): Promise<{ readonly code: unknown; readonly contentType: unknown; readonly body: string }> {
  const stream = session.request(headers)
  const answer = new Promise<{ code: unknown; contentType: unknown }>((resolve, reject) => {
    stream.once('error', reject)
    stream.once('response', (got) => resolve({ code: got[':status'], contentType: got['content-type'] }))
  })
  let body = ''
  for await (const chunk of stream) body += String(chunk)
  return { ...(await answer), body }
}
