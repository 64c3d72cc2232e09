/**
 * The simulated agents: each event must be delivered to exactly the watches that ask for it; otherwise a row counts
 * deliveries that never happen.
 */
import t from 'tap'
import { agentsOf, EVENTS_OF_ROUND, WATCHES_OF_AGENT, WIDE_AGENTS } from '../../bench/support/agents.js'
import { agentsSummaries } from '../../bench/support/agent-rows.js'
import { MAGIC } from '../../bench/support/objects.js'

const AGENTS = 60

void t.test('the changes are whole rounds of the existing objects, each with its mark', (t) => {
  const { changes, classes, written } = agentsOf(AGENTS)
  t.equal(changes.length % EVENTS_OF_ROUND, 0, 'whole rounds')
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
  const { changes, classes } = agents
  const watches = agents.paths(1)
  t.equal(watches.length, WIDE_AGENTS * WATCHES_OF_AGENT)
  const kindOf = (key: string): string => /^\/registry\/([^/]+)\//.exec(key)![1]!
  const kinds: Readonly<Record<string, string>> = {
    pods: 'pods',
    services: 'services',
    endpointslices: 'slices',
    minions: 'node',
  }
  for (const [at, { key }] of changes.slice(0, 3 * EVENTS_OF_ROUND).entries()) {
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
  t.end()
})
