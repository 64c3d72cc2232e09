/**
 * Clients attack: what each of them may cost is bounded, and all others are served.
 *
 * `TEST_LONG` runs the attacks at full size: 10,000 connections that never read, a million selectors.
 */
import { execFileSync } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Matcher } from '../../src/engine/broadcast/matcher.js'
import { factSource } from '../support/fact-source.js'
import { FactRegistry } from '../../src/engine/broadcast/fact-registry.js'
import { EVERY_FIELD } from '../../src/kubernetes/dialect/field-selector.js'
import { parseLabelSelector } from '../../src/kubernetes/dialect/label-selector.js'
import { Selector } from '../../src/kubernetes/dialect/selector.js'
import { pod } from '../support/pod.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { only } from '../support/only.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { pause, until } from '../support/until.js'

const MAX_PATHS = 256

const MiB = 2 ** 20
const isLong = process.env['TEST_LONG'] !== undefined

async function start(
  t: Test,
  flags: readonly string[],
  filled: number,
  nodeOptions = '',
): Promise<{ server: ServerProcess; writer: EtcdWriter }> {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const filler = 'x'.repeat(1_000)
  const pods = Array.from({ length: filled }, (_, i) => {
    const object = pod(`p${i}`, { labels: { n: String(i) }, annotations: { filler } })
    return [`/registry/pods/default/p${i}`, object] as const
  })
  await writer.fill(new Map(pods))
  await writer.put('/registry/pods/default/first', pod('first'))
  const server = await startServer(t, {
    flags: [...only('pods'), '--etcd-servers', etcd.url, ...flags],
    environment: { NODE_OPTIONS: nodeOptions },
  })
  return { server, writer }
}

/** Opens connections that send a request and never read. */
function silent(t: Test, { port }: ServerProcess, count: number, path: (i: number) => string): Socket[] {
  const sockets = Array.from({ length: count }, (_, i) => {
    const socket = connect(port, '127.0.0.1')
    socket.pause()
    socket.on('error', () => {})
    socket.write(`GET ${path(i)} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    return socket
  })
  t.teardown(() => sockets.forEach((socket) => socket.destroy()))
  return sockets
}

const CROWD = isLong ? 10_000 : 2_000
const descriptors = Number(
  execFileSync('/bin/sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).replace('unlimited', '1e9'),
)
const tooFew =
  descriptors > CROWD + 500 ? false : `a process may open ${descriptors} files here, ${CROWD + 500} are needed`

void t.test(
  `memory stays near the target with ${CROWD} connections that send requests and never read`,
  { skip: tooFew },
  async (t) => {
    const target = isLong ? 512 * MiB : 320 * MiB
    const { server, writer } = await start(
      t,
      [
        '--memory-target',
        String(target),
        '--watch-cache-bytes',
        '32Mi',
        '--max-initial-states',
        '16',
        '--config',
        join(t.testdir({ 'config.yaml': 'listCacheBytes: 16MiB\n' }), 'config.yaml'),
      ],
      3_000,
    )
    const revision = await writer.put('/registry/pods/default/first', pod('first'))
    const healthy = new LightWatcher(`${server.url}/api/v1/pods?watch=1&resourceVersion=${revision}`)
    t.teardown(() => healthy.destroy())
    await healthy.until(({ status }) => status === 200)
    const share = CROWD / 20
    silent(t, server, 7 * share, () => '/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan')
    silent(t, server, 3 * share, (i) => `/api/v1/pods?labelSelector=n!%3D${i}&resourceVersion=0`)
    silent(
      t,
      server,
      10 * share,
      (i) => `/api/v1/pods?watch=1&resourceVersion=${revision}&labelSelector=n!%3D${i % 200}`,
    )
    await pause(500)
    const filler = 'y'.repeat(100_000)
    let last = 0
    for (let i = 0; i < 300; i++) {
      const big = pod(`big${i % 20}`, { annotations: { filler, i: String(i) } })
      last = await writer.commit({ [`/registry/pods/default/big${i % 20}`]: big }, 60_000)
      // The reader shares its event loop with the attackers and must not be mistaken for one of them: when memory is
      // short, the ring holds about twenty of these events.
      if (i % 8 === 7) await healthy.until(({ revisions }) => revisions.at(-1) === last, 120_000)
    }
    await healthy.until(({ revisions }) => revisions.at(-1) === last, 120_000)
    t.equal(healthy.revisions.length, 300, 'who reads gets everything')
    // The target is not a limit: running work continues when it is reached, and V8 collects garbage when it sees fit.
    const { peak } = server.memory()
    const metrics = await server.metrics()
    t.comment(
      `${CROWD} connections: ${Math.round(peak / MiB)} MiB at the most, target ${target / MiB}; ` +
        `${total(metrics, 'distributary_broadcast_watchers')} watchers, ` +
        `${total(metrics, 'distributary_http_rejected_total')} refused, ` +
        `${Math.round(total(metrics, 'distributary_broadcast_socket_bytes') / MiB)} MiB in sockets`,
    )
    // With workers, the whole server has the target once for each process (`test/forms/workers.ts`).
    const whole = target * server.pids().length
    t.ok(peak < whole * 1.5, `${Math.round(peak / MiB)} MiB at the most, of ${whole / MiB}`)
    // Requests are refused only after they have waited for a slot.
    const refused = async (): Promise<number> => total(await server.metrics(), 'distributary_http_rejected_total')
    await until(async () => (await refused()) > 0, 'the rest is refused, and counted')
    t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  },
)

void t.test('2,000 requests with distinct selectors leave no memory behind', async (t) => {
  // How many new objects V8 lets accumulate before collecting depends on its version: here, not many.
  const { server } = await start(t, [], 50, '--max-semi-space-size=2')
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
  await ask(0, 1_000)
  const half = server.memory().now
  await ask(1_000, 1_000)
  // Garbage counts until it is collected, which happens late under Bun; a leak would stay. This only bounds the growth.
  const grown = (): number => Math.round((server.memory().now - half) / MiB)
  await until(
    () => grown() < 96,
    () => `${grown()} MiB more for the second half`,
  )
  let groups = 1
  for (let i = 0; i < 100 && groups > 0; i++, await pause(100)) {
    groups = total(await server.metrics(), 'distributary_broadcast_groups')
  }
  t.equal(groups, 0, 'no group outlives its watchers')
})

const selectors = isLong ? 1_000_000 : 50_000
void t.test(`${selectors} distinct selectors, each with its own labels, leave no memory behind`, (t) => {
  const facts = new FactRegistry(factSource())
  const bytes = Buffer.from(JSON.stringify(pod('a', { labels: { app: 'web' } })))
  const object = {
    scope: 'default',
    name: 'a',
    bytes,
    notes: { facts: null, conformsTo: null, identityHead: -1 },
  } as never
  const heap = (): number => process.memoryUsage().heapUsed + process.memoryUsage().external
  const use = (from: number, count: number): void => {
    for (let i = from; i < from + count; i++) {
      const labels = parseLabelSelector(`n!=${i},key${i} notin (a,b${i})`)
      const matcher = new Matcher('', new Selector({ labels, fields: EVERY_FIELD, shard: null }), facts, 'v1')
      matcher.matches(object)
      matcher.close()
    }
  }
  use(0, selectors / 10)
  const before = heap()
  use(selectors / 10, (selectors * 9) / 10)
  const grown = (heap() - before) / MiB
  t.comment(`${Math.round(grown)} MiB more than after a tenth of them`)
  t.ok(grown < 96, 'what is not collected yet counts as well')
  t.equal(facts.pathsInUse, 0)
  t.end()
})

void t.test('watches that each use their own label do not keep others out, and get their events', async (t) => {
  const { server, writer } = await start(t, [], 200)
  const revision = await writer.put('/registry/pods/default/first', pod('first'))
  const watch = (label: string): LightWatcher =>
    new LightWatcher(`${server.url}/api/v1/pods?watch=1&resourceVersion=${revision}&labelSelector=${label}`)
  const crowd = Array.from({ length: MAX_PATHS + 44 }, (_, i) => watch(`attack${i}`))
  const honest = [watch('n%21%3D1'), watch('n%3D7')]
  t.teardown(() => [...honest, ...crowd].forEach((watcher) => watcher.destroy()))
  await Promise.all([...honest, ...crowd].map((watcher) => watcher.until(({ status }) => status === 200)))
  for (const selector of ['labelSelector=other', 'labelSelector=n', 'fieldSelector=spec.nodeName%3Dn1']) {
    const listed = await fetch(`${server.url}/api/v1/pods?resourceVersion=0&${selector}`)
    t.equal(listed.status, 200, selector)
  }
  const put = await writer.put('/registry/pods/default/p7', pod('p7', { labels: { n: '7', attack290: '' } }))
  const owed = [...honest, crowd[290]!]
  await Promise.all(owed.map((watcher) => watcher.until(({ revisions }) => revisions.at(-1) === put)))
  t.ok(
    crowd.every(({ end }) => end !== 'eof'),
    'nobody is refused',
  )
})

void t.test('a request that is too large is refused with one clear error', async (t) => {
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
  const leaving = new AbortController()
  const looking = Array.from({ length: 51 }, () => fetch(`${server.url}/ui/events`, { signal: leaving.signal }))
  const codes = (await Promise.all(looking)).map(({ status }) => status)
  t.same(
    codes.filter((code) => code !== 200),
    [429],
    'so many look at the status page, and no more',
  )
  leaving.abort()
  const metrics = await server.metrics()
  t.equal(metrics.get('distributary_http_rejected_total{limit="headers"}'), 2)
  t.equal(metrics.get('distributary_http_rejected_total{limit="status-pages"}'), 1)
})
