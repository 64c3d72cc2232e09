/** When a replica without its source stops being ready, and what it reports. */
import t from 'tap'
import { silentLogger } from '../../../src/support/log.js'
import { cacheChecks, Readiness, staleness } from '../../../src/server/wiring/readiness.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const LIMIT_MS = 60_000
type Cache = Parameters<typeof staleness>[0] extends Iterable<{ cache: infer C }> ? C : never
const cache = (name: string, stalenessMs: number, disconnectedReason: string | null = null) => ({
  cache: { name, stalenessMs, disconnectedReason } as unknown as Cache,
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
    t.equal(staleness(sources, LIMIT_MS), expected)
  })
}

void t.test('a server with thousands of resources looks no further than the first that is not ready', (t) => {
  let asked = 0
  const problems = Array.from({ length: 2_000 }, (_, i) => (i === 3 ? 'not listed yet' : null))
  const readiness = new Readiness({
    cluster: {
      pipelines: () => [],
      *checks() {
        for (const [i, problem] of problems.entries()) {
          asked++
          yield { name: `cache-${i}`, problem: () => problem }
        }
      },
    },
    maxStalenessMs: null,
    isShuttingDown: () => false,
    access: () => [],
    clock: new VirtualClock(),
    logger: silentLogger,
  })
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
      cache: { readiness: { kind, reason: 'permission-denied' }, disconnectedReason: null },
    }) as unknown as Pipeline
  const failing = (pipelines: readonly Pipeline[], wasReady = false): readonly string[] =>
    [...cacheChecks(pipelines, wasReady, [])].flatMap((check) =>
      check.isInformational !== true && check.problem() !== null ? [`${check.name}: ${check.problem()}`] : [],
    )
  const [pods, nodes] = [pipeline('pods', 'refused'), pipeline('nodes', 'refused')]
  t.same(failing([pods, pipeline('nodes', 'ready')]), [])
  t.same(failing([pods, pipeline('nodes', 'pending')]), ['cache-nodes: not listed yet'])
  t.same(failing([pods, nodes]), ['cache-pods: permission-denied', 'cache-nodes: permission-denied'])
  t.same(failing([pods, nodes], true), [], 'not once it has been ready')
  t.end()
})
