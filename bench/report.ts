/**
 * Writes `bench/RESULTS.md` and its charts from recorded rows, so that no figure is typed by hand. For each question
 * (and for the fan-out, for each load), it uses only the latest run, because ratios are valid only within one run.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AgentsSummary, agentsSummaries, type Ratios, shapeOf } from './support/agent-rows.js'
import { barChart, delayChart, lineChart } from './support/charts.js'
import { repositoryRoot } from './support/native.js'
import type { Row, Value } from './support/record.js'
import { publishedTable } from './support/published-rows.js'
import { reliefFigures, reliefTable } from './support/relief-rows.js'
import { isOfReadme } from './support/readme-rows.js'
import { SHAPE_TITLES } from './support/agents.js'
import { aimsTable, answersTable, ofDirectEtcdCpu, type RunsOf } from './targets.js'

const benchDirectory = `${repositoryRoot}bench/`

interface Column {
  readonly title: string
  readonly cell: (row: Row, rows: readonly Row[]) => string
}

/**
 * Reads the kept rows, or the rows in `bench/out` if `isLocal`, and writes the page. @throws Error when there are none.
 */
export async function report(isLocal: boolean): Promise<void> {
  const rows = readRows(isLocal)
  if (rows.length === 0) throw new Error('no rows: run a question with --keep first, or report with --local')
  mkdirSync(`${benchDirectory}charts`, { recursive: true })
  const parts = [HEAD, answersSection(rows)]
  for (const section of [
    publishedSection,
    agentsSection,
    reliefSection,
    fanoutSection,
    etcdApiSection,
    selectorsSection,
    prefixesSection,
    shardsSection,
    oneEventSection,
    objectsSection,
    sourceListSection,
    memorySection,
    watchesSection,
    clusterSection,
    listSection,
    definitionsSection,
    edgeSection,
    stormSection,
    recoverySection,
    natsSection,
    workersSection,
    slowSection,
    loopSection,
    ingestSection,
    schemaReadSection,
    informerSection,
  ]) {
    parts.push(await section(rows))
  }
  writeFileSync(`${benchDirectory}RESULTS.md`, `${parts.filter((part) => part !== '').join('\n\n')}\n`)
}

function readRows(isLocal: boolean): Row[] {
  const kept = `${benchDirectory}results.jsonl`
  const local = `${benchDirectory}out`
  const files = isLocal
    ? existsSync(local)
      ? readdirSync(local).map((name) => `${local}/${name}`)
      : []
    : existsSync(kept)
      ? [kept]
      : []
  return files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Row),
  )
}

/** Returns the runs of a question, newest first; quick ones only if there is no other. */
function runsOfQuestion(rows: readonly Row[], question: string): Row[][] {
  const own = rows.filter((row) => row.question === question)
  const full = own.filter((row) => row['quick'] !== true)
  const candidates = full.length > 0 ? full : own
  const runs = [...new Set(candidates.map((row) => String(row['run'])))].sort().reverse()
  return runs.map((run) => candidates.filter((row) => row['run'] === run))
}

/** Returns the rows of the question's latest run, for each load when there is `loadOf`. */
function latest(rows: readonly Row[], question: string, loadOf?: (row: Row) => string): Row[] {
  if (loadOf === undefined) return runsOfQuestion(rows, question)[0] ?? []
  const own = rows.filter((row) => row.question === question)
  const loads = [...new Set(own.map(loadOf))]
  return loads.flatMap((load) =>
    latest(
      own.filter((row) => loadOf(row) === load),
      question,
    ),
  )
}

/** Returns the name of the subject; for peers it includes the version, if it is recorded. */
function subjectName(row: Row): string {
  if (row.subject === 'etcd' || row.subject === 'grpc-proxy') return `${row.subject} ${String(row['etcd'])}`
  if (row.subject === 'apiserver') return `API server ${String(row['apiServer'] ?? '')}`
  return row.subject
}

const label = (row: Row): string =>
  [subjectName(row), row.wire, String(row['serverFlags'] ?? '')].filter((word) => word !== '').join(' ')

const figure = (value: Value | undefined, digits = 3): string =>
  typeof value !== 'number' || !Number.isFinite(value)
    ? '–'
    : Math.abs(value) >= 100
      ? Math.round(value).toLocaleString('en-US')
      : String(Number(value.toPrecision(digits)))

const plain = (title: string, name: string): Column => ({ title, cell: (row) => figure(row[name]) })

const subjectColumn: Column = { title: 'who', cell: label }

function table(rows: readonly Row[], columns: readonly Column[]): string {
  const good = rows.filter((row) => row['failed'] === undefined)
  const lines = [
    `| ${columns.map((column) => column.title).join(' | ')} |`,
    `| ${columns.map((_, index) => (index === 0 ? '---' : '---:')).join(' | ')} |`,
    ...good.map((row) => `| ${columns.map((column) => column.cell(row, good)).join(' | ')} |`),
  ]
  const failed = rows.filter((row) => row['failed'] !== undefined)
  if (failed.length > 0) {
    lines.push('', ...failed.map((row) => `- **${label(row)} failed**: ${String(row['failed']).split('\n')[0]}`))
  }
  return [...lines, '', recordedOn(rows[0])].join('\n')
}

/**
 * Returns where and when the rows of a table were recorded. One row is enough, because all rows of a table are from one
 * run.
 */
function recordedOn(row: Row | undefined): string {
  const about = (name: string): string => String(row?.[name] ?? 'unknown')
  const machine = `${about('cpu')}, ${about('cores')} cores, ${about('memoryGb')} GB, Linux ${about('kernel')}`
  const written =
    row?.['resource'] === 'things'
      ? ' The objects belong to a custom resource and are as large as the pods in other tables.'
      : ''
  return `Recorded on ${machine}; Node ${about('node')}, etcd ${about('etcd')} in every row, commit ${about('commit')}.${written}`
}

/** Compares a figure with that of another subject under the same load. @param wire null for the row's own wire. */
function against(title: string, subject: string, wire: string | null, name: string, unit: 'times' | 'percent'): Column {
  return {
    title,
    cell(row, rows) {
      const peer = rows.find(
        (one) =>
          one.subject === subject &&
          one.wire === (wire ?? row.wire) &&
          one['watchers'] === row['watchers'] &&
          one['rate'] === row['rate'],
      )
      const [own, other] = [row[name], peer?.[name]]
      if (typeof own !== 'number' || typeof other !== 'number' || other === 0 || peer === row) return '–'
      return unit === 'times' ? `${figure(own / other)} ×` : `${figure((own / other) * 100)}%`
    },
  }
}

const HEAD = `# Measurements

\`npm run bench -- report\` writes this page from recorded rows; no figure is typed by hand. Compare only within one table: each is one run on the machine named below it.
Server and load each have a core. Everything runs on loopback, with one TCP connection per watcher unless the wire says otherwise (\`x100\`: 100 streams per connection).
Events are about 1 KiB, of pods unless a table says otherwise.

CPU is the server's user and system time from \`/proc\`. Delay is the time from just before the put is sent to etcd until the watcher has the byte. *Limit* is a C program that
sends the same bytes at the same pace, or in saturated runs as fast as it can. In every row each watcher received every event, once and in order; otherwise the row is a failure.`

const agentsLoad = (row: Row): string => `${String(row['agents'])} ${shapeOf(row)}`

function publishedSection(all: readonly Row[]): string {
  const loadOf = (row: Row): string => String(row['load'])
  const rows = latest(all, 'published', loadOf)
  if (rows.length === 0) return ''
  return `## What others published

The same work as in published figures, on one machine, whose server has one core. Theirs come from other machines, and often from another way to measure: read the source before you compare.

${publishedTable(rows, label, (value) => figure(value as Value | undefined))}

${recordedOn(rows[0])}`
}

async function agentsSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'agents', agentsLoad)
  if (rows.length === 0) return ''
  const parts = [
    `## Agents: what a delivery costs in the shape that node agents have

Each agent has one connection of HTTP/2 over TLS with four watches in protobuf: the pods of its node (every tenth agent:
all pods), services, endpoint slices, nodes. So an event is one frame on each connection, and nothing is sent together. All subjects
take turns over one etcd. A ratio compares two rows of one round; the table shows the median of three rounds, with the
lowest and the highest.

*Added*: the API server's cost per event with agents, minus its cost without them. Ours is our whole cost per event; at 1 ×, a move
of the agents frees as much as it takes.`,
  ]
  const summaries = agentsSummaries(rows)
  for (const load of new Set(rows.map(agentsLoad))) {
    const group = summaries.filter((one) => `${one.agents} ${one.shape}` === load)
    const [one] = group
    if (one === undefined) continue
    const { agents: count, shape } = one
    const first = rows.find((row) => agentsLoad(row) === load)!
    const apiServer = `API server ${String(first['apiServer'] ?? '')}`
    const nameOf = ({ subject, runtime }: AgentsSummary): string =>
      subject === 'apiserver' ? apiServer : `${subject} on ${runtime}`
    const lines = group.map((one) => {
      const cells = [
        figure(one.cpuMicrosPerDelivery),
        ratioCell(one.ofCpu),
        figure(one.cpuMicrosPerEvent),
        one.subject === 'apiserver' ? figure(one.addedMicrosPerEvent) : '–',
        ratioCell(one.ofAdded),
        figure(one.p50Ms),
        figure(one.p99Ms),
        ratioCell(one.ofP99),
        figure(one.residentMb),
        ratioCell(one.ofMemory),
        figure(one.ended),
        figure(one.deliveriesPerSecond),
        // Bun does not send with `write`, and /proc counts only `write`.
        one.runtime.startsWith('Bun') ? '–' : figure(one.deliveriesPerWrite),
        `${figure(one.clientCores * 100)}%`,
        one.failed === 0 ? String(one.rounds) : `${one.rounds}, and ${one.failed} failed`,
      ]
      return `| ${[nameOf(one), ...cells].join(' | ')} |`
    })
    const chart = `agents-${count}${shape === 'mixed' ? '' : `-${shape}`}.svg`
    const title = `Server CPU of one delivery, µs, to ${figure(count)} node agents (less is better)`
    const barsOf = (of: readonly AgentsSummary[]): Promise<string> =>
      barChart(
        of.map((one) => ({
          question: 'agents',
          subject: one.subject,
          wire: nameOf(one),
          cpuMicrosPerDelivery: one.cpuMicrosPerDelivery,
        })),
        ({ wire }) => wire,
        'cpuMicrosPerDelivery',
        title,
      )
    await write(chart, barsOf(group))
    const ofReadme = agentsSummaries(rows.filter((row) => agentsLoad(row) === load && isOfReadme(row)))
    if (ofReadme.length > 0) await write('readme.svg', barsOf(ofReadme))
    parts.push(
      `### ${figure(count)} agents${shape === 'mixed' ? '' : `, ${SHAPE_TITLES[shape]}`}`,
      [
        '| who | µs CPU a delivery | × API server | µs CPU an event | added | × what agents add | p50 ms | p99 ms | × API server | resident MB | × API server | watches ended | deliveries/s | events a write | client, of its core | rounds |',
        `| --- |${' ---: |'.repeat(15)}`,
        ...lines,
        '',
        recordedOn(first),
      ].join('\n'),
      `![CPU of a delivery](charts/${chart})`,
    )
  }
  return parts.join('\n\n')
}

function reliefSection(all: readonly Row[]): string {
  const rows = latest(all, 'relief')
  const [first] = rows
  if (first === undefined) return ''
  const failed = rows.filter((row) => row['failed'] !== undefined)
  return [
    `## Relief: what a cluster gains

A control plane ${String(first['apiServer'] ?? '')} on one etcd, with ${figure(first['nodes'])} nodes and ${figure(first['pods'])} pods that kwok simulates, ${figure(first['deployments'])} deployments, one of which is rolled
every ten seconds. An agent of each node, as above, watches at the API server, at a distributary next to etcd, or at one with \`--upstream\`, which took
turns, each with an API server that had just been started. Agents are service accounts, and both servers authenticate and authorize them. All programs
share the machine's cores. After each turn the API server is restarted, and once it is ready all agents come back at once, from what they last saw: the storm. With \`--upstream\` our own history has a gap then, so agents list again, at distributary. Each agent's
events are compared with etcd's history, in both phases: one that is missing, repeated or out of order fails the row. Cells are medians of the rounds; ratios are to the cell of the API
server alone. The request p99, which leaves out watches, is interpolated in the buckets of the server's own histogram.`,
    reliefTable(rows, reliefFigures, figure),
    ...failed.map(
      (row) => `${String(row['arrangement'])}, round ${String(row['round'])} failed: ${String(row['failed'])}`,
    ),
    recordedOn(first),
  ].join('\n\n')
}

const ratioCell = (ratios: Ratios | null): string =>
  ratios === null ? '–' : `${figure(ratios.median)} × (${figure(ratios.least)}–${figure(ratios.most)})`

const fanoutLoad = (row: Row): string => `${row['watchers']}/${row['rate']}`

function answersSection(all: readonly Row[]): string {
  const runsOf: RunsOf = (question, watchers, rate) =>
    runsOfQuestion(
      watchers === undefined ? all : all.filter((row) => fanoutLoad(row) === `${watchers}/${rate}`),
      question,
    )
  const format = (value: number): string => figure(value)
  return `## Five questions

Each ratio compares two figures of one run on one machine, ours and those of a peer, or of a limit that nothing can pass. Less is better throughout.

${answersTable(runsOf, format)}

### The other aims

${aimsTable(runsOf, format)}`
}

async function fanoutSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'fanout', fanoutLoad)
  if (rows.length === 0) return ''
  const loads = [...new Set(rows.map(fanoutLoad))]
  const parts = ['## Fan-out: one resource, watched by all']
  for (const load of loads) {
    const [watchers, rate] = load.split('/')
    const group = rows.filter((row) => fanoutLoad(row) === load)
    if (watchers === 'undefined') {
      parts.push(table(group, [subjectColumn]).split('\n').slice(3).join('\n'))
      continue
    }
    const title = `${figure(Number(watchers))} watchers, ${rate === '0' ? 'saturated' : `${rate} events/s`}`
    const name = `fanout-${watchers}-${rate === '0' ? 'saturated' : rate}`
    const good = group.filter((row) => row['failed'] === undefined)
    await write(
      `${name}.svg`,
      barChart(good, label, 'deliveriesPerCpuSecond', `Deliveries per server CPU-second: ${title}`),
    )
    await write(`${name}-delay.svg`, delayChart(good, label, `Write to watcher, ms (p50 and p99): ${title}`))
    parts.push(
      `### ${title}`,
      table(group, [
        subjectColumn,
        plain('deliveries / CPU-s', 'deliveriesPerCpuSecond'),
        against('× etcd', 'etcd', 'grpc', 'deliveriesPerCpuSecond', 'times'),
        against('× grpc-proxy', 'grpc-proxy', 'grpc', 'deliveriesPerCpuSecond', 'times'),
        against('× JSON gateway', 'etcd', 'json-gateway', 'deliveriesPerCpuSecond', 'times'),
        against('× API server', 'apiserver', null, 'deliveriesPerCpuSecond', 'times'),
        against('of the limit', 'limit', 'http1', 'deliveriesPerCpuSecond', 'percent'),
        plain('p50 ms', 'p50Ms'),
        plain('p99 ms', 'p99Ms'),
        against("of etcd's", 'etcd', 'grpc', 'p99Ms', 'percent'),
        plain('p99.9 ms', 'p999Ms'),
        plain('max ms', 'maxMs'),
        plain('events/s', 'eventsPerSecond'),
        plain('events a write', 'deliveriesPerWrite'),
        plain('loop p99 ms', 'eventLoopP99Ms'),
        plain('KB a watcher', 'kbPerWatcher'),
      ]),
      `![Deliveries per CPU-second](charts/${name}.svg)`,
      `![Delay](charts/${name}-delay.svg)`,
    )
  }
  return parts.join('\n\n')
}

const API_SERVERS = 'api-servers'

/** etcd's CPU for the watchers, without the writes, as a share of their cost when they watch etcd directly. */
const OF_ETCD_CPU: Column = {
  title: "etcd's CPU for the watchers, of direct",
  cell(row, rows) {
    const ratio = ofDirectEtcdCpu(row, rows)
    return ratio === undefined ? '–' : `${figure(ratio * 100)}%`
  },
}

function etcdApiSection(all: readonly Row[]): string {
  const rows = latest(all, 'etcd-api')
  if (rows.length === 0) return ''
  const [ofTwo, deliveries] = [true, false].map((is) => rows.filter(({ wire }) => (wire === API_SERVERS) === is))
  const parts = [
    `## Etcd's own protocol

The watchers watch one prefix over gRPC, each on its own connection. etcd's CPU is that of etcd itself, also where it is behind another server. The CPU of the writes alone, measured before there are
watchers, is subtracted where it is compared.`,
  ]
  for (const load of new Set(deliveries!.map(fanoutLoad))) {
    const [watchers, rate] = load.split('/')
    parts.push(
      `### ${figure(Number(watchers))} watchers of etcd's protocol, ${rate === '0' ? 'saturated' : `${rate} events/s`}`,
      table(
        deliveries!.filter((row) => fanoutLoad(row) === load),
        [
          subjectColumn,
          plain('deliveries / CPU-s', 'deliveriesPerCpuSecond'),
          against('× etcd', 'etcd', null, 'deliveriesPerCpuSecond', 'times'),
          against('× grpc-proxy', 'grpc-proxy', null, 'deliveriesPerCpuSecond', 'times'),
          plain('p50 ms', 'p50Ms'),
          plain('p99 ms', 'p99Ms'),
          plain('events/s', 'eventsPerSecond'),
          plain('events a write', 'deliveriesPerWrite'),
          plain("etcd's CPU, µs an event", 'etcdCpuMicrosPerEvent'),
          plain('without watchers', 'etcdCpuMicrosPerEventAlone'),
          OF_ETCD_CPU,
        ],
      ),
    )
  }
  if (ofTwo!.length > 0) {
    parts.push(
      '### Two API servers',
      `Both watch everything that they serve, at etcd or at distributary, while ${figure(ofTwo![0]?.['rate'])} pods a second are changed. Watches that distributary has without them are not counted. All programs share the machine's cores.`,
      table(ofTwo!, [
        { title: 'watched at', cell: subjectName },
        plain("etcd's cores", 'etcdCores'),
        plain("etcd's watchers for them", 'etcdWatchers'),
        plain("distributary's cores", 'serverCores'),
        plain("the API servers' cores", 'apiServerCores'),
      ]),
    )
  }
  return parts.join('\n\n')
}

/** How the cost of an event grows from a few selectors to many. */
const GROWTH: Column = {
  title: 'growth',
  cell(row, rows) {
    const first = rows.find((one) => label(one) === label(row))?.['cpuMicrosPerEventAboveIdle']
    const own = row['cpuMicrosPerEventAboveIdle']
    return typeof first === 'number' && typeof own === 'number' ? `${figure(own / first)} ×` : '–'
  },
}

function selectorColumns(title: string): readonly Column[] {
  return [
    subjectColumn,
    plain(title, 'selectors'),
    plain('µs an event', 'cpuMicrosPerEvent'),
    plain('above idle', 'cpuMicrosPerEventAboveIdle'),
    GROWTH,
    plain('p99 ms', 'p99Ms'),
  ]
}

function prefixesSection(all: readonly Row[]): string {
  const rows = latest(all, 'prefixes')
  if (rows.length === 0) return ''
  return `## Parts of a declared prefix: an event costs what it delivers\n\nEach watcher has its own \`?prefix=\`; each event is for one watcher.\n\n${table(rows, selectorColumns('parts'))}`
}

function shardsSection(all: readonly Row[]): string {
  const rows = latest(all, 'shards')
  if (rows.length === 0) return ''
  return `## Shards: an event costs what it delivers\n\nEach watcher has its own \`shardSelector\`; each event is for one watcher.\n\n${table(rows, selectorColumns('shards'))}`
}

async function selectorsSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'selectors')
  if (rows.length === 0) return ''
  const good = rows.filter((row) => row['failed'] === undefined)
  const chart = lineChart(
    good,
    label,
    'selectors',
    'cpuMicrosPerEventAboveIdle',
    'CPU of one event, µs, by distinct selectors',
  )
  await write('selectors.svg', chart)
  const columns = selectorColumns('selectors')
  return `## Selectors: an event costs what it delivers\n\nEach watcher has its own \`spec.nodeName\`; each event is for one watcher.\n\n${table(rows, columns)}\n\n![CPU of an event](charts/selectors.svg)`
}

function oneEventSection(all: readonly Row[]): string {
  const rows = latest(all, 'one-event')
  if (rows.length === 0) return ''
  return `## One event, one watcher

Pods of 3.5 KB, each event for one of a hundred watchers by \`spec.nodeName\`.

${table(rows, [
  subjectColumn,
  plain('objects', 'objects'),
  { title: 'history', cell: (row) => String(row['rings'] ?? '–') },
  plain('events/s', 'rate'),
  plain('µs an event', 'cpuMicrosPerEvent'),
  plain('above idle', 'cpuMicrosPerEventAboveIdle'),
  plain('p50 ms', 'p50Ms'),
  plain('p99 ms', 'p99Ms'),
  plain('resident MB', 'residentMb'),
])}`
}

function objectsSection(all: readonly Row[]): string {
  const rows = latest(all, 'objects')
  if (rows.length === 0) return ''
  return `## Objects: what a server without watchers holds

${table(rows, [
  subjectColumn,
  plain('objects', 'objects'),
  plain('bytes each', 'objectBytes'),
  plain('ready after ms', 'startedMs'),
  plain('CPU s until then', 'startCpuSeconds'),
  plain('memory of an object, bytes', 'bytesPerObject'),
  plain('resident MB', 'residentMb'),
  plain('with 1,000: ready after ms', 'startedMsWithFew'),
])}`
}

function sourceListSection(all: readonly Row[]): string {
  const rows = latest(all, 'source-list')
  if (rows.length === 0) return ''
  return `## Lists from etcd: one stream, or pages

Both ways take turns on one etcd, from which a process of its own reads everything with the server's code.

${table(rows, [
  { title: 'as', cell: (row) => row.subject },
  plain('objects', 'objects'),
  plain('bytes each', 'objectBytes'),
  plain('listed after ms', 'listedMs'),
  plain('reader: CPU s', 'readerCpuSeconds'),
  plain('reader: peak MB', 'readerPeakMb'),
  plain('etcd: CPU s', 'etcdCpuSeconds'),
  plain('etcd: MB before', 'etcdResidentMb'),
  plain('etcd: peak MB', 'etcdPeakMb'),
])}`
}

async function memorySection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'memory')
  if (rows.length === 0) return ''
  const good = rows.filter((row) => row['failed'] === undefined)
  await write('memory.svg', barChart(good, label, 'kbPerIdleWatcher', 'Resident KB of an idle watcher'))
  const columns = [
    subjectColumn,
    plain('watchers', 'watchers'),
    plain('KB idle', 'kbPerIdleWatcher'),
    plain('KB after events', 'kbPerWatcherAfterEvents'),
    plain('resident MB', 'residentMb'),
    plain('all open after ms', 'openedMs'),
  ]
  return `## Memory: what an idle watcher holds\n\n${table(rows, columns)}\n\n![Memory](charts/memory.svg)`
}

function watchesSection(all: readonly Row[]): string {
  const rows = latest(all, 'watches')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('connections', 'connections'),
    plain('watches', 'watches'),
    plain('watchers of an event', 'watchersOfAnEvent'),
    plain('resident MB', 'residentMb'),
    plain('at the most', 'peakResidentMb'),
    plain('KB a watch', 'kbPerWatch'),
    plain('p50 ms', 'p50Ms'),
    plain('p99 ms', 'p99Ms'),
    plain('all open after ms', 'openedMs'),
  ]
  return `## Watches: a hundred thousand on one process\n\n${table(rows, columns)}`
}

const PAPER_NODES = 5_000

function clusterSection(all: readonly Row[]): string {
  const rows = latest(all, 'cluster')
  if (rows.length === 0) return ''
  const who: Column = { title: 'who', cell: (row) => `${label(row)}: ${String(row['part'])}` }
  const load = [plain('nodes', 'nodes'), plain('watches', 'watches'), plain('events/s', 'eventsPerSecond')]
  const costs = table(rows, [
    who,
    ...load,
    plain('deliveries/s', 'deliveriesPerSecond'),
    plain('CPU s', 'cpuSeconds'),
    plain('in s', 'seconds'),
    plain('µs a delivery', 'cpuMicrosPerDelivery'),
    plain('KB a node', 'kbPerNode'),
    plain('resident MB', 'residentMb'),
  ])
  const good = rows.filter((row) => row['failed'] === undefined)
  if (good.length === 0) return `## Cluster: what its nodes watch\n\n${costs}`
  const delays = table(good, [
    who,
    ...Object.entries(CLUSTER_KINDS).map(([kind, title]): Column => ({
      title,
      cell: (row) => `${figure(row[`${kind}P50Ms`])} / ${figure(row[`${kind}P99Ms`])}`,
    })),
  ])
  const back = table(good, [
    who,
    plain('missed events', 'missedEvents'),
    plain('all watches open after ms', 'reopenedMs'),
    plain('all level after ms', 'levelMs'),
    plain('connected again', 'connectedAgain'),
    plain('had to relist', 'hadToRelist'),
    plain('CPU s', 'reconnectCpuSeconds'),
    plain('MB at the worst', 'reconnectPeakMb'),
  ])
  return `## Cluster: what its nodes watch

Each node has one connection of HTTP/2 over TLS with the watches of a kubelet, a proxy and two agents; pods are replaced,
endpoint slices follow, and nodes report their status. Objects of Kubernetes are stored as protobuf. The API server serves
the custom resources of it alone.

${costs}

### Delay by kind: p50 / p99, ms

${delays}

### All nodes reconnect at once

${back}

### ${figure(PAPER_NODES)} nodes, on paper

Computed from the rows above, not measured: a delivery costs the same, and memory grows with the nodes and their objects. With
five times as many nodes, the nodes' own objects change five times as often in total. Objects that every node watches change either
as often as measured, or five times as often too.

${onPaper(good)}`
}

/** Titles of the kinds, by their names in rows. */
const CLUSTER_KINDS = {
  pods: 'pods of the node',
  node: 'the node itself',
  config: 'one config map',
  custom: 'custom, of the node',
  services: 'services, of all',
  slices: 'endpoint slices, of all',
  policies: 'custom, of all',
} as const

function onPaper(rows: readonly Row[]): string {
  const number = (row: Row, name: string): number => Number(row[name])
  const times = (row: Row): number => PAPER_NODES / number(row, 'nodes')
  const cores = (row: Row, sharedTimes: number): number =>
    ((number(row, 'ownPerSecond') * times(row) + number(row, 'sharedPerSecond') * times(row) * sharedTimes) *
      number(row, 'cpuMicrosPerDelivery')) /
    1e6
  const gigabytes = (row: Row): number =>
    (number(row, 'residentMbBefore') * times(row)) / 1024 + (number(row, 'kbPerNode') * PAPER_NODES) / 2 ** 20
  return table(rows, [
    { title: 'who', cell: (row) => `${label(row)}: ${String(row['part'])}` },
    { title: 'cores, shared objects as often', cell: (row) => figure(cores(row, 1)) },
    { title: 'cores, five times as often', cell: (row) => figure(cores(row, times(row))) },
    { title: 'memory, GB, at the most', cell: (row) => figure(gigabytes(row)) },
  ])
}

async function listSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'list')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('objects', 'objects'),
    plain('at once', 'askers'),
    plain('body bytes', 'bodyBytes'),
    plain('CPU ms each', 'cpuMsEach'),
    plain('p50 ms', 'p50Ms'),
    plain('max ms', 'maxMs'),
    plain('first ms', 'coldMs'),
    plain('memory + MB', 'peakAboveMb'),
  ]
  return `## Lists: many full lists at once\n\n${table(rows, columns)}`
}

function definitionsSection(all: readonly Row[]): string {
  const rows = latest(all, 'definitions')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('definitions', 'definitions'),
    plain('objects', 'objects'),
    plain('a requested resource listed, ms', 'askedMs'),
    plain('ready, ms', 'readyMs'),
    plain('CPU s', 'startCpuSeconds'),
    plain('resident MB', 'residentMb'),
    plain('SIGTERM to exit, ms', 'stopMs'),
    plain('ready again, ms', 'readyAgainMs'),
    plain('relists', 'relists'),
    plain('latest event after it was ready, ms', 'latestMs'),
  ]
  const about =
    'At the first start one client requests one resource. At the second, a client for each resource comes back every tenth of a second, or when Retry-After says, and 50 events a second are written.'
  return `## A restart with many definitions\n\n${about}\n\n${table(rows, columns)}`
}

function edgeSection(all: readonly Row[]): string {
  const rows = latest(all, 'edge')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('clients', 'watchers'),
    plain('origin cores', 'originCores'),
    plain('origin CPU µs for an event', 'usPerEvent'),
    plain('cache cores', 'cacheCores'),
    plain('client cores', 'clientCores'),
    plain('mean ms', 'meanMs'),
    plain('p50 ms', 'p50Ms'),
    plain('p99 ms', 'p99Ms'),
  ]
  const about =
    'Long polls through nginx and Varnish, and Server-Sent Events straight from the server (sse), at 16 events a second. The clients are one process, which shares its core with the cache: near one core together, the delay is theirs. Electric publishes 238 ms on average and 405 ms at p99, for a million clients behind a CDN.'
  return `## Clients behind HTTP caches\n\n${about}\n\n${table(rows, columns)}`
}

async function stormSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'storm')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('watchers', 'watchers'),
    plain('missed events', 'missedEvents'),
    plain('lists', 'lists'),
    plain('all caught up, ms', 'caughtUpMs'),
    plain('all listed, ms', 'listedMs'),
    plain('had to relist', 'hadToRelist'),
    plain('CPU s', 'cpuSeconds'),
    plain('memory + MB', 'peakAboveMb'),
  ]
  return `## Storm: all watchers return at once\n\n${table(rows, columns)}`
}

async function recoverySection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'recovery')
  if (rows.length === 0) return ''
  const columns: Column[] = [
    { title: 'fault', cell: (row) => String(row['fault']) },
    plain('rounds', 'rounds'),
    plain('etcd takes a write after ms', 'takenP50Ms'),
    plain('every watcher told after ms', 'toldP50Ms'),
    plain('at the most', 'toldMaxMs'),
    plain('at the most, from the write on', 'toldAfterTakenMaxMs'),
    plain('consistent lists answered after ms, at the most', 'listedMaxMs'),
  ]
  const about =
    'From the moment at which the member froze, or at which etcd was healthy again. The write is of three resources, and made as soon as etcd takes it; a frozen leader has to be replaced before.'
  return `## Recovery: a member freezes, or etcd goes away\n\n${about}\n\n${table(rows, columns)}`
}

async function natsSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'nats')
  if (rows.length === 0) return ''
  const columns = [
    plain('NATS servers', 'servers'),
    plain('edges', 'edges'),
    plain('events/s', 'rate'),
    plain('p50 ms at the publisher', 'directP50Ms'),
    plain('p99', 'directP99Ms'),
    plain('p50 ms at an edge', 'p50Ms'),
    plain('p99', 'p99Ms'),
    plain('most', 'maxMs'),
    plain('bytes NATS sends for an event and edge', 'natsBytesPerEventAndEdge'),
    plain('events/s carried', 'carriedPerSecond'),
    plain('a new edge is ready after ms', 'edgeReadyMs'),
  ]
  const costs = [
    plain('NATS servers', 'servers'),
    plain('publisher', 'publisherMicrosPerEvent'),
    plain('NATS', 'natsMicrosPerEvent'),
    plain('an edge without watchers', 'edgeMicrosPerEvent'),
    plain('etcd', 'etcdMicrosPerEvent'),
    plain('cores when nothing happens: publisher', 'publisherIdleCores'),
    plain('NATS', 'natsIdleCores'),
    plain('an edge', 'edgeIdleCores'),
    plain('resident MB: publisher', 'publisherResidentMb'),
    plain('NATS', 'natsResidentMb'),
    plain('a new edge', 'edgeResidentMb'),
  ]
  const snapshots = [
    plain('NATS servers', 'servers'),
    plain('objects', 'objects'),
    plain('CPU seconds of the publisher', 'publisherSecondsPerSnapshot'),
    plain('p99 ms at an edge in the minute around it', 'snapshotP99Ms'),
    plain('most', 'snapshotMaxMs'),
  ]
  const about =
    'One publisher, edges and NATS, each a process of its own; all share two cores. CPU is above what it is when nothing happens, for all servers of NATS together.'
  return `## NATS: what the hop costs\n\n${about}\n\n${table(rows, columns)}\n\nµs of CPU an event, and what is held:\n\n${table(rows, costs)}\n\nA snapshot, which the publisher takes every 10,000 messages or so, above what the events cost:\n\n${table(rows, snapshots)}`
}

async function workersSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'workers')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('workers', 'workers'),
    plain('µs CPU a delivery', 'cpuMicrosPerDelivery'),
    plain('× one worker', 'ofOneWorker'),
    plain('p99 ms', 'p99Ms'),
  ]
  return `## Workers: two against one\n\nThe load runs on the same cores.\n\n${table(rows, columns)}`
}

async function slowSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'slow')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('watchers', 'watchers'),
    plain('events/s', 'rate'),
    plain('stalled', 'stalled'),
    plain('p99 ms without', 'p99MsWithout'),
    plain('p99 ms of the others', 'p99MsOfOthers'),
    plain('ratio', 'p99Ratio'),
  ]
  return `## Slow readers: the effect on others\n\n${table(rows, columns)}`
}

async function loopSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'loop')
  if (rows.length === 0) return ''
  const text = (title: string, name: string): Column => ({ title, cell: (row) => String(row[name] ?? '–') })
  const columns = [
    text('request', 'request'),
    text('answer', 'status'),
    plain('block, CPU ms', 'blockCpuMs'),
    plain('block, ms', 'blockMs'),
    plain('p99 ms beside it', 'p99Ms'),
    plain('p99 ms just before', 'p99MsWithout'),
    plain('max ms beside it', 'maxMs'),
    plain('answered after ms', 'answerMs'),
  ]
  const about =
    'Each request twice, while 100 watchers are sent 50 events a second over 10,000 objects. A block is the longest time for which the event loop did nothing else: what its thread computed, and what passed, which on a busy machine includes what others took. The p99 is of all deliveries to the 100 watchers in the 2 seconds in which the request is sent, and in the 2 seconds before. The threads that compute writes share the core with the loop.'
  const besideBursts = rows.filter((row) => typeof row['otherP99Ms'] === 'number')
  const burstColumns = [
    text('burst', 'request'),
    plain('its gets: p50 ms', 'answerMs'),
    plain('p99 ms', 'otherP99Ms'),
    plain('p99 ms just before', 'otherP99MsWithout'),
  ]
  const others =
    besideBursts.length === 0
      ? ''
      : `\n\nBeside each burst another client, on one connection, sends one get after the other:\n\n${table(besideBursts, burstColumns)}`
  const loads = rows.map(({ load }) => load).filter((load) => typeof load === 'number')
  const load =
    loads.length === 0
      ? ''
      : ` The load average of the machine, which has ${String(rows[0]!['cores'])} cores, was ${Math.max(...loads)} at its highest: the longest blocks are longer than on a machine of its own.`
  return `## Loop: what a request can do to other clients\n\n${about}${load}\n\n${table(rows, columns)}${others}`
}

async function ingestSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'ingest')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('events/s', 'eventsPerSecond'),
    plain('µs CPU an event', 'cpuMicrosPerEvent'),
    plain('lag p50 ms', 'p50Ms'),
    plain('lag p99 ms', 'p99Ms'),
    plain('put p99 ms', 'putP99Ms'),
  ]
  const about =
    'One watcher, as many writes as etcd takes. When etcd itself is measured it has a core of its own; behind the others it shares one with the writer, so compare lag, not events/s, with it.'
  return `## Ingest: how much comes in\n\n${about}\n\n${table(rows, columns)}`
}

function schemaReadSection(all: readonly Row[]): string {
  const rows = latest(all, 'schema-read')
  if (rows.length === 0) return ''
  const columns: Column[] = [
    { title: 'an object in which', cell: (row) => row.subject },
    plain('bytes', 'objectBytes'),
    plain('µs CPU', 'p50Us'),
    plain('fastest', 'fastestUs'),
    plain('slowest', 'slowestUs'),
  ]
  return `## Schemas: what reading a custom object costs\n\n${table(rows, columns)}`
}

async function informerSection(all: readonly Row[]): Promise<string> {
  const rows = latest(all, 'informer')
  if (rows.length === 0) return ''
  const columns = [
    subjectColumn,
    plain('objects', 'objects'),
    plain('synced ms', 'syncMs'),
    against('of client-node', 'client-node', 'list', 'syncMs', 'percent'),
    plain('CPU ms', 'cpuMs'),
    plain('bytes an object', 'heldBytesPerObject'),
    plain('as JSON', 'rawBytesPerObject'),
    plain('above it', 'aboveRawBytesPerObject'),
    against('of client-node', 'client-node', 'list', 'aboveRawBytesPerObject', 'percent'),
    plain('peak MB', 'peakResidentMb'),
  ]
  const about = 'One process, one informer, its first state; memory is after a collection, less what was there before.'
  return `## Informer: a client’s own copy\n\n${about}\n\n${table(rows, columns)}`
}

async function write(name: string, svg: Promise<string>): Promise<void> {
  writeFileSync(`${benchDirectory}charts/${name}`, await svg)
}
