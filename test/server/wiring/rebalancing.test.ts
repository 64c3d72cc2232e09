/**
 * `--rebalance` in one process: over every transport, a connection that moves takes no further request, and its watches
 * end whole, at a position from which its client resumes.
 */
import { request } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { createGunzip } from 'node:zlib'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import type { Logger } from '../../../src/support/log.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { endpointSlice } from '../../support/endpoint-slice.js'
import { EventReader } from '../../support/event-reader.js'
import { pod } from '../../support/pod.js'
import { secureFlags } from '../../support/secure-flags.js'
import { SkippingClock } from '../../support/skipping-clock.js'
import { until } from '../../support/until.js'

const WATCH = '/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=2'
const SLICE = 'endpointslices/default/web-1'
const [OLD, NEW] = [
  { uid: 'old', name: 'web-7c9f-aaaaa' },
  { uid: 'new', name: 'web-7c9f-bbbbb' },
]

interface Opened {
  /** Whether the connection has ended. */
  isGone(): boolean
  /** The type of the last event of each watch. */
  lastWords(): readonly string[]
}

/** One connection with one or more watches. */
type Open = (t: Test, h: AppHarness) => Opened

const lastOf = (reader: EventReader): string => `${reader.ending} ${reader.events.at(-1)?.type}`

const overHttp2: Open = (t, h) => {
  const client = connectHttp2(h.secureUrl, { rejectUnauthorized: false })
  client.on('error', () => {})
  t.teardown(() => client.destroy())
  let hasGoaway = false
  client.once('goaway', (code) => (hasGoaway = code === 0))
  const readers = [0, 1, 2].map(() => new EventReader(client.request({ ':path': WATCH })))
  return { isGone: () => hasGoaway && client.destroyed, lastWords: () => readers.map(lastOf) }
}

const overHttp1 =
  (encoding?: string): Open =>
  (t, h) => {
    const headers = { connection: 'keep-alive', ...(encoding === undefined ? {} : { 'accept-encoding': encoding }) }
    const sent = request(`${h.url}${WATCH}${encoding === undefined ? '' : '&compress=gzip'}`, { headers })
    let [isGone, reader]: [boolean, EventReader | null] = [false, null]
    sent.on('response', (answer) => {
      reader = new EventReader(encoding === undefined ? answer : answer.pipe(createGunzip()))
      answer.socket.once('close', () => (isGone = true))
    })
    sent.end()
    t.teardown(() => sent.destroy())
    return { isGone: () => isGone, lastWords: () => [reader === null ? '' : lastOf(reader)] }
  }

const overWebSocket: Open = (t, h) => {
  const socket = new WebSocket(`${h.url.replace('http', 'ws')}${WATCH}`)
  t.teardown(() => socket.terminate())
  let [last, code] = ['', 0]
  socket.on('message', (data: Buffer) => (last = (JSON.parse(data.toString()) as { type: string }).type))
  socket.on('close', (closed) => (code = closed))
  return { isGone: () => code === 1000, lastWords: () => [`clean ${last}`] }
}

const TRANSPORTS: readonly [name: string, open: Open, watches: number][] = [
  ['HTTP/2, with several watches', overHttp2, 3],
  ['HTTP/1.1', overHttp1(), 1],
  ['HTTP/1.1 with gzip', overHttp1('gzip'), 1],
  ['a WebSocket', overWebSocket, 1],
]

async function start(t: Test, flags: readonly string[] = []) {
  const clock = new SkippingClock()
  const lines: { message: string; fields: Readonly<Record<string, unknown>> }[] = []
  const record = (fields: object, message: string): void => void lines.push({ message, fields: { ...fields } })
  const logger: Logger = { debug() {}, info: record, warn: record, error: record }
  const h = await startApp(t, {
    flags: [...secureFlags(), ...flags],
    config: { rebalance: 'default/web', podUid: OLD.uid },
    objects: { 'pods/default/a': pod('a'), [SLICE]: endpointSlice('web-1', 'web', [OLD]) },
    clock,
    logger,
  })
  const moves = () => lines.filter(({ message }) => message === 'moved connections to new replicas')
  return { h, clock, moves }
}

for (const [name, open, watches] of TRANSPORTS) {
  void t.test(`a connection over ${name} moves to a new pod`, async (t) => {
    const { h, clock, moves } = await start(t)
    const opened = [open(t, h), open(t, h)]
    await until(() => h.watchers === 2 * watches, 'both watch')
    // Only a watch that has caught up ends with a bookmark.
    h.put('pods/default/b', pod('b'))
    await until(() => opened.every((one) => one.lastWords().every((word) => word.endsWith('ADDED'))), 'both see it')
    await clock.skip(62_000, 2_000)
    h.put(SLICE, endpointSlice('web-1', 'web', [OLD, NEW]))
    await clock.skip(58_000, 2_000)
    t.equal(h.watchers, 2 * watches, 'nothing moves in the first minute')
    await clock.skip(60_000, 1_000)
    const isWhole = (one: Opened): boolean => one.isGone() && one.lastWords().every((word) => !word.startsWith('null'))
    await until(() => opened.some(isWhole), 'one connection ends')
    const gone = opened.find((one) => one.isGone())!
    t.same(gone.lastWords(), Array<string>(watches).fill('clean BOOKMARK'))
    t.equal(h.watchers, watches, 'the other stays')
    t.match(moves(), [
      { fields: { outcome: 'balanced', service: 'default/web', newPods: 1, before: 2, target: 1, closed: 1 } },
    ])
    const { text } = await h.app.metrics.expose()
    for (const sample of [
      'rebalances_total{outcome="balanced"} 1',
      'rebalanced_connections_total 1',
      `broadcast_watchers_ended_total{group="",resource="pods",reason="rebalance"} ${watches}`,
    ])
      t.ok(text.includes(`distributary_${sample}\n`), sample)
  })
}

void t.test('readiness says where nothing can move, and stays ready', async (t) => {
  const { h } = await start(t)
  const answer = async (): Promise<string> => await (await fetch(`${h.url}/readyz?verbose`)).text()
  t.match(await answer(), /\[\+\]rebalance ok/)
  h.put(SLICE, endpointSlice('web-1', 'web', [NEW]))
  h.put('endpointslices/default/other-1', endpointSlice('other-1', 'other', [OLD]))
  h.put('endpointslices/kube-system/web-1', endpointSlice('web-1', 'web', [OLD], 'kube-system'))
  const isMissing = async (): Promise<boolean> =>
    (await answer()).includes('[*]rebalance moves no connections: this pod is not an endpoint of default/web')
  await until(isMissing, 'the slices of other Services do not count')
  t.equal(h.app.isReady, true)
  h.put('endpointslices/default/web-2', endpointSlice('web-2', 'web', [OLD]))
  await until(async () => !(await isMissing()), 'all slices of the Service count')
})

void t.test('where clients stay on their node, nothing moves', async (t) => {
  const { h, clock, moves } = await start(t)
  const spec = { type: 'ClusterIP', internalTrafficPolicy: 'Local' }
  h.put('services/specs/default/web', {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: { name: 'web', namespace: 'default', uid: 'service' },
    spec,
  })
  const opened = [0, 1].map(() => overWebSocket(t, h))
  await until(() => h.watchers === 2, 'both watch')
  await clock.skip(62_000, 2_000)
  h.put(SLICE, endpointSlice('web-1', 'web', [OLD, NEW]))
  await clock.skip(120_000, 2_000)
  t.same([moves().length, opened.filter((one) => one.isGone()).length], [0, 0])
  t.match(
    await (await fetch(`${h.url}/readyz?verbose`)).text(),
    '[*]rebalance moves no connections: clients of default/web stay on their node: it has a Local policy',
  )
})

void t.test('a watch that could not end with a position stays', async (t) => {
  const { h, clock, moves } = await start(t)
  const filler = 'x'.repeat(60_000)
  h.commit(
    Object.fromEntries(
      Array.from({ length: 400 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`, { annotations: { filler } })]),
    ),
  )
  await clock.skip(62_000, 2_000)
  h.put(SLICE, endpointSlice('web-1', 'web', [OLD, NEW]))
  await clock.skip(58_000, 2_000)
  // Clients that do not read their initial state, which is larger than the buffers of a connection.
  const path = '/api/v1/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
  for (let i = 0; i < 6; i++) {
    const socket = connectTcp(h.port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.pause().write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
  }
  await until(() => h.watchers === 6, 'all watch')
  // A client that reads nothing is cut off after 30 s.
  await clock.skip(24_000, 2_000)
  t.same([h.watchers, moves().length], [6, 0])
})

void t.test('a watch whose client would not learn its position stays', async (t) => {
  const { h, clock, moves } = await start(t)
  // It has no bookmarks, and sees none of the events.
  const path = '/api/v1/pods?watch=1&resourceVersion=1&labelSelector=none'
  for (let i = 0; i < 6; i++) {
    const sent = request(`${h.url}${path}`).on('error', () => {})
    sent.end()
    t.teardown(() => sent.destroy())
  }
  await until(() => h.watchers === 6, 'all watch')
  h.put('pods/default/b', pod('b'))
  await clock.skip(62_000, 2_000)
  h.put(SLICE, endpointSlice('web-1', 'web', [OLD, NEW]))
  await clock.skip(190_000, 2_000)
  t.equal(h.watchers, 6)
  t.match(moves(), [{ fields: { outcome: 'no-progress', closed: 0 } }])
})
