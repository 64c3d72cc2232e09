/**
 * The capacity table of docs/guide/operations.md, from recorded measurements (`bench/results.jsonl`): the newest complete run
 * of each question. No figure is typed by hand. A transport that was never measured has no row.
 */
import { isOfReadme } from '../../bench/support/readme-rows.js'
import { reliefFigures, reliefTable } from '../../bench/support/relief-rows.js'
import { figure, lastRun, newest, NOT_YET, parseRows, type Row, WIRES, withMade } from './recorded.js'

/** Returns docs/guide/operations.md with the current table. @throws Error when the table's markers are missing. */
export function withCapacity(page: string, recorded: string): string {
  return withMade(page, capacity(parseRows(recorded)))
}

/**
 * Returns README.md with its current chart, its text on what a cluster gains, and its short table of what watchers cost.
 * @throws Error when the markers of one of them are missing.
 */
export function withLoads(page: string, recorded: string): string {
  const rows = parseRows(recorded)
  const charted = withMade(page, chart(rows), CHART)
  return withMade(withMade(charted, relief(lastRun(recorded, 'relief')), RELIEF), loads(rows))
}

const CHART = '<!-- Generated from bench/results.jsonl by `npm run generate`: the chart. -->'

const RELIEF = '<!-- Generated from bench/results.jsonl by `npm run generate`: what a cluster gains. -->'

/** The table of what a cluster gains, once that has been measured. */
function relief(rows: readonly Row[]): string {
  const [first] = rows
  if (first === undefined) return ''
  return [
    `A simulated cluster has ${figure(first['nodes'])} nodes with an agent on each, ${figure(first['pods'])} pods, and a Deployment that rolls out every ten seconds. The table shows what the cluster`,
    'gains when the agents watch distributary instead of the API server, with distributary as a sidecar next to etcd or behind the API server (`--upstream`):',
    '',
    reliefTable(
      rows,
      reliefFigures.filter(({ isMain }) => isMain === true),
      figure,
    ),
    '',
    '*Storm*: the API server restarts, and all agents reconnect at once. [How it was measured](bench/RESULTS.md#relief-what-a-cluster-gains)',
  ].join('\n')
}

/** The chart for node agents, once they have been measured. */
function chart(rows: readonly Row[]): string {
  const agents = newest(rows.filter((row) => row.question === 'agents' && row['agents'] === 300))
  return agents === undefined
    ? [
        'The chart shows deliveries per CPU-second of the server, with 1,000 watchers and 20 events of 1 KiB per second. All were measured in the same run. *Limit* is a',
        'C program that sends the same bytes and does nothing else. [bench/RESULTS.md](bench/RESULTS.md) has every measurement.',
        '',
        '![Deliveries per CPU-second, compared with etcd, its proxy, its gateway and the limit](bench/charts/fanout-1000-20.svg)',
      ].join('\n')
    : [
        `The chart shows the server's CPU time per delivery to 300 node agents. distributary and the API server of Kubernetes ${String(agents['apiServer'])} took turns on the same`,
        'etcd. Each agent has one HTTP/2 connection over TLS with four watches in protobuf. A delivery costs far less when one connection carries many watches of the',
        'same resource. [bench/RESULTS.md](bench/RESULTS.md) has every measurement.',
        '',
        '![Server CPU per delivery to a node agent, compared with the API server](bench/charts/readme.svg)',
      ].join('\n')
}

function capacity(rows: readonly Row[]): string {
  const table = Object.entries(WIRES).flatMap(([wire, name]) => {
    const { memory, paced } = costsOf(rows, wire)
    if (memory === undefined && paced === undefined) return []
    const cells = [
      figure(memory?.['kbPerIdleWatcher']),
      figure(memory?.['kbPerWatcherAfterEvents']),
      figure(paced?.['deliveriesPerCpuSecond']),
      paced === undefined ? NOT_YET : `${figure(paced['watchers'])} at ${figure(paced['rate'])} events/s`,
      figure(paced?.['p99Ms']),
    ]
    return [`| ${[name, ...cells].join(' | ')} |`]
  })
  const lists = Object.entries(WIRES).flatMap(([wire, name]) => {
    const row = newest(rows.filter((one) => one.question === 'list' && one.wire === wire))
    if (row === undefined) return []
    const each = `${figure(row['objects'])} objects, ${figure(Number(row['bodyBytes']) / 2 ** 20)} MiB`
    return [
      `| ${name} | ${each} | ${figure(row['askers'])} | ${figure(row['cpuMsEach'])} | ${figure(row['peakAboveMb'])} |`,
    ]
  })
  const last = newest(rows.filter(({ question }) => question === 'fanout'))
  return [
    '| transport | KB per idle watcher | KB after events | deliveries per CPU-second | measured with | delay p99, ms |',
    '| --- | ---: | ---: | ---: | --- | ---: |',
    ...table,
    '',
    '| list over | size | concurrent requests | CPU ms each | additional memory, MB |',
    '| --- | --- | ---: | ---: | ---: |',
    ...(lists.length > 0 ? lists : [`| ${NOT_YET} | | | | |`]),
    '',
    `Memory of an object of 1 KiB, without history: ${perObject(rows)}.`,
    '',
    last === undefined
      ? 'Nothing has been recorded.'
      : `Events of about 1 KiB, one process on one core of ${String(last['cpu'])}, ${String(last['cores'])} cores, with Node ` +
        `${String(last['node'])}, etcd ${String(last['etcd'])}, commit ${String(last['commit'])}. [RESULTS](../../bench/RESULTS.md) has all ` +
        'measurements, including etcd itself. Run `npm run bench -- fanout` to measure your own machine.',
    '',
    '### A table for planning',
    '',
    'Cores are deliveries per second (watchers × events per second to each) divided by the deliveries per CPU-second above. Memory is for the watchers alone, after events.',
    '',
    ...planning(rows),
  ].join('\n')
}

/** The cost of watchers over one transport: their memory, and the largest load at a fixed rate. */
function costsOf(
  rows: readonly Row[],
  wire: string,
): { readonly memory?: Row | undefined; readonly paced?: Row | undefined } {
  const fanout = rows.filter((row) => row.question === 'fanout' && row.wire === wire && Number(row['rate']) > 0)
  const most = Math.max(...fanout.map((row) => Number(row['watchers'])))
  return {
    memory: newest(rows.filter((row) => row.question === 'memory' && row.wire === wire)),
    paced: newest(fanout.filter((row) => Number(row['watchers']) === most)),
  }
}

const PLANNED_WIRES = ['http1', 'http1-tls', 'http2x100-tls']
const PLANNED_LOADS = [
  [1_000, 20],
  [5_000, 5],
  [10_000, 5],
  [10_000, 20],
  [50_000, 5],
] as const

function planning(rows: readonly Row[]): readonly string[] {
  const wires = PLANNED_WIRES.map((wire) => ({ name: WIRES[wire], ...costsOf(rows, wire) }))
  return [
    `| watchers | events/s to each | deliveries/s | ${wires.map(({ name }) => name).join(' | ')} |`,
    `| ---: | ---: | ---: |${' --- |'.repeat(wires.length)}`,
    ...PLANNED_LOADS.map(([watchers, rate]) => {
      const deliveries = watchers * rate
      const cells = wires.map(({ memory, paced }) => {
        const cores = deliveries / Number(paced?.['deliveriesPerCpuSecond'])
        const mb = (watchers * Number(memory?.['kbPerWatcherAfterEvents'])) / 1_000
        return `${figure(Number(cores.toPrecision(2)))} cores, ${figure(Math.round(mb))} MB`
      })
      return `| ${[figure(watchers), figure(rate), figure(deliveries), ...cells].join(' | ')} |`
    }),
  ]
}

/** The newest run of each paced load, the lightest first. */
function loads(rows: readonly Row[]): string {
  const paced = rows.filter((row) => row.question === 'fanout' && isOfReadme(row))
  const keyOf = (row: Row): string => [row['watchers'], row['rate'], row.wire].join()
  const table = [...new Set(paced.map(keyOf))].map((key) => newest(paced.filter((row) => keyOf(row) === key))!)
  const order = Object.keys(WIRES)
  table.sort((a, b) => Number(a['watchers']) - Number(b['watchers']) || order.indexOf(a.wire) - order.indexOf(b.wire))
  return [
    '| watchers | events/s | transport | deliveries/s | cores | memory, MB | delay p99, ms |',
    '| ---: | ---: | --- | ---: | ---: | ---: | ---: |',
    ...table.map((row) => {
      const load = `| ${figure(row['watchers'])} | ${figure(row['rate'])} | ${WIRES[row.wire]} | ${figure(row['deliveriesPerSecond'])} |`
      return `${load} ${figure(row['serverBusy'])} | ${figure(row['residentMb'])} | ${figure(row['p99Ms'])} |`
    }),
  ].join('\n')
}

/** From two sizes of the same state, so that the fixed cost of the process does not count. */
function perObject(rows: readonly Row[]): string {
  const bytes = newest(rows.filter(({ question }) => question === 'objects'))?.['bytesPerObject']
  return typeof bytes === 'number' ? `${figure(bytes / 1024)} KB` : NOT_YET
}
