/** Bodies of writes as they arrive on a connection. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectHttp2 } from 'node:http2'
import t, { type Test } from 'tap'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readBody } from '../../../../src/server/transports/exchange/read-body.js'
import { Exchange } from '../../../../src/server/transports/exchange/exchange.js'
import { systemClock } from '../../../../src/support/clock.js'
import { gatherBody, takeBody } from '../../../../src/server/transports/exchange/request-body.js'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'

const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a', uid: 'uid-a' } }
const PATH = '/api/v1/namespaces/a/configmaps'

function configMap(name: string, length: number): string {
  const data = { text: 'x'.repeat(length) }
  return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data })
}

function cut(text: string, bytes: number): string[] {
  return Array.from({ length: Math.ceil(text.length / bytes) }, (_, i) => text.slice(i * bytes, (i + 1) * bytes))
}

/** Resolves with everything the server sends until it closes the connection. */
async function sendChunks(url: string, pieces: readonly string[]): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  // The server closes the connection while there is still something to send.
  socket.on('error', () => {})
  const head = `POST ${PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
  const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
  socket.write(`${head}${chunks.join('')}0\r\n\r\n`)
  await once(socket, 'close')
  return text
}

void t.test('read body - one that arrives a byte at a time is rejected, not kept in as many pieces', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'], objects: { 'namespaces/a': namespace } })
  const answer = await sendChunks(url, cut(configMap('drip', 20_000), 1))
  t.match(answer, /^HTTP\/1.1 400 /)
  t.match(answer, /pieces that are too small/)
})

void t.test('read body - one in many small pieces is read whole', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'], objects: { 'namespaces/a': namespace } })
  t.match(await sendChunks(url, cut(configMap('small', 1_500), 1)), /^HTTP\/1.1 201 /, 'a small body in bytes')
  t.match(await sendChunks(url, cut(configMap('large', 200_000), 40)), /^HTTP\/1.1 201 /, 'a large one in pieces')
})

void t.test(
  'read body - over HTTP/2 a body in very small frames is rejected, and the connection continues to serve',
  async (t) => {
    const { url } = await startApp(t, { flags: ['--enable-writes'], objects: { 'namespaces/a': namespace } })
    const session = connectHttp2(url)
    t.teardown(() => session.destroy())
    const stream = session.request({ ':method': 'POST', ':path': PATH, 'content-type': 'application/json' })
    stream.on('error', () => {})
    const answered = once(stream, 'response')
    // One by one; otherwise the client would send them in one frame.
    for (const piece of cut(configMap('frames', 6_000), 1)) {
      if (!stream.writable) break
      await new Promise((resolve) => stream.write(piece, resolve))
    }
    stream.end()
    const [headers] = (await answered) as [{ ':status': number }]
    t.equal(headers[':status'], 400)
    const next = session.request({ ':path': '/version' }).resume()
    const [{ ':status': status }] = (await once(next, 'response')) as [{ ':status': number }]
    t.equal(status, 200)
  },
)

void t.test('read body - the rest of a rejected one is not delivered', async (t) => {
  let delivered = 0
  const server = createServer((request, response: ServerResponse) => {
    gatherBody(request, response)
    const exchange = new Exchange(request, response)
    void readBody(exchange, systemClock, 60_000).catch(() => {
      request.on('data', () => delivered++)
      exchange.send(400, 'text/plain', Buffer.from('refused'))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  t.match(await sendChunks(`http://127.0.0.1:${port}`, cut('x'.repeat(10_000), 1)), /^HTTP\/1.1 400 /)
  t.equal(delivered, 0)
})

/** A connection that sends the head of a request with a body in chunks, and the first bytes of that body. */
function beginRequest(t: Test, port: number, head: string): { readonly socket: Socket; readonly heard: () => string } {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1'))).on('error', () => {})
  socket.write(`${head}\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`)
  return { socket, heard: () => text }
}

const OTHER = 'GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n'

void t.test('read body - one that arrives in small pieces after its 504 gets no second answer', async (t) => {
  const flags = ['--enable-writes', '--request-timeout=1s']
  const { port, url } = await startApp(t, { flags, objects: { 'namespaces/a': namespace } })
  for (const head of [`POST ${PATH} HTTP/1.1`, 'GET /api/v1/pods HTTP/1.1', 'GET /api/v1/pods?watch=true HTTP/1.1']) {
    const { socket, heard } = beginRequest(t, port, head)
    await until(() => heard().includes('\r\n\r\n'), `${head} is answered`)
    for (let i = 0; i < 21; i++) socket.write('1\r\n \r\n'.repeat(100))
    socket.write(`0\r\n\r\n${OTHER}`)
    await until(() => socket.readableEnded, 'the connection ends')
    t.match(heard(), /^HTTP\/1.1 504 [^]*\r\nConnection: close\r\n/i, head)
    t.equal(heard().split('HTTP/1.1 ').length, 2, 'one answer')
  }
  t.equal((await fetch(`${url}/livez`)).status, 200)
})

void t.test('read body - an answer before its end is the last one of an HTTP/1.1 connection', async (t) => {
  const { port } = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  for (const [head, code] of [
    ['GET /metrics HTTP/1.1', 200],
    ['GET /livez HTTP/1.1', 200],
    ['GET /ui/ HTTP/1.1', 200],
    ['POST /consistency-check HTTP/1.1', 200],
    ['POST /nowhere HTTP/1.1', 404],
    ['POST /api/v1/namespaces/a/configmaps HTTP/1.1', 405],
  ] as const) {
    const { socket, heard } = beginRequest(t, port, head)
    await until(() => socket.readableEnded, `${head} is answered, and the connection ends`)
    t.match(heard(), new RegExp(`^HTTP/1.1 ${code} [^]*\r\nConnection: close\r\n`, 'i'), head)
    socket.end(`0\r\n\r\n${OTHER}`)
    await once(socket, 'close')
    t.equal(heard().split('HTTP/1.1 ').length, 2, 'what follows is not answered')
  }
})

void t.test('read body - a client that is still sending reads the answer, and has time to stop', async (t) => {
  const { port } = await startApp(t, { objects: {} })
  const { socket, heard } = beginRequest(t, port, `POST ${PATH} HTTP/1.1`)
  const piece = `10000\r\n${'x'.repeat(65_536)}\r\n`
  for (let i = 0; i < 60; i++) await new Promise((resolve) => socket.write(piece, resolve))
  await until(() => socket.readableEnded, 'it is answered')
  t.match(heard(), /^HTTP\/1.1 405 /)
  t.notOk(socket.errored, 'the connection is not reset')
  // A client that never stops is not waited for.
  const sending = setInterval(() => socket.write(piece), 100)
  await until(() => socket.closed, 'the connection is closed')
  clearInterval(sending)
})

void t.test('read body - over HTTP/2, a stream whose body never ends is closed after its answer', async (t) => {
  const { url } = await startApp(t, { objects: {} })
  const session = connectHttp2(url)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':method': 'GET', ':path': '/metrics' }, { endStream: false })
  stream.write('{')
  const [headers] = (await once(stream.resume(), 'response')) as [{ ':status': number }]
  t.equal(headers[':status'], 200)
  await once(stream, 'close')
  t.equal(stream.rstCode, 0)
})

const READS: Readonly<Record<string, string>> = {
  'a list': '/api/v1/pods',
  'a get': '/api/v1/namespaces/default/pods/a',
  'a watch': '/api/v1/pods?watch=true&timeoutSeconds=0',
  'a watch as server-sent events': '/api/v1/pods?watch=true&timeoutSeconds=0',
}

function linesOf(name: string, ...more: readonly string[]): string {
  const accept = name.includes('server-sent') ? ['Accept: text/event-stream'] : []
  return [`Host: localhost`, ...accept, ...more, '', ''].join('\r\n')
}

for (const [framing, line, [first, last]] of [
  ['of a given length', 'Content-Length: 6', ['abc', 'def']],
  ['in chunks', 'Transfer-Encoding: chunked', ['3\r\nabc\r\n', '3\r\ndef\r\n0\r\n\r\n']],
] as const) {
  void t.test(`read body - a read begins when its body ${framing} is over, and ignores it`, async (t) => {
    const { port } = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
    for (const [name, path] of Object.entries(READS)) {
      for (const method of ['GET', 'HEAD']) {
        const socket = connect(port, '127.0.0.1').on('error', () => {})
        let text = ''
        socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
        socket.write(`${method} ${path} HTTP/1.1\r\n${linesOf(name, line)}${first}`)
        // A later request is answered first.
        await fetch(`http://127.0.0.1:${port}/api/v1/pods`).then((response) => response.text())
        t.equal(text, '', `${method} of ${name} waits for the rest`)
        socket.write(last)
        await until(() => text.includes('\r\n\r\n'), `${method} of ${name} is answered`)
        t.match(text, /^HTTP\/1.1 200 /)
        socket.destroy()
      }
    }
  })

  void t.test(`read body - after a read with a body ${framing} the connection continues to serve`, async (t) => {
    const { port } = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
    for (let i = 1; i <= 3; i++) {
      socket.write(`GET /api/v1/pods HTTP/1.1\r\n${linesOf('a list', line)}${first}${last}`)
      await until(() => text.split('HTTP/1.1 200 ').length === i + 1, `answer ${i}`)
    }
  })
}

void t.test('read body - a read begins when its body over HTTP/2 is over, and ignores it', async (t) => {
  const { url } = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const session = connectHttp2(url)
  t.teardown(() => session.destroy())
  for (const [name, path] of Object.entries(READS)) {
    const stream = session.request({ ':method': 'GET', ':path': path }, { endStream: false })
    let status: number | undefined
    stream.on('response', (headers) => (status = headers[':status'])).on('error', () => {})
    stream.write('abc')
    const next = session.request({ ':path': '/api/v1/pods' }).resume()
    await once(next, 'end')
    t.equal(status, undefined, `${name} waits for the rest`)
    stream.end('def')
    await until(() => status !== undefined, `${name} is answered`)
    t.equal(status, 200)
    stream.close()
  }
})

void t.test('read body - a read with a large body is rejected', async (t) => {
  const { port, url } = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  for (const [name, path] of Object.entries(READS)) {
    const length = 64 * 1024 + 1
    for (const body of [
      `Content-Length: ${length}\r\n\r\n`,
      `Transfer-Encoding: chunked\r\n\r\n${length.toString(16)}\r\n${'x'.repeat(length)}\r\n0\r\n\r\n`,
    ]) {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      let text = ''
      socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
      socket.write(`GET ${path} HTTP/1.1\r\n${linesOf(name).trimEnd()}\r\n${body}`)
      await once(socket, 'close')
      t.match(text, /^HTTP\/1.1 413 /, `${name}: ${body.slice(0, 20)}`)
    }
    const session = connectHttp2(url)
    const stream = session.request({ ':method': 'GET', ':path': path }, { endStream: false })
    stream.on('error', () => {})
    const answered = once(stream, 'response')
    stream.write('x'.repeat(length))
    const [headers] = (await answered) as [{ ':status': number }]
    t.equal(headers[':status'], 413, `${name} over HTTP/2`)
    for (let i = 0; i < 100; i++) await new Promise((resolve) => stream.write('x'.repeat(length), resolve))
    t.pass('what follows is taken, and dropped')
    session.destroy()
  }
})

void t.test('read body - an unread body is gathered, and delivered as one piece', async (t) => {
  const pieces: number[] = []
  let begin = (): void => {}
  let hasRead = (): number => 0
  const server = createServer((request, response: ServerResponse) => {
    gatherBody(request, response)
    hasRead = () => request.socket.bytesRead
    begin = () => {
      takeBody(request, () => t.fail('it is not refused'))
      request.on('data', (piece: Buffer) => pieces.push(piece.length)).on('end', () => response.end('done'))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  socket.write('POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n')
  const piece = `28\r\n${'x'.repeat(40)}\r\n`
  socket.write(piece.repeat(1_500))
  await until(() => hasRead() >= 1_500 * piece.length, 'the server has read it')
  begin()
  socket.write(`${piece}0\r\n\r\n`)
  await until(() => text.includes('done'), 'the end')
  t.equal(
    pieces.reduce((sum, length) => sum + length, 0),
    1_501 * 40,
  )
  t.equal(pieces.length, 2)
})
