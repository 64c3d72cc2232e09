/** Tests JSON lines in HTTP/1.1 chunks that bypass Node's response, and the cases in which they must not. */
import { Agent, type IncomingMessage, get } from 'node:http'
import { type Socket, connect } from 'node:net'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { EventReader, brief } from '../../../support/event-reader.js'

const PODS = '/api/v1/pods'

function request(url: string, options: { agent?: Agent; headers?: Record<string, string> } = {}) {
  return new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { agent: options.agent ?? false, headers: options.headers ?? {} }, resolve).on('error', reject)
  })
}

async function watch(
  h: AppHarness,
  query: string,
  agent?: Agent,
): Promise<{ events: EventReader; response: IncomingMessage }> {
  const response = await request(`${h.url}${PODS}?watch=1${query}`, agent === undefined ? {} : { agent })
  return { events: new EventReader(response), response }
}

/** A raw-socket client that keeps what it receives. */
async function rawSocket(t: Test, port: number): Promise<{ socket: Socket; text: () => string; ended: Promise<void> }> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let heard = ''
  socket.on('data', (bytes: Buffer) => (heard += bytes.toString('latin1')))
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await new Promise((resolve) => socket.once('connect', resolve))
  return { socket, text: () => heard, ended }
}

void t.test('a watch begins with the state, continues with events, and has the API server’s headers', async (t) => {
  const h = await startApp(t, {
    objects: { 'pods/default/a': pod('a'), 'pods/other/b': pod('b', { namespace: 'other' }) },
  })
  const { events, response } = await watch(h, '')
  t.equal(response.statusCode, 200)
  t.match(response.headers, {
    'content-type': 'application/json',
    'cache-control': 'no-cache, private',
    'transfer-encoding': 'chunked',
  })
  await events.first(2)
  const put = h.put('pods/default/a', pod('a', { status: { phase: 'Failed' } }))
  const removed = h.delete('pods/other/b')
  t.same((await events.first(4)).map(brief), ['ADDED a@2', 'ADDED b@3', `MODIFIED a@${put}`, `DELETED b@${removed}`])
  response.destroy()
})

void t.test('selectors and namespaces limit the events of a watch', async (t) => {
  const h = await startApp(t)
  const { events, response } = await watch(
    h,
    '&fieldSelector=spec.nodeName%3Dn1&labelSelector=app%3Dweb&resourceVersion=1',
  )
  const there = (name: string, node: string, app: string) =>
    h.put(`pods/default/${name}`, pod(name, { labels: { app }, spec: { nodeName: node } }))
  there('a', 'n2', 'web')
  there('b', 'n1', 'db')
  const first = there('c', 'n1', 'web')
  const out = there('c', 'n2', 'web')
  const back = there('c', 'n1', 'web')
  t.same((await events.first(3)).map(brief), [`ADDED c@${first}`, `DELETED c@${out}`, `ADDED c@${back}`])
  response.destroy()
})

void t.test('an error in the stream is an ERROR event and a clean end', async (t) => {
  const h = await startApp(t, {
    flags: ['--backfill-revisions', '0'],
    objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') },
  })
  const { events } = await watch(h, '&resourceVersion=1')
  const all = await events.all()
  t.match(all, [{ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', metadata: {} } }])
  t.equal(events.ending, 'clean')
})

void t.test('a watch with a timeout ends cleanly and its connection serves the next request', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const { events, response } = await watch(h, '&timeoutSeconds=1&allowWatchBookmarks=true', agent)
  const port = response.socket.localPort
  const all = await events.all()
  t.equal(events.ending, 'clean')
  t.same(all.map(brief).slice(0, 1), ['ADDED a@2'])
  t.equal(all[1]?.object.metadata.annotations?.['k8s.io/initial-events-end'], 'true', 'the end of the state is marked')
  const next = await request(`${h.url}${PODS}`, { agent })
  t.equal(next.socket.localPort, port, 'on the same connection')
  let body = ''
  for await (const text of next.setEncoding('utf8')) body += text as string
  t.match(JSON.parse(body), { kind: 'PodList', items: [{ metadata: { name: 'a' } }] })
  const again = await watch(h, '&resourceVersion=2', agent)
  t.equal(again.response.socket.localPort, port, 'and a second watch too')
  const put = h.put('pods/default/b', pod('b'))
  t.same((await again.events.first(1)).map(brief), [`ADDED b@${put}`])
  again.response.destroy()
})

void t.test('an answer in progress is not disturbed by a watch pipelined behind it', async (t) => {
  const objects = Object.fromEntries(
    Array.from({ length: 400 }, (_, i) => [
      `pods/default/p${i}`,
      pod(`p${i}`, { spec: { filler: 'x'.repeat(2_000) } }),
    ]),
  )
  const h = await startApp(t, { objects })
  const { socket, text } = await rawSocket(t, h.port)
  socket.pause()
  const head = 'HTTP/1.1\r\nHost: localhost\r\n\r\n'
  socket.write(`GET ${PODS} ${head}GET ${PODS}?watch=1&timeoutSeconds=1&resourceVersion=401 ${head}GET /livez ${head}`)
  await until(() => h.watchers === 1, 'the watch is open behind the list')
  const put = h.put('pods/default/late', pod('late'))
  socket.resume()
  await until(() => text().endsWith('\r\n\r\nok'), 'all three answers', 15_000)
  const answers = text().split(/(?=HTTP\/1\.1 200)/)
  t.equal(answers.length, 3)
  const list = dechunk(answers[0]!)
  t.equal((JSON.parse(list) as { items: unknown[] }).items.length, 400)
  t.equal(dechunk(answers[1]!).split('\n').filter(Boolean).length, 1)
  t.match(dechunk(answers[1]!), `"resourceVersion":"${put}"`)
})

void t.test('an HTTP/1.0 client gets lines without chunks, and the connection ends with the watch', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const { socket, text, ended } = await rawSocket(t, h.port)
  socket.write(`GET ${PODS}?watch=1&timeoutSeconds=1 HTTP/1.0\r\n\r\n`)
  await ended
  const [head = '', body = ''] = text().split('\r\n\r\n')
  t.notMatch(head.toLowerCase(), 'transfer-encoding')
  t.match(JSON.parse(body.trim()), { type: 'ADDED', object: { metadata: { name: 'a' } } })
})

void t.test('a client that goes away is forgotten', async (t) => {
  const h = await startApp(t)
  const watches = await Promise.all(Array.from({ length: 20 }, () => watch(h, '&resourceVersion=1')))
  t.equal(h.watchers, 20)
  for (const { response } of watches) response.destroy()
  await until(() => h.watchers === 0, 'no watcher is left')
  h.put('pods/default/a', pod('a'))
  const { events, response } = await watch(h, '&resourceVersion=1')
  t.same((await events.first(1)).map(brief), ['ADDED a@2'])
  response.destroy()
})

void t.test('a stalled reader delays no other, and gets every event when it reads again', async (t) => {
  const h = await startApp(t, { flags: ['--watch-cache-bytes', '256Mi'] })
  const slow = await watch(h, '&resourceVersion=1')
  slow.response.pause()
  const fast = await watch(h, '&resourceVersion=1')
  const filler = 'x'.repeat(64 * 1024)
  for (let i = 0; i < 300; i++) {
    h.put(`pods/default/p${i}`, pod(`p${i}`, { spec: { filler } }))
    if (i % 10 === 9) await fast.events.first(i + 1)
  }
  t.ok(slow.events.events.length < 300, 'the slow one has not read all')
  slow.response.resume()
  const seen = await slow.events.first(300)
  t.same(seen.map(brief), (await fast.events.first(300)).map(brief))
  slow.response.destroy()
  fast.response.destroy()
})

function dechunk(answer: string): string {
  const end = answer.indexOf('\r\n\r\n')
  if (!/transfer-encoding: chunked/i.test(answer.slice(0, end))) return answer.slice(end + 4)
  let rest = answer.slice(end + 4)
  let body = ''
  for (;;) {
    const line = rest.indexOf('\r\n')
    const length = Number.parseInt(rest.slice(0, line), 16)
    if (!(length > 0)) return body
    body += rest.slice(line + 2, line + 2 + length)
    rest = rest.slice(line + 2 + length + 2)
  }
}
