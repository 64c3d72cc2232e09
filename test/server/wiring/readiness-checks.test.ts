/** When a replica without its source stops being ready, and what it reports. */
import t from 'tap'
import { freePort } from '../../support/free-port.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { silentLogger } from '../../../src/support/log.js'
import { cacheChecks, Readiness } from '../../../src/server/wiring/readiness-checks.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const LIMIT_MS = 60_000
type Options = ConstructorParameters<typeof Readiness>[0]
type Pipelines = ReturnType<Options['cluster']['pipelines']>

const readinessOf = (cluster: Options['cluster'], maxStalenessMs: number | null): Readiness =>
  new Readiness({
    cluster,
    maxStalenessMs,
    isShuttingDown: () => false,
    access: () => [],
    clock: new VirtualClock(),
    logger: silentLogger,
  })
const cache = (name: string, stalenessMs: number, disconnectedReason: string | null = null) => ({
  cache: { name, source: { ageMs: stalenessMs, disconnectedReason }, readiness: { kind: 'ready' } },
})

for (const [name, sources, expected] of [
  ['nothing is served', [], null],
  ['all are fresh', [cache('pods', 0), cache('nodes', 0)], null],
  ['one below the limit', [cache('pods', LIMIT_MS - 1, 'NATS: silent')], null],
  ['at the limit', [cache('pods', LIMIT_MS, 'NATS: silent')], null],
  ['one above it', [cache('pods', LIMIT_MS + 1, 'NATS: silent')], 'pods was last confirmed 60 s ago: NATS: silent'],
  [
    'the stalest is named',
    [cache('a', 70_000, 'x'), cache('b', 95_400, 'etcd: away'), cache('c', 0)],
    'b was last confirmed 95 s ago: etcd: away',
  ],
  ['no reason is known', [cache('a', 90_000)], 'a was last confirmed 90 s ago: the source is unavailable'],
] as const) {
  void t.test(name, async (t) => {
    const pipelines = (): Pipelines => sources as unknown as Pipelines
    const checks = readinessOf({ pipelines, checks: function* () {} }, LIMIT_MS).checks()
    t.equal([...checks].find((check) => check.name === 'staleness')!.problem(), expected)
  })
}

void t.test('a server with thousands of resources looks no further than the first that is not ready', (t) => {
  let asked = 0
  const problems = Array.from({ length: 2_000 }, (_, i) => (i === 3 ? 'not listed yet' : null))
  const cluster = {
    pipelines: () => [],
    *checks() {
      for (const [i, problem] of problems.entries()) {
        asked++
        yield { name: `cache-${i}`, problem: () => problem }
      }
    },
  }
  const readiness = readinessOf(cluster, null)
  t.equal(readiness.isReady, false)
  t.equal(asked, 4)
  t.equal([...readiness.checks()].length, 2_003, 'and a report names all')
  problems[3] = null
  t.equal(readiness.isReady, true)
  t.end()
})

void t.test('resources that cannot be listed keep a server from being ready only if it has no others', (t) => {
  type Pipeline = Parameters<typeof cacheChecks>[0] extends Iterable<infer P> ? P : never
  const pipeline = (plural: string, kind: 'ready' | 'refused' | 'pending'): Pipeline =>
    ({
      resource: { plural, group: '' },
      cache: {
        readiness: { kind, refusal: kind === 'refused' ? 'permission-denied' : null },
        source: { disconnectedReason: null },
      },
    }) as unknown as Pipeline
  const failing = (pipelines: readonly Pipeline[], wasReady = false, forwards = false): readonly string[] =>
    [...cacheChecks(pipelines, wasReady, [], forwards)].flatMap((check) =>
      check.isInformational !== true && check.problem() !== null ? [`${check.name}: ${check.problem()}`] : [],
    )
  const [pods, nodes] = [pipeline('pods', 'refused'), pipeline('nodes', 'refused')]
  t.same(failing([pods, pipeline('nodes', 'ready')]), [])
  t.same(failing([pods, pipeline('nodes', 'pending')]), ['cache-nodes: not listed yet'])
  t.same(failing([pods, nodes]), ['cache-pods: permission-denied', 'cache-nodes: permission-denied'])
  t.same(failing([pods, nodes], true), [], 'not once it has been ready')
  t.same(failing([pods, nodes], false, true), [], 'nor if their requests are forwarded')
  const [state] = [...cacheChecks([pods, nodes], false, [], true)]
  t.match(state, { name: 'caches', isInformational: true, informs: 'everything is forwarded' })
  t.match(state!.problem(), /no resource can be listed/)
  const unwatched = pipeline('nodes', 'ready')
  Object.assign(unwatched.cache.source, { isRefusing: true, disconnectedReason: 'permission-denied' })
  t.same(failing([unwatched]), [], 'one that can be read but not watched does not keep it from being ready either')
  const [shown] = [...cacheChecks([unwatched], false, [], false)]
  t.match([shown!.informs, shown!.problem()], ['not watched', 'permission-denied'])
  t.match([...cacheChecks([pods, unwatched], false, [], true)][0], { name: 'caches' })
  const names = [...cacheChecks([pods, pipeline('nodes', 'ready')], false, [], true)].map(({ name }) => name)
  t.same(names, ['cache-pods', 'cache-nodes'], 'which is not said while one is served')
  t.end()
})

void t.test('before the source has been reached, no resource claims to be served or confirmed', async (t) => {
  const port = await freePort()
  for (const workers of ['1', '2']) {
    const flags = [`--etcd-servers=http://127.0.0.1:${port}`, `--workers=${workers}`]
    const server = await startServer(t, { flags, ready: false })
    const { url } = server
    await until(
      () => server.log().includes('upstream is unavailable; nothing has been read from it yet'),
      'the log says so',
    )
    t.notMatch(server.log() + server.printed(), /serving from the cache|distributary serves/)
    await until(async () => {
      const text = await (await fetch(`${url}/readyz?verbose`)).text()
      t.notMatch(text, /last confirmed|served from the cache/)
      return new RegExp(`^\\[-\\]cache-pods failed: not listed yet: .*127\\.0\\.0\\.1:${port}`, 'm').test(text)
    }, 'readiness says why')
    const response = await fetch(`${url}/api/v1/pods`)
    t.equal(response.status, 429)
    t.notMatch(await response.text(), /127\.0\.0\.1|ECONNREFUSED/, 'the address is not for callers')
  }
})
