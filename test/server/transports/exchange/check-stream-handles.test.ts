/**
 * At start-up the server checks whether it may write through Node's private handles; watchers see the same either way.
 */
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import type { Logger } from '../../../../src/support/log.js'
import {
  type HandleFinders,
  checkStreamHandles,
} from '../../../../src/server/transports/exchange/check-stream-handles.js'
import {
  type StreamHandle,
  findHttp2Handle,
  findSocketHandle,
  handleUse,
} from '../../../../src/server/transports/exchange/stream-handle.js'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'

class Lines implements Logger {
  readonly all: { readonly message: string; readonly fields: object }[] = []
  debug(): void {}
  info(): void {}
  warn = (fields: object, message: string): void => void this.all.push({ fields, message })
  error = this.warn
}

const MESSAGE = 'stream handles cannot be used; writing with the public API'
const sound: HandleFinders = { socket: findSocketHandle, http2: findHttp2Handle }

/** A handle that writes different bytes than it was given. */
const wrapped = (handle: StreamHandle | null, change: (bytes: Buffer) => Buffer): StreamHandle | null =>
  handle && { writeBuffer: (request, bytes) => handle.writeBuffer(request, change(bytes)) }

void t.test('this Node’s handles pass the check without a log line', async (t) => {
  const logger = new Lines()
  await checkStreamHandles(true, logger)
  t.same(handleUse(), { sockets: true, http2: true })
  t.same(logger.all, [])
})

void t.test('disabled handles are neither tested nor used', async (t) => {
  const logger = new Lines()
  const none = (): null => {
    t.fail('a handle was looked for')
    return null
  }
  await checkStreamHandles(false, logger, { socket: none, http2: none })
  t.same(handleUse(), { sockets: false, http2: false })
  t.same(logger.all, [])
})

const faults: readonly { name: string; finders: HandleFinders; use: object; problems: object }[] = [
  {
    name: 'a Node without handles is written to by its public API',
    finders: { socket: () => null, http2: () => null },
    use: { sockets: false, http2: false },
    problems: { sockets: 'there is no handle', http2: 'there is no handle' },
  },
  {
    name: 'a socket handle that writes other bytes is not used, and HTTP/2 keeps its own',
    finders: { ...sound, socket: (socket) => wrapped(findSocketHandle(socket), (bytes) => Buffer.alloc(bytes.length)) },
    use: { sockets: false, http2: true },
    problems: { sockets: 'the bytes that arrived differ from those written', http2: null },
  },
  {
    name: 'an HTTP/2 handle that loses the end of a write is not used, and sockets keep theirs',
    finders: { ...sound, http2: (stream) => wrapped(findHttp2Handle(stream), (bytes) => bytes.subarray(1)) },
    use: { sockets: true, http2: false },
    problems: { sockets: null, http2: 'the bytes that arrived differ from those written' },
  },
  {
    name: 'a handle that throws is not used',
    finders: {
      ...sound,
      socket: () => ({
        writeBuffer: () => {
          throw new TypeError('another signature')
        },
      }),
    },
    use: { sockets: false, http2: true },
    problems: { sockets: 'another signature', http2: null },
  },
]

for (const { name, finders, use, problems } of faults) {
  void t.test(`${name}, and the log says so once`, async (t) => {
    const logger = new Lines()
    await checkStreamHandles(true, logger, finders)
    t.same(handleUse(), use)
    t.match(logger.all, [{ message: MESSAGE, fields: { node: process.version, ...problems } }])
    t.equal(logger.all.length, 1)
  })
}

void t.test('watchers of every transport receive the same bytes with handles and without', async (t) => {
  const direct = await fanOut(t, ['--stream-handles=true'])
  t.same(handleUse(), { sockets: true, http2: true })
  const plain = await fanOut(t, ['--stream-handles=false'])
  t.same(handleUse(), { sockets: false, http2: false })
  for (const transport of ['http1', 'http2', 'webSocket'] as const) {
    t.ok(direct[transport].length > 1_000_000, `${transport}: ${direct[transport].length} bytes`)
    t.ok(direct[transport].equals(plain[transport]), `${transport}: the same bytes`)
  }
})

/**
 * Returns the bodies of a watch over each transport, from a server that always commits the same small and large
 * objects.
 */
async function fanOut(t: Test, flags: readonly string[]): Promise<Record<'http1' | 'http2' | 'webSocket', Buffer>> {
  const h = await startApp(t, { flags, objects: { 'pods/default/first': pod('first') } })
  const path = '/api/v1/pods?watch=1&resourceVersion=1'
  const chunks = { http1: [] as Buffer[], http2: [] as Buffer[], webSocket: [] as Buffer[] }
  const socket = connect(h.port, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`))
  socket.on('data', (chunk: Buffer) => chunks.http1.push(chunk))
  const session = connectHttp2(h.url)
  session.request({ ':path': path }).on('data', (chunk: Buffer) => chunks.http2.push(chunk))
  const webSocket = new WebSocket(`ws://127.0.0.1:${h.port}${path}`)
  webSocket.on('message', (message: Buffer) => chunks.webSocket.push(message))
  await until(() => h.watchers === 3, 'all watch')
  for (let i = 0; i < 60; i++) {
    h.put(`pods/default/p${i % 7}`, pod(`p${i % 7}`, { spec: { filler: 'x'.repeat(i % 3 === 0 ? 80_000 : i) } }))
    if (i % 4 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  h.delete('pods/default/first')
  const isWhole = (parts: readonly Buffer[]): boolean => Buffer.concat(parts).includes('"DELETED"')
  await until(() => Object.values(chunks).every(isWhole), 'all have the last event')
  socket.destroy()
  session.destroy()
  webSocket.terminate()
  await h.app.stop()
  // The chunks depend on timing; their content does not.
  const text = Buffer.concat(chunks.http1).toString('latin1')
  return {
    http1: Buffer.from(unchunk(text.slice(text.indexOf('\r\n\r\n') + 4)), 'latin1'),
    http2: Buffer.concat(chunks.http2),
    webSocket: Buffer.concat(chunks.webSocket),
  }
}

/** Decodes HTTP/1.1's chunked coding, as far as the chunks are complete. */
function unchunk(text: string): string {
  let body = ''
  for (let at = 0; ;) {
    const start = text.indexOf('\r\n', at) + 2
    const length = parseInt(text.slice(at, start - 2), 16)
    if (start < 2 || !(length > 0) || start + length > text.length) return body
    body += text.slice(start, start + length)
    at = start + length + 2
  }
}
