/**
 * Tests `--workers 2` as its users run it: with processes that are killed, a real etcd, and every guarantee checked
 * over what clients saw.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { assertGuarantees } from '../guarantees/validate.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { recordEtcdHistory } from '../support/etcd-history.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { only } from '../support/only.js'
import { runServer, type ServerProcess, startServer, total } from '../support/server-process.js'
import { type RecordedWatch, type Target, WatchRecorder } from '../support/watch-recorder.js'

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
const WATCHERS = 100
const WORKERS = 2

const podKey = (i: number): string => `/registry/pods/default/web-${String(i).padStart(4, '0')}`
const podAt = (i: number, note: string): object => pod(podKey(i).split('/').at(-1)!, { labels: { note } })

interface Scene {
  readonly etcd: EtcdProcess
  readonly writer: EtcdWriter
  readonly server: ServerProcess
}

async function startScene(t: Test, pods: number, flags: readonly string[] = []): Promise<Scene> {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const objects = new Map<string, Written>()
  for (let i = 0; i < pods; i++) objects.set(podKey(i), podAt(i, 'first'))
  await writer.fill(objects)
  const server = await startServer(t, {
    flags: [...only('pods'), '--etcd-servers', etcd.url, '--workers', String(WORKERS), ...flags],
    ready: false,
  })
  await until(() => isWhole(server), 'both workers are ready')
  return { etcd, writer, server }
}

/** Waits until every worker serves and every resource is ready in all of them. */
async function isWhole(server: ServerProcess): Promise<boolean> {
  const samples = await server.metrics()
  if (samples.get('distributary_workers') !== WORKERS) return false
  return [...samples].every(([name, value]) => !name.startsWith('distributary_cache_ready') || value === 1)
}

function workersOf({ pid }: ServerProcess): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return text.split(' ').filter(Boolean).map(Number)
}

/** Whether a process is running; one that has exited but has not been reaped is not. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** Returns the number of client connections that the process holds, as `ss` shows them. */
function connectionsOf(server: ServerProcess, pid: number): number {
  const lines = execFileSync('ss', ['-tnpH', `sport = :${server.port}`], { encoding: 'utf8' }).split('\n')
  return lines.filter((line) => line.includes(`pid=${pid},`)).length
}

void t.test(
  'watchers of a killed worker resume on another, lose no event, and cause no new read of etcd',
  async (t) => {
    const { etcd, writer, server } = await startScene(t, 300)
    const control = await recordEtcdHistory(t, etcd)
    const recorder = new WatchRecorder({ url: server.url })
    t.teardown(() => recorder.close())

    const watches = (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total')
    const first = await writer.put(podKey(0), podAt(0, 'before'))
    const running = new Set<RecordedWatch>()
    let resumed = 0
    const codes = new Set<number>()
    const follow = (watch: RecordedWatch): void => {
      running.add(watch)
      void watch.ended.then(() => {
        running.delete(watch)
        if (watch.code !== undefined) codes.add(watch.code)
        if (isOver) return
        // Retries as a client does: at once, and repeatedly until a worker answers.
        setTimeout(() => {
          const next = recorder.resume(watch, 'event')
          if (next !== null && !isOver) follow(next)
        }, 20)
        resumed++
      })
    }
    let isOver = false
    for (let i = 0; i < WATCHERS; i++) follow(recorder.watch({ target: pods, resourceVersion: String(first) }))
    await until(async () => total(await server.metrics(), 'distributary_broadcast_watchers') === WATCHERS, 'all watch')

    const before = workersOf(server)
    t.equal(before.length, WORKERS)
    // The kernel distributes the connections: a busy worker accepts fewer.
    const held = before.map((pid) => connectionsOf(server, pid))
    t.ok(held.reduce((sum, count) => sum + count, 0) >= WATCHERS, `the workers hold ${held.join(' and ')} connections`)
    t.equal(connectionsOf(server, server.pid), 0, 'the primary holds none')

    let written = 0
    const write = async (): Promise<void> => {
      written++
      await writer.put(podKey(written % 300), podAt(written % 300, `n${written}`))
    }
    for (let i = 0; i < 100; i++) await write()
    process.kill(before[0]!, 'SIGKILL')
    for (let i = 0; i < 100; i++) await write()
    await until(() => isWhole(server), 'another worker is ready')
    // The replacement has the history too: the other worker is killed, so that all watchers have to resume at the
    // replacement.
    process.kill(before[1]!, 'SIGKILL')
    for (let i = 0; i < 100; i++) await write()
    await until(() => isWhole(server), 'both are there again')

    const last = await writer.put(podKey(0), podAt(0, 'last'))
    await until(() => running.size === WATCHERS, 'everybody watches again')
    await Promise.all([...running].map((watch) => watch.untilRevision(last)))
    await recorder.list({ target: pods })
    await recorder.list({ target: pods, limit: 7 })
    isOver = true
    const samples = await server.metrics()
    t.ok(resumed >= WATCHERS, `${resumed} watches were taken up again`)
    t.same([...codes], [], 'none was refused: no 410, so nobody listed')
    t.equal(total(samples, 'distributary_feed_relists_total'), 0)
    t.equal(samples.get('distributary_worker_restarts_total'), 2)
    t.equal(total(samples, 'distributary_broadcast_watchers'), WATCHERS)
    t.equal((await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total'), watches, 'etcd saw nothing of it')

    const reference = await control.finish()
    assertGuarantees(t, recorder.history(writer.writes), reference, { settledRevision: last })
  },
)

void t.test('a scrape merges the metrics of all workers: it sums shares and does not sum replicas', async (t) => {
  const { server } = await startScene(t, 50, ['--metrics-bind-address', '127.0.0.1:0'])
  const recorder = new WatchRecorder({ url: server.url })
  t.teardown(() => recorder.close())
  for (let i = 0; i < 20; i++) recorder.watch({ target: pods, sendInitialEvents: true })
  await until(async () => total(await server.metrics(), 'distributary_broadcast_watchers') === 20, 'all watch')
  await recorder.list({ target: pods })
  for (let i = 0; i < 4; i++) {
    const samples = await server.metrics()
    t.equal(samples.get('distributary_cache_objects{group="",resource="pods"}'), 50)
    t.equal(samples.get('distributary_cache_ready{group="",resource="pods"}'), 1)
    t.equal(total(samples, 'distributary_build_info'), 1)
    t.equal(total(samples, 'distributary_broadcast_watchers'), 20)
    t.equal(samples.get('distributary_feed_initializations_total{group="",resource="pods"}'), 1)
    t.equal(samples.get('distributary_http_requests_total{verb="list",group="",resource="pods",code="200"}'), 1)
  }
  for (const pid of workersOf(server)) {
    process.kill(pid, 'SIGKILL')
    await until(async () => !isRunning(pid) && (await isWhole(server)), 'its replacement')
  }
  const listed = 'distributary_http_requests_total{verb="list",group="",resource="pods",code="200"}'
  t.equal((await server.metrics()).get(listed), 1, 'what ended workers counted stays')
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  const scraped = await fetch(`${server.metricsUrl}/metrics`)
  t.match(await scraped.text(), 'distributary_workers 2\n', 'as they are on the port of the metrics alone')
  t.equal((await fetch(`${server.metricsUrl}/readyz`)).status, 200)
  t.equal((await fetch(`${server.metricsUrl}/api/v1/pods`)).status, 404)
})

void t.test('a page token of one worker is accepted by the other, and by one started later', async (t) => {
  const { etcd, writer, server } = await startScene(t, 200)
  const control = await recordEtcdHistory(t, etcd)
  const recorder = new WatchRecorder({ url: server.url })
  const load = new AbortController()
  t.teardown(() => load.abort())
  const written = (async () => {
    for (let i = 0; !load.signal.aborted; i++) {
      await writer.put(podKey(i % 250), podAt(i % 250, `n${i}`))
      await delay(5)
    }
  })()
  // Each page uses its own connection, so the workers alternate.
  for (let i = 0; i < 3; i++) await recorder.list({ target: pods, limit: 31 })
  const url = `${server.url}/api/v1/pods?limit=150`
  const page = (await (await fetch(url)).json()) as { metadata: { continue: string; resourceVersion: string } }
  for (const pid of workersOf(server)) {
    process.kill(pid, 'SIGKILL')
    await until(async () => !isRunning(pid) && (await isWhole(server)), 'its replacement')
  }
  const rest = await fetch(`${url}&continue=${encodeURIComponent(page.metadata.continue)}`)
  t.equal(rest.status, 200, 'all workers are new, the token is not')
  const { metadata } = (await rest.json()) as typeof page
  t.equal(metadata.resourceVersion, page.metadata.resourceVersion)
  load.abort()
  await written
  assertGuarantees(t, recorder.history(writer.writes), await control.finish())
})

void t.test('a definition that appears is served by every worker, and watched once', async (t) => {
  const { etcd, writer, server } = await startScene(t, 1)
  const before = (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total')!
  const names = { plural: 'caches', singular: 'cache', kind: 'Cache', listKind: 'CacheList' }
  await writer.put('/registry/apiextensions.k8s.io/customresourcedefinitions/caches.edge.example.com', {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'caches.edge.example.com', uid: 'u' },
    spec: {
      group: 'edge.example.com',
      names,
      scope: 'Namespaced',
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
    },
    status: {
      acceptedNames: names,
      storedVersions: ['v1'],
      conditions: [
        { type: 'NamesAccepted', status: 'True' },
        { type: 'Established', status: 'True' },
      ],
    },
  })
  const metadata = { name: 'a', namespace: 'default', uid: 'a' }
  const object = { apiVersion: 'edge.example.com/v1', kind: 'Cache', metadata }
  await writer.put('/registry/edge.example.com/caches/default/a', object)
  const list = async (): Promise<number> => {
    const answer = await fetch(`${server.url}/apis/edge.example.com/v1/caches`, { headers: { connection: 'close' } })
    return answer.status === 200 ? ((await answer.json()) as { items: object[] }).items.length : -answer.status
  }
  let inARow = 0
  await until(async () => (inARow = (await list()) === 1 ? inARow + 1 : 0) >= 6, 'every worker serves it')
  t.equal((await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total'), before + 1)
})

void t.test('SIGTERM ends the watches cleanly, and every process', async (t) => {
  const { server } = await startScene(t, 10, ['--shutdown-watch-termination-grace-period', '500ms'])
  const recorder = new WatchRecorder({ url: server.url })
  t.teardown(() => recorder.close())
  const watches = Array.from({ length: 20 }, () => recorder.watch({ target: pods, sendInitialEvents: true }))
  await Promise.all(watches.map((watch) => watch.until(({ items }) => items.length > 10)))
  const workers = workersOf(server)
  t.equal(await server.kill('SIGTERM'), 0)
  await Promise.all(watches.map(({ ended }) => ended))
  t.same(new Set(watches.map(({ end }) => end)), new Set(['eof']))
  t.notOk(workers.some(isRunning), 'no worker is left')
})

void t.test('workers do not outlive a primary that is killed', async (t) => {
  const { server } = await startScene(t, 1)
  const workers = workersOf(server)
  await server.kill('SIGKILL')
  await until(() => !workers.some(isRunning), 'the end of the workers')
  t.equal(workers.length, WORKERS)
})

void t.test('the embedded store is the primary\u2019s, and every worker shows it', async (t) => {
  const server = await startServer(t, { flags: ['--workers', '3'], ready: false })
  // Nothing reserves it before the workers listen and after all of them have died.
  t.ok(server.port < 30_000, 'its port is outside the system’s ephemeral range')
  await until(async () => total(await server.metrics(), 'distributary_workers') === 3, 'three workers')
  const revisionOf = async (): Promise<number> => {
    const answer = await fetch(`${server.url}/api/v1/nodes?limit=1`, { headers: { connection: 'close' } })
    return Number(((await answer.json()) as { metadata: { resourceVersion: string } }).metadata.resourceVersion)
  }
  let last = 0
  for (let i = 0; i < 12; i++) {
    const revision = await revisionOf()
    t.ok(revision >= last, `consistent reads never go back: ${last}, then ${revision}`)
    last = revision
  }
})

void t.test('a port in use is reported once and ends the process', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await new Promise((resolve) => taken.once('listening', resolve))
  const { port } = taken.address() as { port: number }
  const { code, stderr } = await runServer(t, ['--workers', '2', '--port', String(port)])
  t.equal(code, 1)
  t.match(stderr, /EADDRINUSE/)
})
