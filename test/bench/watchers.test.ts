/**
 * The benchmark's receiving side must detect every mistake that a server can make, because its figures rely on that.
 */
import { readFileSync } from 'node:fs'
import { createSecureServer, type ServerHttp2Stream } from 'node:http2'
import { createServer, type Server } from 'node:net'
import t from 'tap'
import { MAGIC } from '../../bench/support/objects.js'
import { endAll, start } from '../../bench/support/processes.js'
import {
  openWatchers,
  startWatchers,
  type WatchRequest,
  type WatchersOptions,
  type WatchersReport,
  writeClassesFile,
} from '../../bench/support/watchers.js'
import { createWorkspace, type Workspace } from '../../bench/support/workspace.js'
import { until } from '../support/until.js'

t.teardown(endAll)

const event = (sequence: number): string =>
  `{"type":"MODIFIED","object":{"mark":"${MAGIC}${String(sequence).padStart(12, '0')}${'1'.padStart(18, '0')}"}}\n`

/** Waits for all events. */
const PATIENT_MS = 30_000
/** Waits in vain, because an event is missing. */
const LATE_MS = 2_000

const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`

/**
 * Sends each watcher the head and, after its first mark, the body that `bodyOf` returns for the n-th connection, in
 * pieces.
 */
async function served(
  bodyOf: (index: number) => readonly string[],
  owed: number,
  more: {
    readonly watchers?: number
    readonly stride?: number
    readonly base64?: boolean
    readonly withinMs?: number
  } = {},
): Promise<WatchersReport> {
  let accepted = 0
  const server: Server = createServer((socket) => {
    socket.setNoDelay(true)
    const index = accepted++
    socket.once('data', () => {
      socket.write(head)
      void (async () => {
        for (const piece of bodyOf(index)) {
          socket.write(piece, 'latin1')
          await new Promise((resolve) => setImmediate(resolve))
        }
      })()
    })
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const request: WatchRequest = {
    port: address && typeof address === 'object' ? address.port : 0,
    path: '/',
    ...(more.base64 === undefined ? {} : { base64: more.base64 }),
  }
  try {
    const watchers = await openWatchers(request, {
      connections: more.watchers ?? 1,
      burst: 1, // so that the n-th connection is the n-th watcher
      ...(more.stride === undefined ? {} : { stride: more.stride }),
    })
    const report = await watchers.caughtUp(owed, more.withinMs ?? PATIENT_MS)
    await watchers.end()
    return report
  } finally {
    server.close()
  }
}

const one = (...sequences: number[]): string => sequences.map((sequence) => chunk(event(sequence))).join('')

void t.test('every event once and in order is not a fault', async (t) => {
  const report = await served(() => [one(0, 1, 2)], 3)
  t.match(report, { event: 'caught-up', received: 3, missing: 0, repeated: 0, strays: 0 })
})

void t.test('an event cut anywhere by a write or a chunk is still one event', async (t) => {
  const body = one(0, 1)
  for (let cut = 1; cut < body.length; cut += 7) {
    const report = await served(() => [body.slice(0, cut), body.slice(cut)], 2)
    t.match(report, { event: 'caught-up', received: 2, missing: 0, repeated: 0 }, `written in two at ${cut}`)
  }
  const text = event(0)
  for (let cut = 1; cut < text.length; cut += 7) {
    const report = await served(() => [chunk(text.slice(0, cut)) + chunk(text.slice(cut))], 1)
    t.match(report, { event: 'caught-up', received: 1, missing: 0, repeated: 0 }, `two chunks, cut at ${cut}`)
  }
})

void t.test('base64 objects are read like any other', async (t) => {
  const value = Buffer.from(`abc${MAGIC}${'7'.padStart(12, '0')}${'1'.padStart(18, '0')}def`).toString('base64')
  const report = await served(() => [chunk(`{"result":{"value":"${value}"}}\n`)], 1, { base64: true })
  t.match(report, { event: 'caught-up', received: 1, missing: 0, repeated: 0 })
})

void t.test('a repetition is counted', async (t) => {
  t.match(await served(() => [one(0, 1, 1, 2)], 3), { received: 4, repeated: 1 })
})

void t.test('a hole in one watcher is counted', async (t) => {
  const report = await served((index) => [index === 0 ? one(0, 1, 2, 3) : one(0, 1, 3)], 4, { watchers: 2 })
  t.match(report, { received: 7, missing: 1, repeated: 0 })
})

void t.test('a hole in all watchers leaves them waiting', async (t) => {
  const report = await served(() => [one(0, 1, 3)], 4, { watchers: 2, withinMs: LATE_MS })
  t.match(report, { event: 'late', received: 6 })
})

void t.test('a different order between watchers is counted', async (t) => {
  const report = await served((index) => [index === 0 ? one(0, 1, 2) : one(0, 2, 1)], 3, { watchers: 2 })
  t.match(report, { received: 6, missing: 1, repeated: 1 })
})

void t.test('with a stride, each watcher expects its own events and no others', async (t) => {
  const right = await served((index) => [index === 0 ? one(0, 2) : one(1, 3)], 4, { watchers: 2, stride: 2 })
  t.match(right, { event: 'caught-up', received: 4, missing: 0, repeated: 0, strays: 0 })
  const wrong = await served((index) => [index === 0 ? one(0, 1, 2) : one(1, 3)], 4, { watchers: 2, stride: 2 })
  t.match(wrong, { received: 5, strays: 1 })
})

void t.test('HTTP/2 streams over TLS are distinguished however their frames are cut', async (t) => {
  const workspace = createWorkspace()
  t.teardown(() => workspace.remove())
  const { certFile, keyFile } = workspace.tls()
  const server = createSecureServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) })
  let opened = 0
  server.on('stream', (stream) => {
    const index = opened++
    stream.respond({ ':status': 200 })
    stream.write(event(0) + event(1).slice(0, 5 * index + 3))
    setImmediate(() => stream.write(event(1).slice(5 * index + 3) + event(2)))
  })
  server.on('sessionError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = address && typeof address === 'object' ? address.port : 0
  const watchers = await openWatchers({ port, path: '/', tls: true, http2: true }, { connections: 2, streams: 10 })
  const report = await watchers.caughtUp(3, PATIENT_MS)
  await watchers.end()
  t.match(report, { event: 'caught-up', received: 60, missing: 0, repeated: 0, strays: 0, ended: 0 })
})

void t.test('the streams of a connection watch their own paths, and expect what their classes say', async (t) => {
  const workspace = createWorkspace()
  t.teardown(() => workspace.remove())
  const classesFile = workspace.path('classes')
  // Of every four events, one is for both connections, one for each of them, and one for neither.
  writeClassesFile(classesFile, [2, 0, 1, null])
  const paths = [
    { path: '/all', kind: 'shared', accept: 'text/plain', owed: { class: 2, isEach: false } },
    { path: '/of/{c}', kind: 'own', owed: { class: 0, isEach: true } },
    { path: '/nothing' },
  ]
  const served = (bodies: Bodies, withinMs?: number): Promise<[WatchersReport, string[]]> =>
    servedByPath(workspace, bodies, 8, { connections: 2, streams: 3, classesFile, paths }, withinMs)
  const right = { '/all': [0, 4], '/of/0': [1, 5], '/of/1': [2, 6] }
  const [report, asked] = await served(right)
  t.match(report, { event: 'caught-up', received: 8, missing: 0, repeated: 0, strays: 0 })
  t.match(report.kinds, { shared: { count: 4 }, own: { count: 4 } })
  t.same(asked, ['/all text/plain', '/all text/plain', '/nothing ', '/nothing ', '/of/0 ', '/of/1 '])
  t.match((await served({ ...right, '/of/1': [2] }, LATE_MS))[0], { event: 'late' }, 'one that lacks what it is owed')
  t.match((await served({ ...right, '/of/1': [2, 5, 6] }))[0], { strays: 1 }, "the other connection's event")
  t.match((await served({ ...right, '/nothing': [3] }))[0], { strays: 2 }, 'what nobody is owed')
})

void t.test('a watch of several classes expects all of them, beside watches of one class', async (t) => {
  const workspace = createWorkspace()
  t.teardown(() => workspace.remove())
  const classesFile = workspace.path('classes')
  writeClassesFile(classesFile, [0, 1, 2])
  const paths = [
    { path: '/of/{c}', owed: { class: 0, isEach: true } },
    { path: '/wide', owed: { class: 0, isEach: false, until: 2 } },
  ]
  // More paths than streams: the first connection gets the first, the second one the second.
  const served = async (bodies: Bodies, withinMs?: number): Promise<WatchersReport> =>
    (await servedByPath(workspace, bodies, 6, { connections: 2, streams: 1, classesFile, paths }, withinMs))[0]
  const right = { '/of/0': [0, 3], '/wide': [0, 1, 3, 4] }
  t.match(await served(right), { event: 'caught-up', received: 6, missing: 0, repeated: 0, strays: 0 })
  t.match(await served({ ...right, '/wide': [0, 1, 3] }, LATE_MS), { event: 'late' }, 'the last is missing')
  t.match(await served({ ...right, '/wide': [0, 1, 2, 3, 4] }), { strays: 1 }, 'what it is not owed')
  t.match(await served({ ...right, '/wide': [0, 1, 1, 3, 4] }), { repeated: 1 }, 'a repetition')
})

void t.test('the versions of protobuf objects are kept, and a watch that ends or is refused lists again', async (t) => {
  const workspace = createWorkspace()
  t.teardown(() => workspace.remove())
  const { certFile, keyFile } = workspace.tls()
  const server = createSecureServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) })
  const first: Readonly<Record<string, (stream: ServerHttp2Stream) => unknown>> = {
    '/healthy': (stream) => stream.write(Buffer.concat([objectEvent('ADDED', 7), objectEvent('DELETED', 8)])),
    '/expires': (stream) => stream.end(Buffer.concat([objectEvent('ADDED', 7), frame('ERROR', [0x30, 0x9a, 0x03])])),
    '/gone': (stream) => stream.respond({ ':status': 410 }, { endStream: true }),
    '/throttled': (stream) => stream.respond({ ':status': 429 }, { endStream: true }),
  }
  const listed = ['ADDED', 'BOOKMARK', 'MODIFIED', 'BOOKMARK'].map((type, i) => objectEvent(type, 5 + i, i === 1))
  server.on('stream', (stream, headers) => {
    const path = headers[':path'] ?? ''
    if (path === '/healthy' || path === '/expires') stream.respond({ ':status': 200 })
    const answer = first[path]
    if (answer !== undefined) return void answer(stream)
    stream.respond({ ':status': 200 })
    // Every frame is cut somewhere.
    for (const part of Buffer.concat(listed)
      .toString('latin1')
      .match(/.{1,7}/gs)!)
      stream.write(part, 'latin1')
  })
  server.on('sessionError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = address && typeof address === 'object' ? address.port : 0
  const paths = Object.keys(first).map((path) => ({ path, again: `${path}/again` }))
  const { watchers } = startWatchers(
    { port, path: '/', tls: true, http2: true },
    { connections: 2, streams: paths.length, objects: true, paths },
  )
  await until(async () => (await watchers.report()).live === 8, 'all watches are live')
  const own = { listed: null, versions: [7, 8] }
  const again = { listed: 6, versions: [7] }
  const expected = [own, again, again, again]
  let versions: unknown = []
  await until(
    async () => {
      versions = await watchers.versions(workspace.path('versions'))
      return JSON.stringify(versions) === JSON.stringify([...expected, ...expected])
    },
    () => `each has its versions: ${JSON.stringify(versions)}`,
  )
  t.match(await watchers.report(), { relisted: 6, expired: 4, throttled: 2, failed: 0, live: 8, ended: 0 })
  await watchers.end()
})

type Bytes = readonly number[] | Buffer

function field(number: number, content: string | Bytes): Buffer {
  const bytes = Buffer.from(content as string)
  return Buffer.concat([Buffer.from([number * 8 + 2, (bytes.length & 127) | 128, bytes.length >> 7]), bytes])
}

/** Returns one frame of a protobuf watch. */
function frame(type: string, object: Bytes): Buffer {
  const unknown = Buffer.concat([Buffer.from('k8s\0'), field(2, object)])
  const event = Buffer.concat([field(1, type), field(2, field(1, unknown))])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(event.length)
  return Buffer.concat([length, event])
}

function objectEvent(type: string, version: number, endsList = false): Buffer {
  const annotation = Buffer.concat([field(1, 'k8s.io/initial-events-end'), field(2, 'true')])
  const metadata = [field(1, 'name'), field(6, String(version)), ...(endsList ? [field(12, annotation)] : [])]
  return frame(type, field(1, Buffer.concat(metadata)))
}

/** Sequences by path. */
type Bodies = Readonly<Record<string, readonly number[]>>

/**
 * Answers each path with its events. Returns the report once all below `owed` have arrived, and the requested paths.
 */
async function servedByPath(
  workspace: Workspace,
  bodies: Bodies,
  owed: number,
  options: WatchersOptions,
  withinMs = PATIENT_MS,
): Promise<[WatchersReport, string[]]> {
  const { certFile, keyFile } = workspace.tls()
  const server = createSecureServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) })
  const asked: string[] = []
  server.on('stream', (stream, headers) => {
    asked.push(`${headers[':path']} ${headers['accept'] ?? ''}`)
    stream.respond({ ':status': 200 })
    stream.write((bodies[headers[':path'] ?? ''] ?? []).map(event).join(''))
  })
  server.on('sessionError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = address && typeof address === 'object' ? address.port : 0
  try {
    const request = { port, path: '/', tls: true, http2: true }
    const watchers = await openWatchers(request, options)
    const report = await watchers.caughtUp(owed, withinMs)
    await watchers.end()
    return [report, asked.toSorted()]
  } finally {
    server.close()
  }
}

void t.test('two callers may wait for different lines of one process', async (t) => {
  const child = start('printer', 'load', ['sh', '-c', 'read _; echo one; echo two; read _'])
  const only = (wanted: string) => (text: string) => (text === wanted ? text : undefined)
  const two = child.line(only('two'), 30_000)
  const one = child.line(only('one'), 30_000)
  const none = child.line(only('three'), 30_000)
  child.send('')
  t.same(await Promise.all([one, two]), ['one', 'two'])
  child.send('')
  await t.rejects(none, /^printer: ended/, 'one that waits in vain does not wait for its whole time')
})
