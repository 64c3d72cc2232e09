/** Attacks by clients: what each of them may cost has a bound, and everybody else goes on being served. */
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { pod } from '../support/app.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { pause } from './scenario.js'

const MiB = 2 ** 20

async function start(
  t: Test,
  flags: readonly string[],
  filled: number,
): Promise<{ server: ServerProcess; writer: EtcdWriter }> {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const filler = 'x'.repeat(1_000)
  const pods = Array.from({ length: filled }, (_, i) => {
    const object = pod(`p${i}`, { labels: { n: String(i) }, spec: { filler } })
    return [`/registry/pods/default/p${i}`, object] as const
  })
  await writer.fill(new Map(pods))
  await writer.put('/registry/pods/default/first', pod('first'))
  const server = await startServer(t, { flags: ['--etcd-servers', etcd.url, ...flags] })
  return { server, writer }
}

/** Asks, and never reads. */
function silent(t: Test, { port }: ServerProcess, count: number, path: (i: number) => string): Socket[] {
  const sockets = Array.from({ length: count }, (_, i) => {
    const socket = connect(port, '127.0.0.1')
    socket.pause()
    socket.on('error', () => {})
    socket.write(`GET ${path(i)} HTTP/1.1\r\nHost: a\r\n\r\n`)
    return socket
  })
  t.teardown(() => sockets.forEach((socket) => socket.destroy()))
  return sockets
}

void t.test('2,000 connections that ask and never read: memory stays near the target', async (t) => {
  const target = 320 * MiB
  const { server, writer } = await start(
    t,
    [
      '--memory-target',
      String(target),
      '--watch-cache-bytes',
      '32Mi',
      '--max-initial-states',
      '16',
      '--list-cache-bytes',
      '16Mi',
    ],
    3_000,
  )
  const revision = await writer.put('/registry/pods/default/first', pod('first'))
  const healthy = new LightWatcher(`${server.url}/api/v1/pods?watch=1&resourceVersion=${revision}`)
  t.teardown(() => healthy.destroy())
  await healthy.until(({ status }) => status === 200)
  silent(t, server, 700, () => '/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan')
  silent(t, server, 300, (i) => `/api/v1/pods?labelSelector=n!%3D${i}&resourceVersion=0`)
  silent(t, server, 1_000, (i) => `/api/v1/pods?watch=1&resourceVersion=${revision}&labelSelector=n!%3D${i % 200}`)
  await pause(500)
  const filler = 'y'.repeat(100_000)
  let last = 0
  for (let i = 0; i < 300; i++) {
    last = await writer.put(`/registry/pods/default/big${i % 20}`, pod(`big${i % 20}`, { spec: { filler, i } }))
    // It shares its event loop with the attackers, and is not to be taken for one of them.
    if (i % 25 === 24) await healthy.until(({ revisions }) => revisions.at(-1) === last)
  }
  await healthy.until(({ revisions }) => revisions.at(-1) === last)
  t.equal(healthy.revisions.length, 300, 'who reads gets everything')
  // A target, and no limit: what had begun when it was reached goes on, and garbage is collected when V8 sees fit.
  const { peak } = server.memory()
  t.ok(peak < target * 1.5, `${Math.round(peak / MiB)} MiB at the most, of ${target / MiB}`)
  t.ok(total(await server.metrics(), 'distributary_http_rejected_total') > 0, 'the rest was refused, and counted')
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
})

void t.test('6,000 distinct selectors leave nothing behind', async (t) => {
  const { server } = await start(t, [], 50)
  const ask = async (from: number, count: number): Promise<void> => {
    const lane = async (first: number): Promise<void> => {
      for (let i = first; i < from + count; i += 8) {
        const selector = encodeURIComponent(`n!=${i},key${i} notin (a,b${i})`)
        const path = `/api/v1/pods?resourceVersion=0&labelSelector=${selector}`
        const watch =
          i % 4 === 0 ? '&watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan' : ''
        const answer = await fetch(`${server.url}${path}${i % 40 === 0 ? watch : ''}`)
        await answer.body?.cancel()
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, lane1) => lane(from + lane1)))
  }
  await ask(0, 3_000)
  const half = server.memory().now
  await ask(3_000, 3_000)
  const whole = server.memory().now
  // What is not collected yet counts as well: a bound on growth, not a measure of it.
  t.ok(whole - half < 96 * MiB, `${Math.round((whole - half) / MiB)} MiB more for the second half`)
  let groups = 1
  for (let i = 0; i < 100 && groups > 0; i++, await pause(100)) {
    groups = total(await server.metrics(), 'distributary_broadcast_groups')
  }
  t.equal(groups, 0, 'no group outlives its watchers')
})

void t.test('requests that come a byte at a time are ended, and nobody waits for them', async (t) => {
  const { server } = await start(t, [], 10)
  const sockets = silent(t, server, 0, () => '')
  let closed = 0
  for (let i = 0; i < 300; i++) {
    const socket = connect(server.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.on('close', () => closed++)
    socket.resume()
    socket.write(i % 2 === 0 ? 'GET /api/v1/pods HTTP/1.1\r\nHo' : 'GE')
    sockets.push(socket)
  }
  t.teardown(() => sockets.forEach((socket) => socket.destroy()))
  const drip = setInterval(() => sockets.forEach((socket) => socket.writable && socket.write('x')), 1_000)
  t.teardown(() => clearInterval(drip))
  const startedAt = performance.now()
  let slowest = 0
  while (closed < 300 && performance.now() - startedAt < 45_000) {
    const askedAt = performance.now()
    const answer = await fetch(`${server.url}/api/v1/pods`)
    t.equal(answer.status === 200, true)
    await answer.arrayBuffer()
    slowest = Math.max(slowest, performance.now() - askedAt)
    await pause(500)
  }
  t.equal(closed, 300, `all were ended in ${Math.round(performance.now() - startedAt)} ms`)
  t.ok(slowest < 2_000, `others were answered in ${Math.round(slowest)} ms at the most`)
})

void t.test('what is too large is refused in one clear answer', async (t) => {
  const { server } = await start(t, [], 10)
  const url = `${server.url}/api/v1/pods`
  t.equal((await fetch(`${url}?limit=999999999999999`)).status, 200, 'a limit beyond everything is everything')
  t.equal((await fetch(`${url}?limit=99999999999999999999999`)).status, 400)
  t.equal((await fetch(`${url}?labelSelector=${'a'.repeat(60_000)}`)).status, 400)
  t.equal((await fetch(`${url}?labelSelector=${'a'.repeat(200_000)}`)).status, 431)
  t.equal((await fetch(url, { headers: { 'x-long': 'a'.repeat(200_000) } })).status, 431)
  const many = Array.from({ length: 5_000 }, (_, i) => `k${i}`).join(',')
  t.ok([200, 400].includes((await fetch(`${url}?labelSelector=${many}`)).status))
  const posted = await fetch(url, { method: 'POST', body: 'x'.repeat(3 * MiB) }).catch(() => null)
  t.ok(posted === null || (posted.status >= 400 && posted.status < 500))
  t.equal((await fetch(url)).status, 200)
})
