/**
 * A quiet watch shows a sign of life over an etcd whose progress cannot be trusted (3.4.23), although its start is ahead
 * of the cache: in every process form, over every transport.
 */
import http from 'node:http'
import http2 from 'node:http2'
import { createGunzip } from 'node:zlib'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { startNats } from '../support/nats-process.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const OTHERS = '/apis/distributary.io/v1/others?watch=1&allowWatchBookmarks=1'

interface Received {
  bytes: Buffer
  isOver: boolean
}

function openHttp1(t: Test, url: string, headers: Readonly<Record<string, string>>): Received {
  const received = { bytes: Buffer.alloc(0), isOver: false }
  const request = http.get(url, { headers, agent: false }, (response) => {
    const body = response.headers['content-encoding'] === 'gzip' ? response.pipe(createGunzip()) : response
    body.on('data', (bytes: Buffer) => (received.bytes = Buffer.concat([received.bytes, bytes])))
    body.on('error', () => (received.isOver = true))
    response.on('close', () => (received.isOver = true))
  })
  request.on('error', () => (received.isOver = true))
  t.teardown(() => request.destroy())
  return received
}

function openHttp2(t: Test, url: string, path: string): Received {
  const received = { bytes: Buffer.alloc(0), isOver: false }
  const session = http2.connect(url)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':path': path })
  stream.on('data', (bytes: Buffer) => (received.bytes = Buffer.concat([received.bytes, bytes])))
  stream.on('close', () => (received.isOver = true))
  return received
}

function openWebSocket(t: Test, url: string): Received & { pings: number } {
  const received = { bytes: Buffer.alloc(0), isOver: false, pings: 0 }
  const socket = new WebSocket(url.replace('http:', 'ws:'))
  socket.on('message', (bytes: Buffer) => (received.bytes = Buffer.concat([received.bytes, bytes])))
  socket.on('ping', () => received.pings++)
  socket.on('close', () => (received.isOver = true))
  t.teardown(() => socket.terminate())
  return received
}

for (const form of ['one process', 'workers', 'an edge over NATS', 'a chain'] as const) {
  void t.test(`${form}: quiet watches show that they are alive, and at which position`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    await writer.put('/config/flags/a', 'on')
    await writer.put('/other/x', '1')
    // prettier-ignore
    const resources = [
      '--resource', 'flags=/config/flags/,others=/other/', '--kubernetes-resources', 'never', '--bookmark-interval', '1s',
    ]
    const direct = ['--etcd-servers', etcd.url, ...resources]
    let flags = form === 'workers' ? [...direct, '--workers', '2'] : direct
    if (form === 'an edge over NATS') {
      const nats = ['--nats-servers', (await startNats(t)).url]
      await startServer(t, { flags: [...direct, ...nats], isSurrounded: false })
      flags = [...resources, ...nats, '--nats-role', 'edge']
    } else if (form === 'a chain') {
      const port = await freePort()
      await startServer(t, { flags: [...direct, '--port', String(port)], isSurrounded: false })
      flags = ['--upstream', `http://127.0.0.1:${port}`, '--bookmark-interval', '1s']
    }
    const server = await startServer(t, { flags, isSurrounded: false })
    const revision = await writer.put('/elsewhere/k', '1')
    const url = `${server.url}${OTHERS}`
    const initial = '&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion='
    const streams: Readonly<Record<string, Received>> = {
      'HTTP/1.1': openHttp1(t, url, {}),
      gzip: openHttp1(t, `${url}&compress=gzip`, { 'accept-encoding': 'gzip' }),
      'HTTP/2': openHttp2(t, server.url, OTHERS),
      'after the list': openHttp1(t, `${url}&resourceVersion=${revision}`, {}),
      'a streaming list': openHttp1(t, url + initial, {}),
      WebSocket: openWebSocket(t, url),
    }
    const positions = ({ bytes }: Received): string[] =>
      [...bytes.toString().matchAll(/"BOOKMARK".*?"resourceVersion":"(\d+)"/g)].map((found) => found[1]!)
    for (const [kind, received] of Object.entries(streams)) {
      await until(
        () => positions(received).length >= 3 || received.isOver,
        () => `${kind}: ${received.bytes.toString()}`,
        30_000,
      )
      t.equal(received.isOver, false, kind)
      t.same(new Set(positions(received)), new Set([String(revision)]), kind)
    }
    // Nothing may be lost that comes afterwards.
    const next = String(await writer.put('/other/y', '2'))
    for (const [kind, received] of Object.entries(streams)) {
      const added = (): boolean => received.bytes.toString().includes(`"resourceVersion":"${next}"`)
      await until(added, kind)
    }
  })
}

void t.test('a quiet EventSource gets a comment, and a quiet WebSocket a ping', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.put('/other/x', '1')
  const flags = ['--etcd-servers', etcd.url, '--resource', 'others=/other/']
  const server = await startServer(t, { flags, isSurrounded: false })
  const revision = await writer.put('/elsewhere/k', '1')
  const path = `${server.url}/apis/distributary.io/v1/others?watch=1`
  const events = openHttp1(t, path, { accept: 'text/event-stream' })
  const compressed = openHttp1(t, `${path}&compress=gzip`, { accept: 'text/event-stream', 'accept-encoding': 'gzip' })
  const socket = openWebSocket(t, path)
  const hasComment = ({ bytes }: Received): boolean => bytes.toString().includes('\n:\n\n')
  await until(() => [events, compressed].every(hasComment) && socket.pings > 0, 'signs of life', 40_000)
  const blocks = events.bytes.toString().split('\n\n').slice(1, -1)
  t.equal(blocks[1], `id: ${revision}`, 'the position, once')
  t.same(new Set(blocks.slice(2)), new Set([':']), 'then comments')
})
