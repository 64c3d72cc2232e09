/**
 * Tests the host names by which clients may reach the server, over HTTP/1.1, HTTP/2, WebSocket and server-sent events
 * (issue 18).
 */
import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:http2'
import { type Socket, connect as connectSocket } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { whyHostRefused } from '../../../../src/server/transports/server/allowed-hosts.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'

const PATH = '/api/v1/pods'

void t.test('an address and a loopback name are always allowed, any other name only if listed', (t) => {
  const rows: readonly (readonly [host: string, allowed: readonly string[] | null, isAllowed: boolean])[] = [
    ['127.0.0.1:8001', [], true],
    ['10.0.0.7', [], true],
    ['[::1]:8001', [], true],
    ['[fd00::7]', [], true],
    ['localhost', [], true],
    ['LocalHost.:8001', [], true],
    ['app.localhost:80', [], true],
    ['notlocalhost', [], false],
    ['localhost.evil.example', [], false],
    ['127.0.0.1.evil.example', [], false],
    ['evil.example:8001', [], false],
    ['evil.example', ['api.example'], false],
    ['api.example:8001', ['api.example'], true],
    ['API.Example.', ['api.example'], true],
    ['x.api.example', ['api.example'], false],
    ['x.api.example', ['.api.example'], true],
    ['api.example', ['.api.example'], false],
    ['evilapi.example', ['.api.example'], false],
    ['evil.example', ['*'], true],
    ['evil.example', null, true],
    ['user@127.0.0.1', [], false],
    ['', [], true],
  ]
  for (const [host, allowed, isAllowed] of rows) {
    const refusal = whyHostRefused({ headers: {}, rawHeaders: ['Host', host] }, allowed)
    t.equal(refusal === null, isAllowed, `${host} with ${JSON.stringify(allowed)}`)
    if (refusal !== null) t.equal(refusal.code, 403)
  }
  t.end()
})

async function start(t: Test, flags: readonly string[] = []): Promise<AppHarness> {
  return await startApp(t, { flags, objects: { 'pods/default/a': pod('a') } })
}

async function ask(h: AppHarness, path: string, host: string, method = 'GET'): Promise<{ code: number; body: string }> {
  const asked = request({ port: h.port, host: '127.0.0.1', path, method, headers: { host } }).end()
  const [answer] = (await once(asked, 'response')) as [import('node:http').IncomingMessage]
  let body = ''
  for await (const chunk of answer.setEncoding('utf8')) body += chunk as string
  return { code: answer.statusCode ?? 0, body }
}

void t.test('without an authenticator a page cannot reach the server under its own name', async (t) => {
  const h = await start(t)
  for (const [path, method] of [
    [PATH, 'GET'],
    [`${PATH}?watch=1&timeoutSeconds=1`, 'GET'],
    ['/metrics', 'GET'],
    ['/ui/', 'GET'],
    ['/ui/events', 'GET'],
    ['/nowhere', 'GET'],
    ['/consistency-check', 'POST'],
  ] as const) {
    const refused = await ask(h, path, 'evil.example', method)
    t.equal(refused.code, 403, path)
    t.match(JSON.parse(refused.body), {
      kind: 'Status',
      reason: 'Forbidden',
      message: /evil\.example.*--allowed-hosts/,
    })
  }
  t.equal((await ask(h, PATH, 'localhost:8001')).code, 200)
  t.equal((await ask(h, '/readyz?verbose', 'evil.example')).code, 200, 'health is for probes, whatever they call it')
  t.equal((await ask(h, '/livez/ping', 'evil.example')).code, 200)
})

void t.test('the :authority of HTTP/2 and the Host of a WebSocket and an EventSource are checked alike', async (t) => {
  const h = await start(t, ['--allowed-hosts', 'api.example'])
  const client = connect(h.url)
  t.teardown(() => client.destroy())
  const codeOf = async (headers: Record<string, string>): Promise<unknown> => {
    const stream = client.request({ ':path': PATH, ...headers })
    const [answer] = (await once(stream, 'response')) as [Record<string, unknown>]
    stream.resume()
    return answer[':status']
  }
  t.equal(await codeOf({ ':authority': 'evil.example' }), 403)
  t.equal(await codeOf({ ':authority': 'api.example' }), 200)
  t.equal(await codeOf({ ':authority': 'api.example', host: 'evil.example' }), 400, 'two names')

  const webSocket = new WebSocket(`ws://127.0.0.1:${h.port}${PATH}?watch=1`, { headers: { host: 'evil.example' } })
  const [error] = (await once(webSocket, 'error')) as [Error]
  t.match(error.message, /403/)
  const events = request({
    port: h.port,
    host: '127.0.0.1',
    path: `${PATH}?watch=1`,
    headers: { host: 'evil.example', accept: 'text/event-stream' },
  }).end()
  const [answer] = (await once(events, 'response')) as [import('node:http').IncomingMessage]
  t.equal(answer.statusCode, 403)
  answer.resume()
})

void t.test('two Host headers are answered with 400, with an authenticator too', async (t) => {
  const h = await start(t, ['--allowed-hosts', '*'])
  const socket: Socket = connectSocket(h.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(`GET ${PATH} HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk as string
  t.match(text, /^HTTP\/1\.1 400 /)
  t.match(text, /more than one host/)
})

async function raw(h: AppHarness, head: string): Promise<string> {
  const socket: Socket = connectSocket(h.port, '127.0.0.1')
  socket.write(head)
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk as string
  return text
}

void t.test('an absolute request target, as HTTP proxies pass it on, is served, and its host is checked', async (t) => {
  const h = await start(t, ['--allowed-hosts', 'api.example', '--enable-writes'])
  const ask = async (
    target: string,
    host: string | null,
    more = '',
    method = 'GET',
    version = '1.1',
  ): Promise<number> => {
    const line = host === null ? '' : `Host: ${host}\r\n`
    const text = await raw(h, `${method} ${target} HTTP/${version}\r\n${line}${more}Connection: close\r\n\r\n`)
    return Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])
  }
  for (const [target, host, expected] of [
    [`http://api.example${PATH}`, 'api.example', 200],
    [`http://API.example:80${PATH}?limit=1`, 'api.example', 200],
    [`https://api.example${PATH}`, 'api.example:443', 200],
    [`HTTP://127.0.0.1:${h.port}/metrics`, `127.0.0.1:${h.port}`, 200],
    ['http://api.example?a=b', 'api.example', 200],
    [`http://evil.example${PATH}`, 'evil.example', 403],
    [`http://evil.example${PATH}`, 'api.example', 400],
    [`http://api.example:81${PATH}`, 'api.example', 400],
    [`http://user@api.example${PATH}`, 'api.example', 400],
    [`http://user@api.example${PATH}`, 'user@api.example', 400],
    [`http://${PATH}`, 'api.example', 400],
    [`ftp://api.example${PATH}`, 'api.example', 400],
  ] as const) {
    t.equal(await ask(target, host), expected, `${target} for ${host}`)
  }
  t.equal(await ask(`http://api.example${PATH}`, null, '', 'GET', '1.0'), 200, 'the target names the only host')
  t.equal(await ask(`http://evil.example${PATH}`, null, '', 'GET', '1.0'), 403)
  const write = async (origin: string): Promise<number> =>
    await ask('http://api.example/consistency-check', 'api.example', `Origin: ${origin}\r\n`, 'POST')
  t.equal(await write('http://api.example'), 200, 'an own page')
  t.equal(await write('http://evil.example'), 403)
})
