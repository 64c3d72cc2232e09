/**
 * Tests gzip-compressed watches: correct to the last byte of the trailer, shared by a group, and readable by real
 * decoders while they run.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, get } from 'node:http'
import { connect } from 'node:http2'
import { type Duplex, PassThrough, type Readable } from 'node:stream'
import { promisify } from 'node:util'
import { createGunzip, gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { writeUnit } from '../../../../src/engine/broadcast/wire-format.js'
import { framings, wireOf } from '../../../../src/server/transports/framing/framings.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { curlBinary } from '../../../support/curl.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { openPage } from '../../../support/chromium.js'
import { EventReader, type SeenEvent, brief } from '../../../support/event-reader.js'
import { secureFlags } from '../../../support/secure-flags.js'

const PODS = '/api/v1/pods'
/** Makes a watch list, as client-go's informers do. */
const LISTING = '&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan'
const GZIP = { 'accept-encoding': 'gzip' }
/** So that a drain ends all watches at once, when they have all events. */
const AT_ONCE = ['--shutdown-watch-termination-grace-period', '0s']

async function open(url: string, headers: Record<string, string> = GZIP): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => {
    get(url, { headers, agent: false }, resolve).on('error', reject)
  })
}

/** The whole body, once it has ended. */
async function bodyOf(response: AsyncIterable<unknown>): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of response) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

/** Reads a stream that goes on: the events so far, and the whole body once it has ended. */
function gather(response: Readable, decoder: Duplex = createGunzip()): { events: EventReader; body: Promise<Buffer> } {
  const parts: Buffer[] = []
  response.on('data', (part: Buffer) => parts.push(part))
  const body = once(response, 'end').then(() => Buffer.concat(parts))
  return { events: new EventReader(response.pipe(decoder)), body }
}

/** Returns the lines of a gzip stream. @throws when its checksum, its length or anything else is wrong. */
function linesOf(body: Buffer): readonly string[] {
  const lines = gunzipSync(body).toString().split('\n').filter(Boolean)
  return lines.map((line) => brief(JSON.parse(line) as SeenEvent))
}

function watchUrl(h: AppHarness, query: string): string {
  return `${h.url}${PODS}?watch=1&compress=gzip${query}`
}

void t.test('each watcher gets a complete gzip stream, wherever it joined', async (t) => {
  const objects = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`)]))
  const h = await startApp(t, { objects, flags: AT_ONCE })
  const early = await open(watchUrl(h, '&resourceVersion=1&allowWatchBookmarks=true'))
  t.equal(early.headers['content-encoding'], 'gzip')
  t.match(early.headers['vary'], 'Accept-Encoding')
  const watches = [gather(early)]
  const expected: string[][] = [Array.from({ length: 50 }, (_, i) => `ADDED p${i}@${i + 2}`)]
  for (let i = 0; i < 5; i++) {
    const query = `&resourceVersion=${h.upstream.revision}&allowWatchBookmarks=true`
    watches.push(gather(await open(watchUrl(h, query))))
    expected.push([])
    const live = h.put('pods/default/x', pod('x', { labels: { i: String(i), filler: 'x'.repeat(i * 1_000) } }))
    for (const lines of expected) lines.push(`${i === 0 ? 'ADDED' : 'MODIFIED'} x@${live}`)
  }
  const groups = [...h.app.sources].flatMap(({ dispatcher }) => [...dispatcher.groups])
  t.equal(groups.length, 1, 'all of one group')
  for (const [i, { events }] of watches.entries()) await events.first(expected[i]!.length, 60_000)
  await h.app.drain()
  for (const [i, { body }] of watches.entries()) {
    const seen = linesOf(await body)
    t.same(
      seen.filter((line) => !line.startsWith('BOOKMARK')),
      expected[i],
      `watcher ${i}`,
    )
    t.ok(
      seen.some((line) => line.startsWith('BOOKMARK')),
      'a bookmark is accounted for as well',
    )
  }
})

void t.test('an initial state and an error are compressed too', async (t) => {
  const objects = Object.fromEntries(
    Array.from({ length: 300 }, (_, i) => [
      `pods/default/p${i}`,
      pod(`p${i}`, { spec: { filler: 'x'.repeat(1_000) } }),
    ]),
  )
  const h = await startApp(t, { objects, flags: ['--backfill-revisions', '0', ...AT_ONCE] })
  const error = await bodyOf(await open(watchUrl(h, '&resourceVersion=1')))
  t.match(JSON.parse(gunzipSync(error).toString()), { type: 'ERROR', object: { code: 410 } })
  const watch = await open(watchUrl(h, ''))
  const { events, body } = gather(watch)
  await events.first(300, 60_000)
  await h.app.drain()
  const state = await body
  t.equal(linesOf(state).length, 300)
  t.ok(state.length < gunzipSync(state).length / 5, 'it is a good deal smaller')
})

void t.test('a client can read an event as soon as it is sent', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const response = await open(watchUrl(h, ''))
  const events = new EventReader(response.pipe(createGunzip()))
  await events.first(1)
  for (let i = 2; i < 10; i++) {
    h.put('pods/default/a', pod('a', { labels: { i: String(i) } }))
    await events.first(i)
  }
  t.equal(events.events.length, 9)
  response.destroy()
})

void t.test('a reader that fell behind gets a complete stream too', async (t) => {
  const flags = ['--watch-cache-bytes', '256Mi', ...AT_ONCE]
  const h = await startApp(t, { flags })
  const url = watchUrl(h, '&resourceVersion=1')
  const [slow, fast] = await Promise.all([open(url), open(url)])
  slow.pause()
  const eventsOf = (response: IncomingMessage): EventReader => new EventReader(response.pipe(createGunzip()))
  const seenFast = eventsOf(fast)
  for (let i = 0; i < 300; i++) {
    // A filler that does not compress, so that sockets fill up.
    const filler = Array.from({ length: 3_000 }, (_, j) => Math.imul(i * 7_919 + j, 2_654_435_761).toString(36)).join(
      '',
    )
    h.put(`pods/default/p${i}`, pod(`p${i}`, { spec: { filler } }))
    if (i % 20 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  const seenSlow = eventsOf(slow)
  for (const seen of [seenFast, seenSlow]) await seen.first(300, 60_000)
  await h.app.drain()
  for (const seen of [seenFast, seenSlow]) {
    t.equal((await seen.all()).length, 300)
    t.equal(seen.ending, 'clean')
  }
  t.same(seenSlow.events.map(brief), seenFast.events.map(brief))
})

void t.test('a watch is compressed only for clients that accept it, and that request it where required', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const all = await startApp(t, { flags: ['--compress'], objects: { 'pods/default/a': pod('a') } })
  const rows: readonly [AppHarness, string, Record<string, string>, string | undefined][] = [
    [h, '', GZIP, undefined],
    [h, '&compress=gzip', GZIP, 'gzip'],
    [h, '&compress=gzip', {}, undefined],
    [h, '&compress=gzip', { 'accept-encoding': 'gzip;q=0, br' }, undefined],
    [all, '', GZIP, 'gzip'],
    [all, '', {}, undefined],
    [h, LISTING, GZIP, 'gzip'],
    [h, LISTING, {}, undefined],
    [h, '&sendInitialEvents=true&resourceVersionMatch=NotOlderThan', GZIP, undefined],
    // This is a watch list too: the API server treats version 0 the same.
    [h, '&allowWatchBookmarks=true&resourceVersion=0', GZIP, 'gzip'],
  ]
  for (const [app, query, headers, encoding] of rows) {
    const response = await open(`${app.url}${PODS}?watch=1&timeoutSeconds=1${query}`, headers)
    t.equal(response.headers['content-encoding'], encoding, `${query} ${JSON.stringify(headers)}`)
    response.destroy()
  }
})

void t.test('in a watch that lists, the state is compressed, and events are stored uncompressed', async (t) => {
  const objects = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`)]))
  const h = await startApp(t, { objects, flags: [...secureFlags(), ...AT_ONCE, '--bookmark-interval=60s'] })
  const path = `${PODS}?watch=1${LISTING}`
  const client = connect(h.secureUrl, { rejectUnauthorized: false })
  t.teardown(() => client.destroy())
  const watches = [
    gather(await open(h.url + path)),
    gather(client.request({ ':path': path, ...GZIP })),
    gather(await open(h.url + path, {}), new PassThrough()),
  ]
  await until(() => h.watchers === 3, 'all are open')
  // One is longer than a stored block may be.
  const sizes = [10, 2_000, 70_000, 140_000]
  const changes = sizes.map((size, i) => {
    const filler = 'x'.repeat(size)
    return `MODIFIED p${i}@${h.put(`pods/default/p${i}`, pod(`p${i}`, { spec: { filler } }))}`
  })
  for (const { events } of watches) await events.first(501 + sizes.length, 60_000)
  await h.app.drain()
  const [first, second, plain] = await Promise.all(watches.map(async ({ body }) => await body))
  const wanted = plain!.toString().split('\n').filter(Boolean)
  const state = wanted.findIndex((line) => line.includes('k8s.io/initial-events-end'))
  t.equal(state, 500)
  const stateBytes = Buffer.byteLength(wanted.slice(0, state).join('\n'))
  const eventBytes = Buffer.byteLength(wanted.slice(state + 1).join('\n'))
  for (const body of [first!, second!]) {
    t.equal(gunzipSync(body).toString(), plain!.toString(), 'the same events as without')
    t.same(linesOf(body).slice(501, 501 + sizes.length), changes)
    t.ok(body.length > eventBytes, 'no event was compressed, although each would have been easy to')
    t.ok(body.length < eventBytes + stateBytes / 4, 'the state was')
  }
})

void t.test('each write ends with a flush, because Go holds back stored bytes until one arrives', (t) => {
  for (const compression of ['initial-state', 'everything'] as const) {
    const wire = wireOf(framings['json-lines'], 'http2', compression)
    for (const length of [0, 1, 70_000]) {
      for (const isInitialState of [true, false]) {
        const { bytes } = writeUnit(wire, [Buffer.alloc(length, 'x')], isInitialState)
        t.equal(bytes.subarray(-4).toString('hex'), '0000ffff', `${length} bytes, ${compression}`)
      }
    }
  }
  t.end()
})

void t.test('a compressed watch works over HTTP/2', async (t) => {
  const h = await startApp(t, {
    flags: [...secureFlags(), ...AT_ONCE],
    objects: { 'pods/default/a': pod('a') },
  })
  const client = connect(h.secureUrl, { rejectUnauthorized: false })
  t.teardown(() => client.destroy())
  const stream = client.request({ ':path': `${PODS}?watch=1&compress=gzip`, ...GZIP })
  const { events, body } = gather(stream)
  await until(() => h.watchers === 1, 'it is open')
  const put = h.put('pods/default/b', pod('b'))
  await events.first(2, 60_000)
  await h.app.drain()
  t.same(linesOf(await body), ['ADDED a@2', `ADDED b@${put}`])
})

void t.test('curl, fetch and a browser read a compressed watch', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  void t.test('curl reads to the clean end', async (t) => {
    const watching = promisify(execFile)(curlBinary, ['-sSN', '--compressed', watchUrl(h, '&timeoutSeconds=1')])
    await until(() => h.watchers === 1, 'it is open')
    h.put('pods/default/b', pod('b'))
    const { stdout, stderr } = await watching
    t.equal(stderr, '')
    t.same(
      stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as SeenEvent).object.metadata.name),
      ['a', 'b'],
    )
  })
  void t.test('fetch reads each event as it arrives', async (t) => {
    const response = await fetch(watchUrl(h, ''))
    t.equal(response.headers.get('content-encoding'), 'gzip')
    const decoder = new TextDecoder()
    let text = ''
    for await (const part of response.body!) {
      text += decoder.decode(part as Uint8Array, { stream: true })
      const count = text.split('\n').length - 1
      if (count === 2) h.put('pods/default/c', pod('c'))
      if (count >= 3) break
    }
    t.match(text, '"name":"c"')
  })
  await inBrowser(t, h)
})

async function inBrowser(t: Test, h: AppHarness): Promise<void> {
  await t.test('an EventSource reads each event as it arrives', async (t) => {
    const page = await openPage(t, `${h.url}/livez`)
    await page.evaluate((path) => {
      const context = globalThis as unknown as { seen: string[]; EventSource: new (url: string) => EventTarget }
      context.seen = []
      new context.EventSource(path).addEventListener('ADDED', (event) => {
        const { metadata } = JSON.parse((event as unknown as { data: string }).data) as { metadata: { name: string } }
        context.seen.push(metadata.name)
      })
    }, `${PODS}?watch=1&compress=gzip`)
    const seen = async (count: number): Promise<readonly string[]> => {
      await page.waitForFunction((n) => (globalThis as unknown as { seen: string[] }).seen.length >= n, count)
      return await page.evaluate(() => (globalThis as unknown as { seen: string[] }).seen)
    }
    const before = await seen(3)
    h.put('pods/default/d', pod('d'))
    t.same(await seen(4), [...before, 'd'])
    t.equal([...h.app.sources].flatMap(({ dispatcher }) => [...dispatcher.groups])[0]?.wire.compression, 'everything')
  })
}
