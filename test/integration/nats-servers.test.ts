/**
 * Whole servers over NATS, as clients see them: reads that need more than the replica has, tokens from another replica,
 * the age that a replica states, roles, and several processes behind one port.
 */
import { once } from 'node:events'
import http from 'node:http'
import t, { type Test } from 'tap'
import { type Config, load } from '../../src/server/config/load.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { noUpstream } from '../../src/server/wiring/nats-fleet.js'
import { createEmbeddedUpstream, type EmbeddedControls } from '../support/faulty-store.js'
import { type AppHarness, startApp } from '../support/app.js'
import { hold } from '../security/support/transports.js'
import { pod } from '../support/pod.js'
import { definitionObject } from '../support/definition.js'
import { only } from '../support/only.js'
import { until } from '../support/until.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { startNats } from '../support/nats-process.js'
import { startServer, total } from '../support/server-process.js'

t.jobs = 4

const PODS = '/api/v1/pods'

interface PodList {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string }
  readonly items: readonly { readonly metadata: { readonly name: string } }[]
}

function onlyPods(): Config['resources'] {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('no configuration')
  return loaded.config.resources.filter(({ resource }) => resource.plural === 'pods' && resource.group === '')
}

async function startReplica(
  t: Test,
  servers: string,
  role: Config['natsRole'],
  upstream?: ReturnType<typeof createEmbeddedUpstream>,
  config: Partial<Config> = {},
): Promise<AppHarness> {
  const flags = ['--nats-servers', servers, '--nats-role', role, '--nats-lease', '1s']
  return await startApp(t, {
    // A candidate has to name an etcd; it reads the test's own upstream.
    flags: [...flags, ...(role === 'edge' ? [] : ['--etcd-servers', 'http://127.0.0.1:1'])],
    config: { resources: onlyPods(), bookmarkInterval: 200, ...config },
    upstream: upstream ?? noUpstream('an edge'),
  })
}

function put(etcd: EmbeddedControls, name: string): string {
  const value = Buffer.from(JSON.stringify(pod(name)))
  etcd.commit([{ type: 'put', key: `/registry/pods/default/${name}` as never, value }])
  return String(etcd.revision)
}

/** Uses Node's own client, because the body of a watch never ends. */
async function list(url: string, query = ''): Promise<{ status: number; headers: Headers; body: PodList }> {
  const response = await fetch(`${url}/api/v1/pods?${query}`)
  return { status: response.status, headers: response.headers, body: (await response.json()) as PodList }
}

/** Retries while there is no publisher: on a very slow machine its lease expires, and then nobody can know. */
async function listOnceKnown(url: string, query = ''): Promise<Awaited<ReturnType<typeof list>>> {
  let answer = await list(url, query)
  await until(async () => answer.status !== 504 || (answer = await list(url, query)).status !== 504, `a list of ${url}`)
  return answer
}

/** Asserts that every replica ends a watch that begins at a revision that etcd never had. */
async function assertDenied(t: Test, replicas: readonly AppHarness[], revision: number): Promise<void> {
  const path = `${PODS}?watch=1&allowWatchBookmarks=true&resourceVersion=${revision}`
  const watches = await Promise.all(replicas.map(({ url }) => hold(url, 'HTTP/1.1', path)))
  for (const watch of watches) t.teardown(() => watch.close())
  await until(() => watches.every(({ hasEnded }) => hasEnded), 'every watch ends')
  for (const { text } of watches) t.match(text, /^\{"type":"ERROR".*has never existed here.*"code":410/)
}

const names = ({ items }: PodList): string[] => items.map(({ metadata }) => metadata.name)

void t.test(
  'an edge reads as freshly as etcd, waits for future revisions, and accepts page tokens from other replicas',
  async (t) => {
    const nats = await startNats(t)
    const proxy = await startFaultProxy({ targetPort: nats.port })
    t.teardown(() => proxy.close())
    const etcd = createEmbeddedUpstream()
    for (let i = 0; i < 10; i++) put(etcd, `p${i}`)
    const candidate = await startReplica(t, nats.url, 'auto', etcd)
    const edge = await startReplica(t, nats.url, 'edge')
    const behind = await startReplica(t, `nats://127.0.0.1:${proxy.port}`, 'edge')

    await t.test('a consistent read includes every completed write', async (t) => {
      for (let i = 0; i < 20; i++) {
        const written = put(etcd, `c${i}`)
        const { status, body } = await listOnceKnown(edge.url)
        t.equal(status, 200)
        t.ok(Number(body.metadata.resourceVersion) >= Number(written) && names(body).includes(`c${i}`))
      }
      // A write under another prefix advances etcd's revision, which the response must have.
      etcd.commit([{ type: 'put', key: '/registry/nodes/n' as never, value: Buffer.from(JSON.stringify(pod('n'))) }])
      t.ok(Number((await listOnceKnown(edge.url)).body.metadata.resourceVersion) >= etcd.revision)
    })

    await t.test('every replica accepts the page tokens of every other', async (t) => {
      const whole = names((await listOnceKnown(candidate.url)).body)
      const { body } = await listOnceKnown(candidate.url, 'limit=4')
      let [token, read] = [body.metadata.continue, names(body)]
      put(etcd, 'a-later-one')
      put(etcd, 'p5')
      for (let i = 0; token !== undefined && token !== ''; i++) {
        const { url } = [edge, behind, candidate][i % 3]!
        const page = await listOnceKnown(url, `limit=4&continue=${encodeURIComponent(token)}`)
        t.equal(page.status, 200)
        t.equal(page.body.metadata.resourceVersion, body.metadata.resourceVersion, 'one revision throughout')
        read = [...read, ...names(page.body)]
        token = page.body.metadata.continue
      }
      t.same(read, whole)
    })

    await t.test('a list at a future revision waits for it, and fails when it does not arrive', async (t) => {
      proxy.stall('to-client')
      const written = put(etcd, 'waited-for')
      const query = `resourceVersion=${written}&resourceVersionMatch=NotOlderThan`
      const waiting = list(behind.url, query)
      t.ok(names((await list(edge.url, query)).body).includes('waited-for'), 'the one that has it answers at once')
      await until(() => [...behind.app.sources].some(({ cache }) => cache.reads.waiting > 0), 'it waits')
      proxy.release()
      const { status, body } = await waiting
      t.equal(status, 200)
      t.ok(names(body).includes('waited-for'))
      const never = await list(
        behind.url,
        `resourceVersion=${Number(written) + 1_000}&resourceVersionMatch=NotOlderThan`,
      )
      t.equal(never.status, 504)
      t.match(never.body, { details: { causes: [{ reason: 'ResourceVersionTooLarge' }] } })
    })

    await t.test('a watch at a future revision begins when the revision arrives', async (t) => {
      proxy.stall('to-client')
      const written = put(etcd, 'first')
      const request = http.get(`${behind.url}/api/v1/pods?watch=1&resourceVersion=${written}`)
      t.teardown(() => request.destroy())
      await until(() => behind.watchers === 1, 'it watches')
      put(etcd, 'second')
      proxy.release()
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      const [chunk] = (await once(response, 'data')) as [Buffer]
      t.match(chunk.toString(), /"name":"second"/, 'what was written after it, and nothing from before')
      t.notMatch(chunk.toString(), /"name":"first"/)
    })

    await t.test('a watch from a revision that etcd has reached waits at every replica that has not', async (t) => {
      const prefix = keyFromText('/registry/pods/')
      etcd.holdDelivery(prefix)
      const written = put(etcd, 'held')
      const watches = await Promise.all(
        [candidate, edge, behind].map(({ url }) => hold(url, 'HTTP/1.1', `${PODS}?watch=1&resourceVersion=${written}`)),
      )
      for (const watch of watches) t.teardown(() => watch.close())
      // A replica that denies the revision would have done so before it denies a later one.
      await assertDenied(t, [candidate, edge, behind], etcd.revision + 1_000)
      put(etcd, 'after')
      etcd.releaseDelivery(prefix)
      await until(() => watches.every(({ text }) => text.includes('"name":"after"')), 'all watches continue')
      for (const { text } of watches) t.notMatch(text, /ERROR|"name":"held"/)
    })

    await t.test('a replica without an answer keeps such a watch open, and ends it once there is one', async (t) => {
      proxy.stall()
      const path = `${PODS}?watch=1&allowWatchBookmarks=true&resourceVersion=${etcd.revision + 1_000}`
      const watch = await hold(behind.url, 'HTTP/1.1', path)
      t.teardown(() => watch.close())
      await until(
        () => [...behind.app.sources].some(({ cache }) => cache.source.disconnectedReason !== null),
        'it is cut off',
      )
      t.equal(watch.text, '')
      proxy.release()
      await until(() => watch.hasEnded, 'its end')
      t.match(watch.text, /^\{"type":"ERROR".*has never existed here/, 'and no bookmark before')
    })
  },
)

void t.test('a replica reports how old its data is, and is not ready when that is too old', async (t) => {
  const nats = await startNats(t)
  const etcd = createEmbeddedUpstream()
  put(etcd, 'a')
  await startReplica(t, nats.url, 'auto', etcd)
  const edge = await startReplica(t, nats.url, 'edge', undefined, { maxStaleness: 1_000 })
  const ready = async (): Promise<number> => (await fetch(`${edge.url}/readyz`)).status
  t.equal(await ready(), 200)
  t.equal((await list(edge.url, 'resourceVersion=0')).headers.get('x-distributary-staleness-seconds'), null)
  await nats.kill()
  await until(() => !edge.app.isReady, 'it is no longer ready')
  t.not(await ready(), 200)
  await until(() => [...edge.app.sources][0]?.cache.source.disconnectedReason !== null, 'and knows why')
  t.match(await (await fetch(`${edge.url}/readyz?verbose`)).text(), /staleness.*last confirmed.*(NATS|publisher)/)
  const { status, headers, body } = await list(edge.url, 'resourceVersion=0')
  t.same([status, names(body)], [200, ['a']], 'what it has stays served')
  t.ok(Number(headers.get('x-distributary-staleness-seconds')) >= 1)
  t.match(
    await (await fetch(`${edge.url}/metrics`)).text(),
    /cache_staleness_seconds\{[^}]*resource="pods"[^}]*\} [1-9]/,
  )
  await nats.restart()
  await until(() => edge.app.isReady, 'it is ready again', 20_000)
  put(etcd, 'b')
  const sees = async (): Promise<boolean> => names((await list(edge.url, 'resourceVersion=0')).body).includes('b')
  while (!(await sees())) await new Promise((resolve) => setTimeout(resolve, 10))
  await untilAge(edge, (age) => age === null)
})

/** Returns the age that a response from the cache states, in seconds; null when it is fresh. */
async function saidAge({ url }: { url: string }): Promise<number | null> {
  const header = (await list(url, 'resourceVersion=0')).headers.get('x-distributary-staleness-seconds')
  return header === null ? null : Number(header)
}

async function untilAge(edge: { url: string }, isIt: (age: number | null) => boolean): Promise<void> {
  await until(async () => isIt(await saidAge(edge)), 'the age is what it should be', 20_000)
}

void t.test(
  "an edge without a publisher reports that although NATS is up, and counts its age from etcd's last answer",
  async (t) => {
    const nats = await startNats(t)
    const proxy = await startFaultProxy({ targetPort: nats.port })
    t.teardown(() => proxy.close())
    const etcd = createEmbeddedUpstream()
    put(etcd, 'a')
    await startReplica(t, `nats://127.0.0.1:${proxy.port}`, 'auto', etcd)
    const edge = await startReplica(t, nats.url, 'edge')
    await untilAge(edge, (age) => age === null)
    const lastFresh = performance.now()
    proxy.stall()
    put(etcd, 'never-published')
    await untilAge(edge, (age) => age !== null)
    const most = (): number => Math.ceil((performance.now() - lastFresh) / 1_000) + 2
    t.ok((await saidAge(edge))! <= most())
    await untilAge(edge, (age) => (age ?? 0) >= 4)
    // After a stop, the server delivers its own heartbeats, but no status of the publisher.
    await nats.kill('SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, 500))
    await nats.kill('SIGCONT')
    const until = performance.now() + 2_500
    while (performance.now() < until) {
      const age = await saidAge(edge)
      if (age === null || age < 4) t.fail(`it says ${age}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    t.match(
      await (await fetch(`${edge.url}/metrics`)).text(),
      /cache_staleness_seconds\{[^}]*resource="pods"[^}]*\} [1-9]/,
    )
    const late = await startReplica(t, nats.url, 'edge')
    t.ok((await saidAge(late))! >= 4, 'an edge that starts now serves what there is, and says how old that is')
    proxy.cut()
    proxy.release()
    await untilAge(edge, (age) => age === null)
    t.ok(
      names((await list(edge.url, 'resourceVersion=0')).body).includes('never-published'),
      'fresh means: it is there',
    )
    await untilAge(late, (age) => age === null)
  },
)

void t.test('a publisher whose etcd does not answer sends statuses that confirm no freshness', async (t) => {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  await new EtcdWriter([etcd]).put('/registry/pods/default/a', pod('a'))
  await startServer(t, {
    flags: [`--nats-servers=${nats.url}`, '--nats-stream-bytes=1MiB', `--etcd-servers=${etcd.url}`],
  })
  const edge = await startReplica(t, nats.url, 'edge')
  await untilAge(edge, (age) => age === null)
  // etcd's connections stay open when it is stopped.
  await etcd.kill('SIGSTOP')
  await untilAge(edge, (age) => (age ?? 0) >= 4)
  await etcd.kill('SIGCONT')
  await untilAge(edge, (age) => age === null)
})

void t.test(
  'a candidate publishes custom resources, also of later definitions, to edges that do not know etcd',
  async (t) => {
    const nats = await startNats(t)
    const etcd = createEmbeddedUpstream()
    const commit = (key: string, object: object): void => {
      etcd.commit([{ type: 'put', key: keyFromText(`/registry/${key}`), value: Buffer.from(JSON.stringify(object)) }])
    }
    const define = (plural: string, kind: string): void => {
      const scope = 'Cluster'
      const versions = [{ name: 'v1', storage: true }]
      const definition = definitionObject({ group: 'example.com', plural, kind, scope, versions })
      const status = { conditions: [{ type: 'Established', status: 'True' }] }
      commit(`apiextensions.k8s.io/customresourcedefinitions/${plural}.example.com`, { ...definition, status })
      const metadata = { name: 'one', uid: 'u' }
      commit(`example.com/${plural}/one`, { apiVersion: 'example.com/v1', kind, metadata })
    }
    define('widgets', 'Widget')
    const fleet = ['--nats-servers', nats.url, '--nats-lease', '1s', '--nats-stream-bytes', '1MiB', ...only('pods')]
    await startApp(t, { flags: [...fleet, '--etcd-servers=http://127.0.0.1:1'], upstream: etcd })
    // The edge becomes ready only when it has the custom resources of each definition.
    const edge = await startApp(t, { flags: [...fleet, '--nats-role=edge'], upstream: noUpstream('an edge') })
    const namesOf = async (plural: string): Promise<readonly string[]> => {
      const answer = await fetch(`${edge.url}/apis/example.com/v1/${plural}`)
      return answer.status === 200 ? names((await answer.json()) as PodList) : []
    }
    t.same(await namesOf('widgets'), ['one'])
    define('gadgets', 'Gadget')
    await until(async () => (await namesOf('gadgets')).length === 1, 'the next ones follow')
  },
)

void t.test('--workers over NATS: the primary publishes and subscribes, its workers fan out', async (t) => {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  const writer = new EtcdWriter([etcd])
  await writer.put('/registry/pods/default/a', pod('a'))
  const common = [`--nats-servers=${nats.url}`, '--nats-stream-bytes=1MiB', '--workers=2']
  const candidate = await startServer(t, { flags: [...common, `--etcd-servers=${etcd.url}`] })
  const edge = await startServer(t, { flags: [...common, '--nats-role=edge'] })
  const waitFor = async (server: { url: string }, name: string): Promise<boolean> => {
    for (let i = 0; i < 500; i++) {
      const { status, body } = await list(server.url)
      if (status === 200 && names(body).includes(name)) return true
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    return false
  }
  for (const server of [candidate, edge]) t.ok(await waitFor(server, 'a'))
  const watch = http.get(`${edge.url}/api/v1/pods?watch=1`)
  t.teardown(() => watch.destroy())
  const [response] = (await once(watch, 'response')) as [http.IncomingMessage]
  let seen = ''
  response.on('data', (chunk: Buffer) => (seen += chunk.toString()))
  await writer.put('/registry/pods/default/b', pod('b'))
  await until(() => seen.includes('"name":"b"'), 'an event of etcd comes out of a worker of the edge')
  // One watch for each resource, whatever the number of processes: the edge and the workers have none.
  // On a slow machine the candidate read etcd itself until the first publisher was heard.
  await until(async () => {
    const publishing = [...(await candidate.metrics())].filter(([name]) =>
      name.startsWith('distributary_fleet_publishing{'),
    )
    const watches = (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total')
    return publishing.length > 40 && publishing.every(([, value]) => value === 1) && watches === publishing.length
  }, 'one watch for each resource')
  t.ok(
    total(await edge.metrics(), 'distributary_fleet_received_events_total') > 0,
    "the primary's figures are in the scrape",
  )
  t.same(await Promise.all([candidate.kill('SIGTERM'), edge.kill('SIGTERM')]), [0, 0])
})

void t.test('a publisher that repeatedly starts and soon ends logs the reason once', async (t) => {
  const nats = await startNats(t)
  const etcd = createEmbeddedUpstream()
  put(etcd, 'a')
  const lines: { readonly level: string; readonly reason: unknown }[] = []
  const at = (level: string) => (fields: object, message: string) => {
    if (message === 'publishing was interrupted') lines.push({ level, reason: (fields as { reason: string }).reason })
  }
  const nothing = (): void => {}
  await startApp(t, {
    // The stream takes up all that NATS may store, and leaves no room for its snapshots.
    flags: [
      '--nats-servers',
      nats.url,
      '--nats-lease=1s',
      '--nats-stream-bytes=1GiB',
      '--etcd-servers=http://127.0.0.1:1',
    ],
    config: { resources: onlyPods() },
    upstream: etcd,
    ready: false,
    logger: { debug: at('debug'), info: nothing, warn: at('warn'), error: nothing },
  })
  await until(() => lines.length >= 4, 'it is tried several times')
  t.same(new Set(lines.map(({ reason }) => reason)).size, 1, JSON.stringify(lines))
  t.same(
    lines.map(({ level }) => level),
    ['warn', ...lines.slice(1).map(() => 'debug')],
  )
})
