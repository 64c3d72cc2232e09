/**
 * Tests the informer against a whole server, with all the faults of networks and servers in between. After each fault
 * its store equals the server's own list, within bounded time and with a bounded number of requests.
 */
import t, { type Test } from 'tap'
import { type KubeObject, SharedInformer } from '../../../src/client/browser.js'
import { nodeTransport } from '../../../src/client/index.js'
import { fetchTransport } from '../../../src/client/reflector/fetch-transport.js'
import { type HttpFaults, startHttpFaults } from '../reflector/http-faults.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'
import { type FaultProxy, startFaultProxy } from '../../support/fault-proxy.js'

/** Shorter than in production but in the same ratios, to keep the tests short. */
const timings = {
  silenceMs: 600,
  initialSilenceMs: 600,
  openTimeoutMs: 600,
  listTimeoutMs: 5_000,
  backoff: { firstMs: 20, capMs: 300 },
}

/** Settings for the cases without silence: server and client share a process, which a busy machine may delay by 600 ms. */
const patient = {
  ...timings,
  silenceMs: 60_000,
  initialSilenceMs: 60_000,
  openTimeoutMs: 60_000,
  listTimeoutMs: 60_000,
}

interface Scene {
  readonly app: AppHarness
  readonly proxy: FaultProxy
  readonly faults: HttpFaults
  readonly informer: SharedInformer
  /** The handler calls by key: `+` added, `~` updated, `-` deleted. */
  readonly heard: Map<string, string>
  readonly equalsServer: (within?: number) => Promise<void>
}

async function scene(
  t: Test,
  options: { readonly kind?: 'fetch' | 'node'; readonly pods?: number; readonly patience?: typeof patient } = {},
): Promise<Scene> {
  const objects = Object.fromEntries(
    Array.from({ length: options.pods ?? 20 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`)]),
  )
  // Bookmarks are far more frequent than the informer's idle timeout, as in production.
  const app = await startApp(t, { objects, config: { bookmarkInterval: 100 } })
  const faults = await startHttpFaults(t, app.port)
  const proxy = await startFaultProxy({ targetPort: faults.port })
  t.teardown(() => proxy.close())
  const server = `http://127.0.0.1:${proxy.port}`
  const transport = options.kind === 'fetch' ? fetchTransport({ server }) : nodeTransport({ server })
  const informer = new SharedInformer({
    transport,
    path: '/api/v1/pods',
    pageSize: 7,
    ...(options.patience ?? timings),
  })
  t.teardown(() => informer.stop())
  const heard = new Map<string, string>()
  const hear = (object: KubeObject, sign: string): void => {
    const { name } = object.metadata
    heard.set(name, (heard.get(name) ?? '') + sign)
  }
  informer.addHandler({
    added: (object) => hear(object, '+'),
    updated: (object) => hear(object, '~'),
    deleted: (object) => hear(object, '-'),
  })
  const equalsServer = async (within?: number): Promise<void> => {
    const wanted = await serverState(app)
    await until(() => state(informer) === wanted, 'the store equals the list', within)
    // The handler calls add up to the same state.
    const alive = [...heard].filter(([, signs]) => /[+~]$/.test(signs)).map(([name]) => name)
    t.same(
      alive.sort(),
      informer.store
        .list()
        .map(({ metadata }) => metadata.name)
        .sort(),
      'handlers know the same',
    )
    t.notOk(
      [...heard.values()].some((signs) => /\+\+|~\+|--|-~|^[~-]/.test(signs)),
      'each history is a possible one',
    )
  }
  return { app, proxy, faults, informer, heard, equalsServer }
}

function state(informer: SharedInformer): string {
  return summary(informer.store.list())
}

async function serverState(app: AppHarness): Promise<string> {
  const list = (await (await fetch(`${app.url}/api/v1/pods`)).json()) as { items: KubeObject[] }
  return summary(list.items)
}

function summary(objects: readonly KubeObject[]): string {
  return objects
    .map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`)
    .sort()
    .join(' ')
}

/** Makes changes of every kind: an update, a deletion, a creation, a recreation, several in one revision. */
function change(app: AppHarness, round: number): void {
  app.put('pods/default/p1', pod('p1', { labels: { round: String(round) } }))
  app.delete(`pods/default/p${2 + round}`)
  app.put(`pods/default/n${round}`, pod(`n${round}`))
  app.commit({ 'pods/default/p0': null })
  app.commit({
    'pods/default/p0': pod('p0', { labels: { round: String(round) } }),
    'pods/default/many': pod('many', { labels: { round: String(round) } }),
    [`pods/default/o${round}`]: pod(`o${round}`),
  })
}

for (const kind of ['fetch', 'node'] as const) {
  void t.test(`an informer follows the server (${kind})`, async (t) => {
    const { app, informer, equalsServer, faults } = await scene(t, { kind, patience: patient })
    informer.start()
    await informer.whenSynced()
    t.equal(informer.store.size, 20)
    for (let round = 0; round < 3; round++) change(app, round)
    await equalsServer()
    t.equal(faults.requests.length, 1, 'one request brings the state and the stream')
  })

  void t.test(`an informer survives a cut connection, even inside an object (${kind})`, async (t) => {
    const { app, proxy, informer, equalsServer, faults } = await scene(t, { kind, patience: patient })
    informer.start()
    await informer.whenSynced()
    let round = 0
    for (const cut of [
      () => proxy.cut('rst'),
      () => proxy.cut('fin'),
      () => proxy.cutAfter(100),
      () => proxy.cutAfter(1_000),
    ]) {
      cut()
      change(app, round++)
      await equalsServer()
    }
    t.ok(faults.requests.length <= 12, `${faults.requests.length} requests for 4 cuts`)
    t.equal(faults.requests.filter(({ isStream }) => isStream).length, 1, 'and none of them asked for the state again')
  })

  void t.test(`a stalled connection is detected and replaced (${kind})`, async (t) => {
    const { app, proxy, informer, equalsServer } = await scene(t, { kind })
    informer.start()
    await informer.whenSynced()
    proxy.stall()
    change(app, 0)
    await until(() => informer.status.state === 'backing-off', 'silence was noticed')
    proxy.release()
    proxy.cut()
    await equalsServer()
  })
}

void t.test('an informer survives a cut among the initial events', async (t) => {
  const { app, proxy, informer, equalsServer, faults } = await scene(t, { pods: 300, patience: patient })
  let cuts = 0
  faults.fault = ({ isWatch }) => {
    if (isWatch && cuts++ < 3) setImmediate(() => proxy.cutAfter(20_000))
    return null
  }
  informer.start()
  await informer.whenSynced()
  change(app, 0)
  await equalsServer()
})

void t.test('an informer whose watches all end with 410 lists less and less often and keeps up', async (t) => {
  const { app, informer, equalsServer, faults } = await scene(t)
  faults.fault = ({ isWatch, isStream }) => {
    if (isStream) return { status: 422, body: '{"kind":"Status","code":422,"reason":"Invalid"}' }
    const event = { type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' } }
    return isWatch ? { status: 200, body: `${JSON.stringify(event)}\n` } : null
  }
  informer.start()
  await informer.whenSynced()
  for (let round = 0; round < 4; round++) {
    change(app, round)
    await equalsServer()
  }
  // A round is at most 300 ms of waiting: a list of 3 to 5 pages and a watch each time.
  const { requests } = faults
  const seconds = ((requests.at(-1)?.atMs ?? 0) - (requests[0]?.atMs ?? 0)) / 1_000
  t.ok(requests.length <= 20 + seconds * 7 * (1 / 0.15), `${requests.length} requests in ${seconds} s`)
  t.equal(requests.filter(({ isStream }) => isStream).length, 1, 'what it cannot do was asked once')
})

void t.test('an informer waits as long as a storm of 429 demands', async (t) => {
  const { app, informer, equalsServer, faults } = await scene(t)
  let isStorm = true
  faults.fault = () => (isStorm ? { status: 429, headers: { 'retry-after': '1' } } : null)
  informer.start()
  await until(() => faults.requests.length >= 3, 'it asks again')
  const times = faults.requests.map(({ atMs }) => atMs)
  const gaps = times.slice(1).map((at, i) => at - (times[i] ?? 0))
  t.ok(
    gaps.every((gap) => gap >= 990),
    `never sooner than Retry-After allows: ${gaps.join(', ')}`,
  )
  isStorm = false
  await informer.whenSynced()
  change(app, 0)
  await equalsServer()
})

for (const status of [500, 502, 503, 504]) {
  void t.test(`an informer survives a period of ${status}`, async (t) => {
    const { app, informer, proxy, equalsServer, faults } = await scene(t)
    informer.start()
    await informer.whenSynced()
    const before = faults.requests.length
    faults.fault = () => ({ status, body: '<html>a proxy says no</html>' })
    proxy.cut()
    change(app, 0)
    const begin = performance.now()
    await until(() => faults.requests.length >= before + 8, 'it keeps asking')
    // 20, 40, 80, 160, 300, 300, 300 ms, the upper half of each random.
    t.ok(performance.now() - begin >= 600, 'less and less often')
    faults.fault = () => null
    await equalsServer()
  })
}

void t.test('an informer keeps up with a server that ends each watch after one event', async (t) => {
  const { app, informer, equalsServer, faults } = await scene(t)
  faults.fault = ({ isWatch, isStream }) => (isWatch && !isStream ? { endAfterLines: 1 } : null)
  informer.start()
  await informer.whenSynced()
  faults.fault = ({ isWatch }) => (isWatch ? { endAfterLines: 1 } : null)
  const begin = performance.now()
  for (let round = 0; round < 2; round++) change(app, round)
  await equalsServer(30_000)
  const minutes = Math.max(1, (performance.now() - begin) / 60_000)
  t.ok(faults.requests.length / minutes <= 60, `${faults.requests.length} requests in ${minutes} minutes`)
})

void t.test('an informer lists where the server ignores the parameters of initial events', async (t) => {
  const { app, informer, equalsServer, faults } = await scene(t)
  const { transport } = { transport: nodeTransport({ server: faults.url }) }
  t.teardown(() => transport.close())
  const old = new SharedInformer({
    ...timings,
    path: '/api/v1/pods',
    transport: {
      send: (request) => {
        const { sendInitialEvents: _, resourceVersionMatch: _match, ...query } = request.query
        return transport.send({ ...request, query })
      },
    },
  })
  t.teardown(() => old.stop())
  old.start()
  await old.whenSynced()
  change(app, 0)
  await until(() => informer.hasSynced || old.store.size === 22, 'the old one follows')
  informer.start()
  await equalsServer()
  t.equal(state(old), state(informer))
})
