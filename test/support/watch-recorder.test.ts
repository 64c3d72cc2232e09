/** The recorder against scripted answers: whatever a server under test sends, right or wrong, is recorded verbatim. */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { toRevision } from '../../src/engine/model/revision.js'
import { fingerprintOf } from './history.js'
import { LineSplitter } from './json-lines.js'
import { ListError, type Target, WatchRecorder } from './watch-recorder.js'

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }

async function setUp(t: Test, answer: (request: http.IncomingMessage, response: http.ServerResponse) => void) {
  const requests: string[] = []
  const server = http.createServer((request, response) => {
    requests.push(decodeURIComponent(request.url ?? ''))
    answer(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const recorder = new WatchRecorder({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
  t.teardown(() => {
    recorder.close()
    server.closeAllConnections()
    server.close()
  })
  return { recorder, requests }
}

function object(name: string, resourceVersion: number, note = '') {
  return { kind: 'Pod', metadata: { namespace: 'a', name, resourceVersion: String(resourceVersion) }, note }
}

function line(type: string, name: string, resourceVersion: number, note?: string): string {
  return `${JSON.stringify({ type, object: object(name, resourceVersion, note) })}\n`
}

function bookmark(resourceVersion: number, isEnd = false): string {
  const annotations = isEnd ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}
  return `${JSON.stringify({
    type: 'BOOKMARK',
    object: { kind: 'Pod', metadata: { resourceVersion: String(resourceVersion), ...annotations } },
  })}\n`
}

void t.test('lines are found however the bytes were chunked', async (t) => {
  const text = 'first\nzweite Zeile mit ü und 🚀\n\nthird\n'
  const bytes = Buffer.from(text)
  for (let size = 1; size <= bytes.length; size++) {
    const lines: string[] = []
    const splitter = new LineSplitter((line) => lines.push(line))
    for (let at = 0; at < bytes.length; at += size) splitter.push(bytes.subarray(at, at + size))
    if (lines.join('|') !== 'first|zweite Zeile mit ü und 🚀|third') t.fail(`chunks of ${size}: ${lines.join('|')}`)
    if (splitter.pendingBytes !== 0) t.fail(`chunks of ${size} leave ${splitter.pendingBytes} bytes`)
  }
  const splitter = new LineSplitter(() => t.fail('a line that has not ended'))
  splitter.push(Buffer.from('no end'))
  t.equal(splitter.pendingBytes, 6)
})

void t.test('a stream is recorded item by item, and a clean EOF as one', async (t) => {
  const { recorder, requests } = await setUp(t, (_, response) => {
    response.end(
      line('ADDED', 'x', 3) + bookmark(5, true) + line('MODIFIED', 'x', 7) + line('DELETED', 'x', 9) + bookmark(9),
    )
  })
  const watch = recorder.watch({
    target: pods,
    sendInitialEvents: true,
    labelSelector: 'app in (a,b)',
    timeoutSeconds: 3,
  })
  await watch.ended
  const query = 'labelSelector=app+in+(a,b)&watch=true&allowWatchBookmarks=true&sendInitialEvents=true'
  t.same(requests, [`/api/v1/pods?${query}&resourceVersionMatch=NotOlderThan&timeoutSeconds=3`])
  const fingerprint = fingerprintOf(object('x', 0))
  t.same(watch.items, [
    { type: 'ADDED', revision: 3, id: 'a/x', fingerprint },
    { type: 'BOOKMARK', revision: 5, isInitialEventsEnd: true },
    { type: 'MODIFIED', revision: 7, id: 'a/x', fingerprint },
    { type: 'DELETED', revision: 9, id: 'a/x', fingerprint },
    { type: 'BOOKMARK', revision: 9, isInitialEventsEnd: false },
  ])
  t.match(recorder.history().watches, [
    { start: { kind: 'initial', notOlderThan: 'consistent', hasEndMark: true }, end: 'eof' },
  ])
})

void t.test('a fingerprint covers everything but the resourceVersion', async (t) => {
  const base = { kind: 'Pod', metadata: { name: 'x', labels: { a: '1', b: '2' }, resourceVersion: '1' }, spec: [1, 2] }
  const same = { spec: [1, 2], metadata: { resourceVersion: '9', labels: { b: '2', a: '1' }, name: 'x' }, kind: 'Pod' }
  t.equal(fingerprintOf(base), fingerprintOf(same))
  for (const different of [
    { ...base, spec: [2, 1] },
    { ...base, metadata: { ...base.metadata, name: 'y' } },
    { ...base, other: { resourceVersion: '1' } },
  ]) {
    t.not(fingerprintOf(base), fingerprintOf(different))
  }
})

void t.test('the ways in which a watch ends are distinguished', async (t) => {
  const status = { kind: 'Status', code: 410, reason: 'Expired' }
  const { recorder } = await setUp(t, (request, response) => {
    const resourceVersion = new URL(request.url ?? '', 'http://x').searchParams.get('resourceVersion')
    if (resourceVersion === '1') response.end(`${JSON.stringify({ type: 'ERROR', object: status })}\n`)
    else if (resourceVersion === '2') response.writeHead(429).end('{}')
    else if (resourceVersion === '3') response.write(line('ADDED', 'x', 4), () => response.destroy())
    else if (resourceVersion === '4') response.end(line('ADDED', 'x', 5) + line('ADDED', 'y', 6).slice(0, 20))
    else if (resourceVersion === '5') response.write(line('ADDED', 'x', 6))
    else response.end('not JSON\n')
  })
  const ends: unknown[] = []
  for (const resourceVersion of ['1', '2', '3', '4', '5', '6']) {
    const watch = recorder.watch({ target: pods, resourceVersion })
    if (resourceVersion === '5') {
      await watch.until(({ items }) => items.length === 1)
      t.equal(watch.end, 'open')
      watch.destroy()
    }
    await watch.ended
    ends.push([watch.end, watch.code, watch.items.length, watch.malformed !== null])
  }
  t.same(ends, [
    ['error', 410, 0, false],
    ['error', 429, 0, false],
    ['cut', undefined, 1, false],
    ['cut', undefined, 1, false],
    ['cut', undefined, 1, false],
    ['eof', undefined, 0, true],
  ])
  const refused = new WatchRecorder({ url: 'http://127.0.0.1:1' }).watch({ target: pods })
  await refused.ended
  t.equal(refused.end, 'cut')
})

void t.test('a paused watch reads no event until resumed, and then every one', async (t) => {
  const { recorder } = await setUp(t, (_, response) => {
    for (let i = 0; i < 5_000; i++) response.write(line('ADDED', `x${i}`, i + 2, 'y'.repeat(1_000)))
    response.end()
  })
  const watch = recorder.watch({ target: pods, resourceVersion: '1' })
  watch.pause()
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(watch.items.length, 0)
  watch.unpause()
  await watch.until(({ items }) => items.length > 0)
  watch.pause()
  watch.unpause()
  await watch.ended
  t.equal(watch.items.length, 5_000)
})

void t.test('a watch is resumed at its last bookmark, or at its last event, once there is one', async (t) => {
  const streams = [line('ADDED', 'x', 3), line('ADDED', 'x', 3) + bookmark(5, true) + line('MODIFIED', 'x', 7), '']
  const { recorder, requests } = await setUp(t, (_, response) => void response.end(streams.shift()))
  const early = recorder.watch({ target: pods, namespace: 'a', sendInitialEvents: true })
  await early.ended
  t.equal(recorder.resume(early, 'event'), null, 'an initial state that is not complete is not a place to resume at')
  const watch = recorder.watch({ target: pods, namespace: 'a', sendInitialEvents: true })
  await watch.ended
  t.same([watch.lastBookmark, watch.lastRevision], [5, 7])
  const resumed = recorder.resume(watch, 'event')
  await resumed?.ended
  t.equal(requests[2], '/api/v1/namespaces/a/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7')
  t.same(resumed?.record().start, { kind: 'after', revision: 7 })
  t.same([resumed?.lastBookmark, resumed?.lastRevision], [7, 7], 'nothing came: it may start there again')
})

void t.test('waiting for something that can no longer arrive fails', async (t) => {
  const { recorder } = await setUp(t, (_, response) => void response.end(line('ADDED', 'x', 3)))
  const watch = recorder.watch({ target: pods, resourceVersion: '1' })
  await watch.untilRevision(toRevision(3))
  await t.rejects(watch.untilRevision(toRevision(4)), { message: /ended \(eof/ })
})

void t.test('a list is recorded with all its pages and the request that asked for it', async (t) => {
  const { recorder, requests } = await setUp(t, (request, response) => {
    const query = new URL(request.url ?? '', 'http://x').searchParams
    if (query.get('resourceVersion') === '404') return void response.writeHead(410).end('{"kind":"Status"}')
    const isFirst = query.get('limit') === '1' && query.get('continue') === null
    const { kind: _, ...item } = object(isFirst ? 'x' : 'y', isFirst ? 3 : 4)
    const metadata = { resourceVersion: '9', ...(isFirst ? { continue: 'token' } : {}) }
    response.end(JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata, items: [item] }))
  })
  const paged = await recorder.list({ target: pods, limit: 1 })
  t.match(paged, { revision: 9, asked: { kind: 'consistent' }, items: [{ id: 'a/x' }, { id: 'a/y', revision: 4 }] })
  t.equal(paged.items[0]?.fingerprint, fingerprintOf({ ...object('x', 3), apiVersion: 'v1' }))
  t.same(requests, ['/api/v1/pods?limit=1', '/api/v1/pods?limit=1&continue=token'])
  const asked = async (resourceVersion: string, other: { resourceVersionMatch?: 'Exact'; limit?: number }) =>
    (await recorder.list({ target: pods, resourceVersion, ...other })).asked
  t.same(await asked('0', {}), { kind: 'not-older-than', revision: 0 })
  t.same(await asked('7', {}), { kind: 'not-older-than', revision: 7 })
  t.same(await asked('7', { limit: 5 }), { kind: 'exact', revision: 7 })
  t.same(await asked('7', { resourceVersionMatch: 'Exact' }), { kind: 'exact', revision: 7 })
  await t.rejects(recorder.list({ target: pods, resourceVersion: '404' }), new ListError(410, '{"kind":"Status"}'))
  t.equal(recorder.history().lists.length, 5)
})
