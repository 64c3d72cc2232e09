/** Tests `--passthrough`: the API server answers the requests that are not answered here. */
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { SkippingClock } from '../../support/skipping-clock.js'
import { until } from '../../support/until.js'
import { type ApiServerStandIn, startApiServer } from '../../support/api-server-stand-in.js'
import { startServer } from '../../support/server-process.js'
import { startOneAnswerServer } from '../../support/one-answer-server.js'
import { createAuthority } from '../../support/certificates.js'

interface Scene {
  readonly h: AppHarness
  readonly behind: ApiServerStandIn
}

async function scene(t: Test, options: AppHarnessOptions = {}): Promise<Scene> {
  const behind = await startApiServer(t)
  const h = await startApp(t, {
    objects: { 'pods/a/x': pod('x', { namespace: 'a' }) },
    ...options,
    flags: ['--passthrough', behind.url, ...(options.flags ?? [])],
  })
  return { h, behind }
}

void t.test('a forwarded response varies by origin, so that no cache gives it to a page of another one', async (t) => {
  const origin = 'https://app.example.org'
  const { h } = await scene(t, { flags: ['--cors-allowed-origins', origin] })
  for (const send of [overHttp1, overHttp2]) {
    for (const from of [{ origin }, {}]) {
      const { headers } = await send(h, 'GET', '/api/v1/componentstatuses', from)
      t.match(String(headers['vary']), /Origin/i)
      t.equal(headers['access-control-allow-origin'], 'origin' in from ? origin : undefined)
    }
  }
})

interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
  readonly trailers: Readonly<Record<string, unknown>>
}

type Send = (
  h: AppHarness,
  method: string,
  path: string,
  headers?: Record<string, string>,
  body?: string,
) => Promise<Answered>

const overHttp1: Send = async (h, method, path, headers = {}, body = '') => {
  const request = http.request(`${h.url}${path}`, { method, headers, agent: false })
  request.end(body === '' ? undefined : body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return { status: response.statusCode ?? 0, headers: response.headers, body: text, trailers: response.trailers }
}

const overHttp2: Send = async (h, method, path, headers = {}, body = '') => {
  const session = http2.connect(h.url)
  const stream = session.request({ ':method': method, ':path': path, ...headers })
  stream.end(body === '' ? undefined : body)
  let answer: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader = {}
  let trailers = {}
  stream.on('response', (received) => (answer = received))
  stream.on('trailers', (received) => (trailers = received))
  let text = ''
  for await (const chunk of stream) text += String(chunk)
  session.close()
  return { status: answer[':status'] ?? 0, headers: answer, body: text, trailers }
}

/** Names that HTTP/2 accepts only once, forbids, or treats in its own way. */
const ODD_TRAILERS = [
  'Content-Type',
  'Content-Location',
  'Content-Range',
  'ETag',
  'Date',
  'Location',
  'Age',
  'Authorization',
  'Expires',
  'Host',
  'Last-Modified',
  'Retry-After',
  'Access-Control-Allow-Credentials',
  'Upgrade-Insecure-Requests',
  'DNT',
  'TK',
  'Set-Cookie',
  'TE',
  'Keep-Alive',
  'Proxy-Connection',
  'HTTP2-Settings',
  'Upgrade',
]

for (const [name, send] of [
  ['HTTP/1.1', overHttp1],
  ['HTTP/2', overHttp2],
] as const) {
  void t.test(`over ${name}, cached reads are answered here and everything else by the API server`, async (t) => {
    const { h, behind } = await scene(t)
    for (const path of [
      '/api/v1/pods',
      '/api/v1/namespaces/a/pods/x',
      '/api/v1/pods?watch=1&timeoutSeconds=1',
      '/livez',
      '/readyz',
    ]) {
      t.equal((await send(h, 'GET', path)).status, 200, path)
    }
    t.same(behind.seen, [], 'none of these')
    const bearer = { authorization: 'Bearer sesame' }
    const passed: readonly (readonly [method: string, path: string, body?: string])[] = [
      ['POST', '/api/v1/namespaces/a/pods?dryRun=All', '{"kind":"Pod"}'],
      ['PUT', '/api/v1/namespaces/a/pods/x', '{"kind":"Pod"}'],
      ['PATCH', '/api/v1/namespaces/a/pods/x', '{}'],
      ['DELETE', '/api/v1/namespaces/a/pods/x'],
      ['DELETE', '/api/v1/namespaces/a/pods'],
      ['GET', '/api/v1/namespaces/a/pods/x/log?follow=true'],
      ['GET', '/api/v1/namespaces/a/pods/x/status'],
      ['GET', '/api/v1/secrets'],
      ['GET', '/apis/metrics.k8s.io/v1beta1/pods'],
      ['GET', '/apis/example.com/v1/widgets?watch=1'],
      ['GET', '/apis'],
      ['GET', '/openapi/v3'],
      ['GET', '/version'],
      ['GET', '/.well-known/openid-configuration'],
    ]
    for (const [method, path, body = ''] of passed) {
      const answer = await send(h, method, path, bearer, body)
      t.same([answer.status, answer.body], [200, '{"kind":"Stand"}'], `${method} ${path}`)
      t.match(behind.last(), { method, url: path, body, headers: { authorization: 'Bearer sesame' } })
      const isStream = path.includes('?watch') || path.includes('?follow')
      t.equal(answer.headers['incremental'], isStream ? '?1' : undefined, `${path}: proxies pass a stream on at once`)
    }
    t.equal(behind.seen.length, passed.length, 'each once')
  })

  void t.test(`over ${name}, trailers of every name, once and repeated, end no process`, async (t) => {
    const { h, behind } = await scene(t)
    const names = [...ODD_TRAILERS, 'X-Sum']
    for (const trailer of names) {
      for (const times of [1, 2]) {
        behind.answer = (_request, response) => {
          response.writeHead(200, { trailer })
          response.write('{"a":')
          response.addTrailers(Array.from({ length: times }, () => [trailer, 'trailers'] as const))
          response.end('1}')
        }
        const { status, body, trailers } = await send(h, 'GET', '/api/v1/secrets')
        t.same([status, body], [200, '{"a":1}'], `${trailer}, ${times} times`)
        if (trailer === 'X-Sum') t.equal(trailers['x-sum'], Array<string>(times).fill('trailers').join(', '))
      }
    }
  })

  void t.test(
    `over ${name}, headers, trailers and bodies are forwarded; hop-by-hop and forged headers are not`,
    async (t) => {
      const { h, behind } = await scene(t)
      behind.answer = (_request, response) => {
        response.writeHead(201, [
          ['Warning', '299 - "a"'],
          ['Warning', `299 - "${Buffer.from('früher').toString('latin1')}"`],
          ['Connection', 'keep-alive, X-Private'],
          ['X-Private', 'mine'],
          ['Trailer', 'X-Sum'],
          ['Content-Type', 'application/json'],
        ] as unknown as string[])
        response.write('{"half":')
        response.addTrailers({ 'X-Sum': '42' })
        response.end('1}')
      }
      const answer = await send(
        h,
        'POST',
        '/api/v1/namespaces/a/pods',
        {
          'x-remote-user': 'system:admin',
          'x-remote-group': 'system:masters',
          'x-remote-extra-scopes': 'all',
          'x-remote-anything': 'else',
          x_remote_user: 'system:admin',
          'x-user': 'system:admin',
          'x-group': 'system:masters',
          'impersonate-user': 'jane',
          'x-forwarded-for': '10.1.2.3',
          'content-type': 'application/json',
        },
        '{"a":1}',
      )
      t.match(answer, { status: 201, body: '{"half":1}', trailers: { 'x-sum': '42' } })
      const warning = Buffer.from(String(answer.headers['warning']), 'latin1').toString()
      t.equal(warning, '299 - "a", 299 - "früher"', 'byte by byte')
      t.equal(answer.headers['x-private'], undefined)
      const { headers, rawHeaders, body } = behind.last()
      t.equal(body, '{"a":1}')
      t.notMatch(rawHeaders.join('\n').toLowerCase(), /x[-_]remote[-_]|x-user|x-group/)
      t.equal(headers['impersonate-user'], 'jane', 'whether it may is judged there')
      t.match(headers['x-forwarded-for'], /^10\.1\.2\.3, 127\.0\.0\.1$/)
      t.equal(headers.host, new URL(behind.url).host)
    },
  )
}

void t.test(
  'a read is resent when the API server closes the connection just as it is reused, a write is not',
  async (t) => {
    const behind = await startOneAnswerServer(t)
    const h = await startApp(t, { flags: ['--passthrough', behind.url] })
    const path = '/apis/other.example/v1/things'
    behind.asked.length = 0
    for (let i = 0; i < 3; i++) t.match(await overHttp1(h, 'GET', path), { status: 200, body: '{"kind":"Answer"}' })
    t.match(await overHttp1(h, 'POST', path, {}, '{}'), { status: 502 })
    const asked = behind.asked.join()
    t.match(asked, /^(GET,)?GET,GET,GET,GET,GET,POST$/, 'it may have been done')
  },
)

for (const [name, send] of [
  ['HTTP/1.1', overHttp1],
  ['HTTP/2', overHttp2],
] as const) {
  void t.test(`over ${name}, an answer that breaks off breaks off here too, and does not look complete`, async (t) => {
    const { h, behind } = await scene(t)
    behind.answer = (_request, response) => {
      response.write('{"half":')
      setImmediate(() => response.destroy())
    }
    await t.rejects(send(h, 'GET', '/api/v1/secrets'))
    await until(() => behind.connections === 0, 'nothing is left open')
  })
}

void t.test('requests on one connection leave no listeners behind', async (t) => {
  const behind = await startApiServer(t)
  const server = await startServer(t, { flags: ['--passthrough', behind.url, '--authorization-mode=AlwaysAllow'] })
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  for (let i = 0; i < 40; i++) {
    const body = i % 2 === 0 ? '' : '{"kind":"Pod"}'
    const method = body === '' ? 'GET' : 'POST'
    const request = http.request(`${server.url}/api/v1/namespaces/a/secrets`, { method, agent })
    request.end(body)
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    response.resume()
    await once(response, 'end')
    t.equal(request.reusedSocket, i > 0)
  }
  t.equal(behind.connections, 1, 'nor on the one to the API server')
  await server.kill('SIGTERM')
  t.notMatch(server.log(), /warning/i)
})

const SMUGGLED = 'GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: system:admin\r\n\r\n'

void t.test('the end of a body is found, whatever the method and the framing', async (t) => {
  const { h, behind } = await scene(t)
  const socket = net.connect(h.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const chunk = `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n0\r\n\r\n`
  socket.write(`GET /apis/other/v1/things HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`)
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString()))
  await until(() => text.includes('Stand'), 'an answer')
  t.same(
    behind.seen.map(({ url, body }) => [url, body]),
    [['/apis/other/v1/things', SMUGGLED]],
  )
  const upgrade = await overHttp1(
    h,
    'POST',
    '/api/v1/namespaces/a/pods/x/exec',
    { connection: 'upgrade', upgrade: 'SPDY/3.1', 'content-length': '5' },
    'hello',
  )
  t.equal(upgrade.status, 400)
})

for (const { dropping, config, headers } of [
  { dropping: 'a caller that lists its length in Connection', config: {}, headers: 'Connection: content-length\r\n' },
  {
    dropping: 'a caller that lists its length twice, in odd spellings',
    config: {},
    headers: 'Connection: keep-alive , CONTENT-LENGTH\r\nConnection: host,transfer-encoding,te\r\n',
  },
  { dropping: 'passthroughStripHeaders', config: { passthroughStripHeaders: ['Content-*'] }, headers: '' },
]) {
  void t.test(`the length of a body reaches the API server in spite of ${dropping}`, async (t) => {
    const { h, behind } = await scene(t, { config })
    for (const method of ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'TRACE', 'SEARCH']) {
      behind.seen.length = 0
      const socket = net.connect(h.port, '127.0.0.1')
      let text = ''
      socket.on('data', (bytes: Buffer) => (text += bytes.toString()))
      const length = `Content-Length: ${SMUGGLED.length}\r\n`
      socket.write(`${method} /apis/other/v1/things HTTP/1.1\r\nHost: localhost\r\n${headers}${length}\r\n${SMUGGLED}`)
      await until(() => text.includes('\r\n\r\n'), `${method}: an answer`)
      socket.destroy()
      // The next request would come behind a smuggled one, on the same connection.
      await overHttp1(h, 'GET', '/apis/last/v1/things')
      const seen = behind.seen.map(({ url, body }) => [url, body])
      t.same(
        seen,
        [...(text.includes('HTTP/1.1 200') ? [['/apis/other/v1/things', SMUGGLED]] : []), ['/apis/last/v1/things', '']],
        method,
      )
      if (method === 'DELETE') t.match(text, 'HTTP/1.1 200')
    }
  })
}

void t.test('a connection that is owed the rest of a body carries no other request', async (t) => {
  const open = new Set<net.Socket>()
  const behind = net.createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
    // It answers before the body has arrived, and expects the rest on the same connection.
    socket.on('data', (bytes: Buffer) => {
      if (bytes.toString().startsWith('PUT')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
    })
  })
  behind.listen(0, '127.0.0.1')
  await once(behind, 'listening')
  t.teardown(() => void behind.close())
  const { port } = behind.address() as net.AddressInfo
  const h = await startApp(t, { flags: ['--passthrough', `http://127.0.0.1:${port}`] })
  const session = http2.connect(h.url)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':method': 'PUT', ':path': '/apis/other/v1/things/x', 'content-length': '100' })
  stream.on('error', () => {})
  stream.write('{"half":')
  let text = ''
  for await (const chunk of stream) text += String(chunk)
  t.equal(text, '{}')
  stream.close(http2.constants.NGHTTP2_NO_ERROR)
  await until(() => open.size === 0, 'the connection is closed')
})

void t.test('an upgrade to HTTP becomes no tunnel: its requests could name anybody', async (t) => {
  const { h, behind } = await scene(t)
  for (const upgrade of ['h2c', 'H2C', 'HTTP/2.0', 'TLS/1.2, HTTP/1.1']) {
    const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade, 'http2-settings': 'AAMAAABkAAQAAP__' }
    t.match(await overHttp1(h, 'GET', '/apis/other/v1/things', headers), { status: 200, body: '{"kind":"Stand"}' })
    t.notMatch(behind.last().rawHeaders.join().toLowerCase(), /upgrade|settings|h2c|tls/, upgrade)
  }
  await overHttp1(h, 'GET', '/apis/other/v1/things', { connection: 'Upgrade', upgrade: 'h2c, websocket' })
  t.ok(
    behind.seen.some(({ headers }) => headers.upgrade === 'websocket'),
    'others may',
  )
})

/** The proxy certificate, and caller certificates of the same authority. */
async function secured(t: Test, hasProxyCertificate: boolean) {
  const authority = createAuthority(t)
  const server = authority.server()
  const files = { cert: readFileSync(server.cert), key: readFileSync(server.key), ca: readFileSync(authority.ca) }
  const behind = await startApiServer(t, { ...files, requestCert: true, rejectUnauthorized: false })
  const proxy = authority.client('front-proxy')
  const directory = mkdtempSync(join(tmpdir(), 'distributary-passthrough-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, 'sesame,ali,1\n')
  const flags = ['--secure-port', '0', '--tls-cert-file', server.cert, '--tls-private-key-file', server.key]
  flags.push('--client-ca-file', authority.ca, '--token-auth-file', tokens, '--anonymous-auth')
  flags.push('--passthrough', behind.url, '--passthrough-cafile', authority.ca)
  if (hasProxyCertificate) flags.push('--proxy-client-cert-file', proxy.cert, '--proxy-client-key-file', proxy.key)
  const h = await startApp(t, { flags })
  const ask = async (
    headers: Record<string, string>,
    who: readonly [string, readonly string[]] | null,
  ): Promise<number> => {
    const pair = who === null ? null : authority.client(...who)
    const request = https.request(`${h.secureUrl}/apis/other/v1/things`, {
      headers,
      agent: false,
      ca: files.ca,
      ...(pair === null ? {} : { cert: readFileSync(pair.cert), key: readFileSync(pair.key) }),
    })
    request.end()
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    response.resume()
    await once(response, 'end')
    return response.statusCode ?? 0
  }
  return { behind, ask, authority, proxy }
}

void t.test(
  "a caller's bearer token is forwarded; a certificate becomes a name, sent with the proxy certificate",
  async (t) => {
    const { behind, ask } = await secured(t, true)
    const forged = { 'x-remote-user': 'system:admin', 'x-remote-group': 'system:masters' }
    t.equal(await ask(forged, ['jane', ['dev', 'ops']]), 200)
    const named = behind.last()
    t.equal(named.certificate, 'front-proxy')
    const groups = named.rawHeaders.flatMap((name, i) => (name === 'X-Remote-Group' ? [named.rawHeaders[i + 1]] : []))
    t.equal(named.headers['x-remote-user'], 'jane')
    t.same(new Set(groups), new Set(['dev', 'ops', 'system:authenticated']))

    t.equal(await ask({ ...forged, authorization: 'Bearer sesame' }, null), 200)
    t.match(behind.last(), { certificate: null, headers: { authorization: 'Bearer sesame' } })
    t.notMatch(behind.last().rawHeaders.join().toLowerCase(), 'x-remote')

    t.equal(await ask(forged, null), 200, 'nobody')
    t.equal(behind.last().certificate, null, 'comes without our certificate, which might be taken for the caller')
    t.notMatch(behind.last().rawHeaders.join().toLowerCase(), 'x-remote')

    const count = behind.seen.length
    t.equal(await ask({ authorization: 'Bearer wrong' }, null), 401, 'one that is not known here gets no further')
    t.equal(behind.seen.length, count)
  },
)

void t.test('a caller whose name no header can carry unchanged is refused', async (t) => {
  const { behind, ask } = await secured(t, true)
  for (const [name, groups] of [
    ['jane\nX-Remote-Group: system:masters', []],
    [' system:admin', []],
    ['system:admin ', []],
    ['jane', ['dev\u0007']],
  ] as const) {
    t.equal(await ask({}, [name, groups]), 403, JSON.stringify([name, groups]))
  }
  t.same(behind.seen, [])
  t.equal(await ask({}, ['jane doe ü', []]), 200)
})

void t.test('a renewed proxy certificate is presented from the next request on', async (t) => {
  const { behind, ask, authority, proxy } = await secured(t, true)
  t.equal(await ask({}, ['jane', []]), 200)
  t.equal(behind.last().certificate, 'front-proxy')
  const renewed = authority.client('renewed-proxy')
  copyFileSync(renewed.cert, proxy.cert)
  copyFileSync(renewed.key, proxy.key)
  await until(async () => {
    await ask({}, ['jane', []])
    return behind.last().certificate === 'renewed-proxy'
  }, 'the new certificate')
  t.equal(behind.last().headers['x-remote-user'], 'jane')
})

void t.test('without a proxy certificate, a caller with only its own certificate gets the reason', async (t) => {
  const { behind, ask } = await secured(t, false)
  t.equal(await ask({}, ['jane', []]), 403)
  t.equal(await ask({ authorization: 'Bearer sesame' }, ['jane', []]), 403, "nor by another's token")
  t.equal(await ask({ authorization: 'Bearer sesame' }, null), 200)
  t.equal(behind.seen.length, 1)
})

/** Sends everything back in capitals. */
function echo(protocol: string): ApiServerStandIn['upgrade'] {
  return (_request, socket: Duplex, head) => {
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\nX-Stream-Protocol-Version: v4\r\n\r\n`,
    )
    const answer = (bytes: Buffer): void => void socket.write(bytes.toString().toUpperCase())
    if (head.length > 0) answer(head)
    socket.on('data', answer)
    socket.on('end', () => socket.end())
  }
}

void t.test('exec, attach and port-forward get a tunnel, for SPDY by POST and WebSocket by GET', async (t) => {
  const { h, behind } = await scene(t)
  for (const [method, protocol] of [
    ['POST', 'SPDY/3.1'],
    ['GET', 'websocket'],
  ] as const) {
    behind.upgrade = echo(protocol)
    const socket = net.connect({ port: h.port, host: '127.0.0.1', allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
    const path = '/api/v1/namespaces/a/pods/x/exec?command=sh&stdin=1'
    socket.write(
      `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\nContent-Length: 0\r\nX-Stream-Protocol-Version: v4\r\n\r\nfirst `,
    )
    await until(() => text.includes('FIRST'), 'what came with the request')
    t.match(text, /^HTTP\/1\.1 101 Switching Protocols\r\n/)
    t.match(text, `Upgrade: ${protocol}\r\n`)
    t.match(text, 'X-Stream-Protocol-Version: v4\r\n')
    t.match(behind.last(), { method, url: path, headers: { upgrade: protocol, 'x-stream-protocol-version': 'v4' } })
    const large = 'abc'.repeat(500_000)
    socket.write(large)
    await until(() => text.length > large.length, 'a megabyte there and back')
    const closed = once(socket, 'close')
    socket.end('last')
    await closed
    t.ok(text.endsWith('LAST'), 'the end of the input does not end the output')
  }
  await until(() => behind.connections === 0, 'nothing is left open')
})

void t.test('a tunnel whose client has left ends, although the API server keeps its half open', async (t) => {
  const clock = new SkippingClock()
  const { h, behind } = await scene(t, { clock, config: { passthroughMaxRequests: 1 } })
  let kept: net.Socket | undefined
  behind.upgrade = (_request, socket) => {
    kept = socket as net.Socket
    kept.allowHalfOpen = true
    kept.on('error', () => {})
    kept.resume()
    kept.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
  }
  t.teardown(() => kept?.destroy())
  const socket = net.connect({ port: h.port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  const path = '/api/v1/namespaces/a/pods/x/exec'
  socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`)
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  await until(() => text.includes('101'), 'the tunnel')
  socket.end()
  await once(kept!, 'end')
  for (let i = 0; i < 4; i++) {
    await clock.skip(40_000, 40_000)
    kept!.write(`part ${i}`)
    await until(() => text.endsWith(`part ${i}`), 'output goes on after the end of the input')
  }
  const status = async (): Promise<number> => (await overHttp1(h, 'GET', '/api/v1/namespaces/a/pods/x/log')).status
  t.equal(await status(), 429)
  await clock.skip(61_000, 61_000)
  await until(async () => (await status()) === 200, 'its slot is free')
})

void t.test('the API server may refuse an upgrade, and a foreign page is rejected here', async (t) => {
  const { h, behind } = await scene(t)
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket' }
  const path = '/api/v1/namespaces/a/pods/x/exec'
  const asked = () => behind.seen.filter(({ url }) => url === path).length
  t.match(await overHttp1(h, 'GET', path, upgrade), { status: 403, body: 'no' })
  t.equal(asked(), 1)
  t.equal((await overHttp1(h, 'GET', path, { ...upgrade, origin: 'https://evil.example' })).status, 403)
  t.equal(asked(), 1)
})

void t.test(
  'a stream arrives as it is sent, ends when the client leaves, and waits for one that does not read',
  async (t) => {
    const { h, behind } = await scene(t)
    let log: http.ServerResponse | null = null
    behind.answer = (_request, response) => {
      log = response
      response.flushHeaders()
    }
    const request = http.get(`${h.url}/api/v1/namespaces/a/pods/x/log?follow=true`, { agent: false })
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    let text = ''
    response.on('data', (chunk: Buffer) => (text += chunk.toString()))
    response.on('error', () => {})
    for (const line of ['one\n', 'two\n']) {
      log!.write(line)
      await until(() => text.endsWith(line), 'the line')
    }
    response.pause()
    let written = 0
    const chunk = Buffer.alloc(2 ** 20)
    while (written < 64 && log!.writable) {
      written++
      if (!log!.write(chunk))
        await Promise.race([once(log!, 'drain'), new Promise((resolve) => setTimeout(resolve, 300))])
      if (log!.writableLength > 4 * 2 ** 20) break
    }
    t.ok(written < 64, `${written} MiB were taken of one that is not read`)
    const closed = once(log!, 'close')
    request.destroy()
    await closed
    t.pass('and the other side hears of the end')
  },
)

void t.test(
  'while the API server is unreachable, requests get a Status, cached reads continue, and discovery lists what is served here',
  async (t) => {
    const { h, behind } = await scene(t, { config: { requestTimeout: 200 } })
    behind.answer = () => {}
    const late = await overHttp1(h, 'POST', '/api/v1/namespaces/a/pods', {}, '{}')
    t.equal(late.status, 504)
    t.equal(late.headers['retry-after'], undefined, 'it may have been done: not to be repeated')
    await behind.close()
    const away = await overHttp1(h, 'POST', '/api/v1/namespaces/a/pods', {}, '{}')
    t.match(away, { status: 502, headers: { 'retry-after': '1' } })
    t.match(JSON.parse(away.body), { kind: 'Status', status: 'Failure', code: 502, reason: 'BadGateway' })
    t.equal((await overHttp1(h, 'GET', '/api/v1/pods')).status, 200)
    t.match(JSON.parse((await overHttp1(h, 'GET', '/api/v1')).body), { kind: 'APIResourceList' })
  },
)

void t.test(
  'the 502 for a broken connection has Retry-After, unless the request is a write that may have happened',
  async (t) => {
    const { h, behind } = await scene(t)
    const ask = async (method: string, path: string) => {
      const { status, headers, body } = await overHttp1(h, method, path, {}, method === 'GET' ? '' : '{}')
      t.match(JSON.parse(body), { kind: 'Status', code: 502, message: /ECONNRESET|socket/ })
      return [status, headers['retry-after']]
    }
    behind.answer = (request) => request.socket.destroy()
    t.same(await ask('GET', '/api/v1/namespaces/a/pods/x/log'), [502, '1'])
    t.same(await ask('POST', '/api/v1/namespaces/a/pods'), [502, undefined])
  },
)

void t.test('a write gets Retry-After when the API server ends the connection before the handshake', async (t) => {
  const starting = net.createServer((socket) => socket.once('data', () => socket.destroy()))
  starting.listen(0, '127.0.0.1')
  await once(starting, 'listening')
  t.teardown(() => starting.close())
  const { port } = starting.address() as net.AddressInfo
  const h = await startApp(t, { flags: ['--passthrough', `https://127.0.0.1:${port}`] })
  const { status, headers } = await overHttp1(h, 'POST', '/api/v1/namespaces/a/pods', {}, '{}')
  t.same([status, headers['retry-after']], [502, '1'])
})

void t.test('a denial by a starting API server becomes a 502 with Retry-After; later ones are forwarded', async (t) => {
  const { h, behind } = await scene(t)
  let readyz = 500
  behind.answer = ({ url }, response) => {
    if (url === '/readyz') response.writeHead(readyz).end()
    else response.writeHead(403, { 'content-type': 'text/plain' }).end('no')
  }
  const asked = () => behind.seen.splice(0).map(({ url }) => url)
  const path = '/api/v1/namespaces/a/pods'
  for (readyz of [500, 403]) {
    const { status, headers, body } = await overHttp1(h, 'POST', path, {}, '{}')
    t.same([status, headers['retry-after']], [502, '1'])
    t.match(JSON.parse(body), { kind: 'Status', message: 'the API server is starting' })
    t.match(JSON.parse((await overHttp1(h, 'GET', '/api/v1')).body), { kind: 'APIResourceList' })
  }
  readyz = 200
  asked()
  t.match(await overHttp1(h, 'POST', path, {}, '{}'), { status: 403, body: 'no' })
  t.same(asked(), [path, '/readyz'])
  t.match(await overHttp1(h, 'POST', path, {}, '{}'), { status: 403, body: 'no' })
  t.same(asked(), [path], 'a known connection costs no question')
})

void t.test(
  'a refusal is forwarded at once where nobody may ask anonymously whether the API server is ready',
  async (t) => {
    const { h, behind } = await scene(t)
    behind.answer = ({ url }, response) => response.writeHead(url === '/readyz' ? 401 : 403).end('no')
    t.match(await overHttp1(h, 'POST', '/api/v1/namespaces/a/pods', {}, '{}'), { status: 403, body: 'no' })
  },
)

void t.test('a denial that is discarded before its body has arrived is answered exactly once', async (t) => {
  const { h, behind } = await scene(t)
  behind.answer = ({ url }, response) => {
    if (url === '/readyz') response.writeHead(500).end()
    else response.writeHead(403, { 'content-length': '10' }).write('begun')
  }
  const { status, body } = await overHttp1(h, 'GET', '/api/v1')
  t.equal(status, 200)
  t.match(JSON.parse(body), { kind: 'APIResourceList' }, 'our own document, whole')
})

void t.test('a consistent read sees a forwarded write; too many at once are rejected', async (t) => {
  const { h, behind } = await scene(t, { config: { passthroughMaxRequests: 2 } })
  behind.answer = (_request, response, body) => {
    const object = JSON.parse(body) as { metadata: { name: string } }
    h.put(`pods/a/${object.metadata.name}`, object)
    response.writeHead(201, { 'content-type': 'application/json' }).end(body)
  }
  for (let i = 0; i < 20; i++) {
    const name = `made-${i}`
    const body = JSON.stringify(pod(name, { namespace: 'a' }))
    t.equal((await overHttp1(h, 'POST', '/api/v1/namespaces/a/pods', {}, body)).status, 201)
    const list = await overHttp1(h, 'GET', '/api/v1/pods')
    t.ok(list.body.includes(`"${name}"`), name)
  }
  behind.answer = () => {}
  const before = behind.seen.length
  const held = [1, 2].map(() => http.get(`${h.url}/api/v1/secrets`, { agent: false }).on('error', () => {}))
  await until(() => behind.seen.length === before + 2, 'two are on their way')
  t.equal((await overHttp1(h, 'GET', '/api/v1/secrets')).status, 429)
  for (const request of held) request.destroy()
})

void t.test('one client never holds all requests to the API server', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-passthrough-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, 't-ann,ann,1\nt-bob,bob,2\n')
  const { h, behind } = await scene(t, {
    flags: ['--token-auth-file', tokens, '--authorization-mode', 'AlwaysAllow'],
    config: { passthroughMaxRequests: 4 },
  })
  behind.answer = () => {}
  const [ann, bob] = ['t-ann', 't-bob'].map((token) => ({ authorization: `Bearer ${token}` }))
  const hold = (headers: Record<string, string>) =>
    http.get(`${h.url}/api/v1/secrets`, { headers, agent: false }).on('error', () => {})
  const held = [1, 2, 3].map(() => hold(ann!))
  await until(() => behind.seen.length === 3, 'three are on their way')
  const refused = await overHttp1(h, 'GET', '/api/v1/secrets', ann)
  t.match(refused, { status: 429, body: /of one client/ })
  held.push(hold(bob!))
  await until(() => behind.seen.length === 4, "another client's gets through")
  t.match(await overHttp1(h, 'GET', '/api/v1/secrets', bob), { status: 429, body: /too many concurrent requests to/ })
  for (const request of held) request.destroy()
  behind.answer = (_request, response) => response.end('{}')
  await until(async () => (await overHttp1(h, 'GET', '/api/v1/secrets', ann)).status === 200, 'the slots are free')
})

void t.test(
  'a request that the API server does not answer is counted and logged once when it is answered here',
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'distributary-passthrough-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const [tokens, audit] = [join(directory, 'tokens.csv'), join(directory, 'audit.jsonl')]
    writeFileSync(tokens, 'sesame,ali,1\n')
    const { h, behind } = await scene(t, {
      flags: ['--token-auth-file', tokens, '--audit-log-path', audit, '--requests-per-second', '1'],
    })
    await behind.close()
    // Ten may come at once.
    for (let i = 0; i < 10; i++) {
      const { status } = await overHttp1(h, 'GET', '/api/v1', { authorization: 'Bearer sesame' })
      t.equal(status, 200, `request ${i}`)
    }
    const lines = (): string[] => readFileSync(audit, 'utf8').split('\n').slice(0, -1)
    await until(() => lines().length >= 10, 'the lines of the log')
    const logged = lines().map((line) => JSON.parse(line) as { user: string; rule: string })
    t.equal(logged.length, 10)
    t.match(
      logged[0],
      { user: 'ali', rule: 'AlwaysAllow', decision: 'allow' },
      'with the rule that let it be answered here',
    )
  },
)
