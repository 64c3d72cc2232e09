/** When a replica without its source stops being ready, and what it reports. */
import t from 'tap'
import { staleness } from '../../../src/server/wiring/readiness.js'

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
  ['no reason is known', [cache('a', 90_000)], 'a was last confirmed 90 s ago: the source is away'],
] as const) {
  void t.test(name, async (t) => {
    t.equal(staleness(sources, LIMIT_MS), expected)
  })
}
