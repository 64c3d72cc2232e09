/**
 * The simulated agents: each event must be delivered to exactly the watches that ask for it; otherwise a row counts
 * deliveries that never happen.
 */
import t from 'tap'
import { agentsOf, WATCHES_OF_AGENT, WIDE_AGENTS } from '../../bench/support/agents.js'
import { agentsSummaries } from '../../bench/support/agent-rows.js'
import { MAGIC } from '../../bench/support/objects.js'

const AGENTS = 60

void t.test('the changes are whole rounds of the existing objects, each with its mark', (t) => {
  const { changes, classes, written, eventsOfRound } = agentsOf(AGENTS, 'pods')
  t.equal(changes.length % eventsOfRound, 0, 'whole rounds')
  const pods = changes.slice(0, eventsOfRound).filter(({ key }) => key.startsWith('/registry/pods/'))
  t.same([pods.length, eventsOfRound], [60, 80], 'most changes are of pods')
  t.equal(classes.length, changes.length)
  const unmarked = [...written, ...changes].filter(
    ({ value, mark }) => value?.toString('latin1', mark, mark + MAGIC.length) !== MAGIC,
  )
  t.same(unmarked, [])
  const before = new Set(written.map(({ key }) => key))
  t.ok(
    changes.every(({ key }) => before.has(key)),
    'nothing is created',
  )
  t.end()
})

void t.test('every event is expected by the agents that watch its kind', (t) => {
  const agents = agentsOf(AGENTS)
  const { changes, classes, eventsOfRound } = agents
  const watches = agents.paths(1)
  t.equal(watches.length, WIDE_AGENTS * WATCHES_OF_AGENT)
  const kindOf = (key: string): string => /^\/registry\/([^/]+)\//.exec(key)![1]!
  const kinds: Readonly<Record<string, string>> = {
    pods: 'pods',
    services: 'services',
    endpointslices: 'slices',
    minions: 'node',
  }
  for (const [at, { key }] of changes.slice(0, 3 * eventsOfRound).entries()) {
    const owing = watches.filter(({ owed }, index) => {
      const agent = Math.floor(index / WATCHES_OF_AGENT)
      const of = classes[at]!
      if (owed!.until !== undefined) return of >= owed!.class && of < owed!.until
      return of === owed!.class + (owed!.isEach ? agent : 0)
    })
    const isPod = kindOf(key) === 'pods'
    const isOfTheTen = isPod && classes[at]! < WIDE_AGENTS - 1
    t.equal(owing.length, isPod ? (isOfTheTen ? 2 : 1) : WIDE_AGENTS, key)
    t.ok(
      owing.every(({ kind }) => kind === kinds[kindOf(key)]),
      `${key}: ${classes[at]}`,
    )
  }
  t.end()
})

void t.test('a ratio compares one round, and the median one is reported', (t) => {
  const row = (subject: string, round: number, cpu: number) => ({
    question: 'agents',
    subject,
    wire: 'http2-tls',
    runtime: 'a',
    agents: 300,
    round,
    cpuMicrosPerDelivery: cpu,
    p50Ms: 1,
    p99Ms: 2,
    residentMb: 3,
    ended: round,
    deliveriesPerSecond: 4,
    deliveriesPerWrite: 1,
    clientCores: 0.1,
  })
  const [theirs, ours] = agentsSummaries([
    ...[40, 80, 50].map((cpu, round) => row('apiserver', round, cpu)),
    ...[20, 20, 20].map((cpu, round) => row('distributary', round, cpu)),
    { ...row('distributary', 3, 1), failed: 'it ended' },
  ])
  t.match(theirs, { ofCpu: null, cpuMicrosPerDelivery: 50 })
  t.match(ours, { rounds: 3, failed: 1, ended: 3, ofCpu: { median: 0.4, least: 0.25, most: 0.5 } })
  t.equal(ours!.ofAdded, null, 'earlier rows have no baseline')
  t.end()
})

void t.test("what agents cost is the API server's with them less without, against all that ours costs", (t) => {
  const row = (subject: string, shape: string, cpuMicrosPerEvent: number, baseMicrosPerEvent: number) => ({
    question: 'agents',
    subject,
    wire: 'http2-tls',
    runtime: 'a',
    agents: 300,
    shape,
    round: 1,
    cpuMicrosPerEvent,
    baseMicrosPerEvent,
  })
  const summaries = agentsSummaries([
    row('apiserver', 'pods', 5_000, 1_000),
    row('apiserver', 'even', 9_000, 1_000),
    row('distributary', 'pods', 3_000, 500),
  ])
  t.same(
    summaries.map(({ subject, shape, ofAdded }) => [subject, shape, ofAdded?.median]),
    [
      ['apiserver', 'pods', undefined],
      ['apiserver', 'even', undefined],
      ['distributary', 'pods', 0.75],
    ],
  )
  t.equal(summaries[0]!.addedMicrosPerEvent, 4_000)
  t.end()
})
